package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// flow is one flow and what the peer measured.
type flow struct {
	from, to  int         // hosts, from 0
	size      units.Bytes // payload
	startedAt int64       // ns
	fct       map[string]float64
}

// control is a rate control that the peer has run.
type control struct {
	name string
	// peerHeader and header are the bytes that a packet has on the wire beyond its payload, in
	// the peer (PPP with the length of an Ethernet header, IP, UDP, its sequence header,
	// telemetry or timestamp) and here (Ethernet with preamble, FCS and gap, IP, UDP,
	// BTH, ICRC, telemetry).
	peerHeader, header units.Bytes
}

var controls = []control{{"hpcc", 90, 94}, {"dcqcn", 48, 82}, {"timely", 56, 82}}

func controlOf(name string) *control {
	for i := range controls {
		if controls[i].name == name {
			return &controls[i]
		}
	}
	panic("crosscheck: unknown control " + name)
}

const (
	payload = 1024 * units.Byte // of a full packet
	// immediate is what the last packet of a flow carries in addition: immediate data.
	immediate = 4 * units.Byte
	line      = 100 * units.Gbps
)

// readPeer reads the flows and the peer's completion times.
func readPeer(name string) ([]flow, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var flows []flow
	for i, row := range rows[1:] {
		var v [7]int64
		if len(row) != len(v) {
			return nil, fmt.Errorf("%s:%d: %d fields, want %d", name, i+2, len(row), len(v))
		}
		for k := range v {
			if v[k], err = strconv.ParseInt(row[k], 10, 64); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+2, err)
			}
		}
		flows = append(flows, flow{int(v[0]), int(v[1]), units.Bytes(v[2]), v[3], map[string]float64{
			"hpcc": float64(v[4]), "dcqcn": float64(v[5]), "timely": float64(v[6]),
		}})
	}
	return flows, nil
}

// peerTime returns how long a flow's packets occupy a link in the peer, whose clock counts whole
// nanoseconds: a packet takes the time of its bytes, rounded down.
func (c *control) peerTime(size units.Bytes) units.Time {
	packet := func(n units.Bytes) units.Time {
		return line.TimeOf(n+c.peerHeader) / units.Nanosecond * units.Nanosecond
	}
	t := units.Time(size/payload) * packet(payload)
	if rest := size % payload; rest > 0 {
		t += packet(rest)
	}
	return t
}

// scaleSize returns the size of a flow whose packets occupy a link here as long as a flow of that
// size does in the peer; at least 1 byte.
func (c *control) scaleSize(size units.Bytes) units.Bytes {
	wire := line.BytesIn(c.peerTime(size)) - immediate
	full := wire / (payload + c.header)
	rest := wire - full*(payload+c.header)
	return max(1, full*payload+max(0, rest-c.header))
}

// formatList returns the flows as a file for HPCC's simulator, with sizes scaled for a control if c
// is not nil.
func formatList(flows []flow, c *control) string {
	var b strings.Builder
	fmt.Fprintln(&b, len(flows))
	for i := range flows {
		f := &flows[i]
		size := f.size
		if c != nil {
			size = c.scaleSize(size)
		}
		fmt.Fprintf(&b, "%d %d 3 100 %d %.9f\n", f.from, f.to, int64(size), float64(f.startedAt)*1e-9)
	}
	return b.String()
}

// writeLists writes the scaled lists of flows.
func writeLists(dir string, flows []flow) error {
	for i := range controls {
		c := &controls[i]
		if err := os.WriteFile(filepath.Join(dir, "labs", c.name+".flows"), []byte(formatList(flows, c)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
