package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
)

// Ethernet's preamble, FCS and gap, which frame counters do not include.
const beyondFrame = 24

// Run is the run of one lab: its report and its series of whole ports.
type Run struct {
	Lab     string
	Report  report.Report
	Command string // to be typed in the top directory

	rows map[string][]series.Row // by port, in time order
}

// Weft runs the weft command.
type Weft func(args ...string) *exec.Cmd

// simulate runs a lab file in virtual time, as long as the file says if length is 0.
func (weft Weft) simulate(file string, length units.Time) (*Run, error) {
	work, err := os.MkdirTemp("", "baselines")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	samples := filepath.Join(work, "series.csv")
	var out, failed bytes.Buffer
	c := weft("sim", file, "--json", "--qp", "--series", samples, "--for", length.String())
	c.Stdout, c.Stderr = &out, &failed
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("weft sim %s: %w\n%s", file, err, failed.Bytes())
	}
	r := &Run{rows: map[string][]series.Row{}}
	if err := json.Unmarshal(out.Bytes(), &r.Report); err != nil {
		return nil, fmt.Errorf("report of %s: %w", file, err)
	}
	f, err := os.Open(samples)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return r, series.Read(f, func(row *series.Row) error {
		if row.Class == "" {
			r.rows[row.Port] = append(r.rows[row.Port], *row)
		}
		return nil
	})
}

func (r *Run) port(name string) *status.Port {
	for i := range r.Report.Ports {
		if r.Report.Ports[i].Name == name {
			return &r.Report.Ports[i]
		}
	}
	return &status.Port{}
}

// frame returns the mean size of the frames that left a port, in bytes.
func (r *Run) frame(port string) float64 {
	p := r.port(port)
	return float64(p.TxBytes) / float64(max(p.TxPackets, 1))
}

// gauge returns the final value of a rate control gauge of a NIC's first queue
// pair.
func (r *Run) gauge(nic, name string) float64 {
	for i := range r.Report.QPs {
		if q := &r.Report.QPs[i]; q.NIC == nic {
			for _, g := range q.Gauges {
				if g.Name == name {
					return g.Value
				}
			}
		}
	}
	return math.NaN()
}

// rates returns the rate of a port in each bin of emulated time, in bit/s on
// the wire.
func (r *Run) rates(port string, bin units.Time) []float64 {
	frame := r.frame(port)
	var out []float64
	for i := range r.rows[port] {
		row := &r.rows[port][i]
		k := int((row.At - 1) / bin)
		for len(out) <= k {
			out = append(out, 0)
		}
		out[k] += float64(row.TxBytes) * (1 + beyondFrame/frame) * 8 / bin.Seconds()
	}
	return out
}

// rate returns the mean rate of a port between two times, in bit/s on the wire.
func (r *Run) rate(port string, from, to units.Time) float64 {
	sum := 0.0
	for i := range r.rows[port] {
		if row := &r.rows[port][i]; row.At > from && row.At <= to {
			sum += float64(row.TxBytes)
		}
	}
	return sum * (1 + beyondFrame/r.frame(port)) * 8 / (to - from).Seconds()
}

// queue returns the samples of a port's queue between two times, in bytes.
func (r *Run) queue(port string, from, to units.Time) []float64 {
	var out []float64
	for i := range r.rows[port] {
		if row := &r.rows[port][i]; row.At > from && row.At <= to {
			out = append(out, float64(row.Queue))
		}
	}
	return out
}

// queueLine returns them as points of a picture: time in units of unit, and KB.
func (r *Run) queueLine(port string, from, to, unit units.Time) plotter.XYs {
	var out plotter.XYs
	for i := range r.rows[port] {
		if row := &r.rows[port][i]; row.At > from && row.At <= to {
			out = append(out, plotter.XY{X: (row.At - from).Seconds() / unit.Seconds(), Y: float64(row.Queue) / 1e3})
		}
	}
	return out
}

// line returns rates in bins as points of a picture: time in units of unit, and
// Gb/s.
func line(rates []float64, bin, unit units.Time) plotter.XYs {
	out := make(plotter.XYs, len(rates))
	for i, v := range rates {
		out[i] = plotter.XY{X: float64(i+1) * bin.Seconds() / unit.Seconds(), Y: v / 1e9}
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// quantile returns the value below which a share of v lies.
func quantile(v []float64, share float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(int(share*float64(len(s))), len(s)-1)]
}
