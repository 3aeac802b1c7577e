package systems

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket/pcapgo"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/observe/dissector"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
)

const us, ms = units.Microsecond, units.Millisecond

func runTo(t rapid.TB, f *fabric.Fabric, until units.Time) {
	t.Helper()
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
}

// carry runs a plan with traffic to its end and returns the records, in order.
func carry(t testing.TB, p *plan.Plan, workers int) (*fabric.Fabric, []records.Record, string) {
	t.Helper()
	f, err := fabric.NewParallel(p, workers)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Shards) != workers {
		t.Fatalf("%d workers run the lab, not %d", len(f.Shards), workers)
	}
	var all fabrictest.Records
	var text bytes.Buffer
	file := records.NewCSV(&text, f.FlowNames())
	f.SetFlowSink(records.Tee(&all, file), true)
	runTo(t, f, units.Never)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	checkBalance(t, f, true)
	return f, all, text.String()
}

// checkBalance checks that every packet is accounted for; ended means that none may be left.
func checkBalance(t testing.TB, f *fabric.Fabric, ended bool) {
	t.Helper()
	if a := f.Accounts(); !a.Balanced() || ended && a.Held != 0 {
		t.Errorf("packets are missing: %+v", a)
	}
}

// states counts records by state, and retransmissions.
func states(all []records.Record) (n map[records.State]int, again uint64) {
	n = map[records.State]int{}
	for _, r := range all {
		n[r.State]++
		again += r.Retransmitted
	}
	return n, again
}

// goodputs runs a fabric until the given time and returns the payload rate of
// each transfer since now, in Gb/s.
func goodputs(t testing.TB, f *fabric.Fabric, until units.Time) map[string]float64 {
	t.Helper()
	from, before := f.Now(), f.Transfers()
	runTo(t, f, until)
	got := map[string]float64{}
	for i, r := range f.Transfers() {
		got[r.Transfer] = 8e-9 * float64(r.Received-before[i].Received) / (until - from).Seconds()
	}
	return got
}

// pauseTotals counts the pause frames that all ports received, and the time for
// which they paused a class.
func pauseTotals(f *fabric.Fabric) (n uint64, paused units.Time) {
	for _, p := range f.Status() {
		for _, c := range p.Classes {
			n += c.PauseFramesRx
			paused += c.PausedTime
		}
	}
	return n, paused
}

// portNamed finds a port by its name.
func portNamed(t testing.TB, f *fabric.Fabric, name string) status.Port {
	t.Helper()
	node, index, err := f.Plan.Endpoint(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.PortStatus(node, index)
}

// byName returns gauges by their names.
func byName(list []gauge.Value) map[string]float64 {
	m := map[string]float64{}
	for _, g := range list {
		m[g.Name] = g.Value
	}
	return m
}

// packetHops returns how many packets all ports have sent.
func packetHops(f *fabric.Fabric) (n uint64) {
	for _, s := range f.Status() {
		n += s.TxPackets
	}
	return n
}

// observer is a port.Observer.
type observer func(p *packet.Packet, dir port.Direction, fate packet.Fate)

func (o observer) Observe(_ units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	o(p, dir, fate)
}

// dissectorFile returns a file with weft's dissectors for tshark.
func dissectorFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft.lua")
	if err := os.WriteFile(file, dissector.Lua(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// captured returns the frames that pass some ports while a function runs, in order of time.
func captured(t testing.TB, f *fabric.Fabric, ports []fabric.Watched, run func()) (frames [][]byte) {
	t.Helper()
	c, err := f.NewCapture(ports, capture.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	file := new(bytes.Buffer)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), file)
		ended <- err
	}()
	stop := f.Watch(ports, c)
	run()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Length != len(data) {
			t.Errorf("%d bytes of a packet of %d", len(data), info.Length)
		}
		frames = append(frames, data)
	}
}
