// Package cell runs one cell of an experiment in virtual time, and returns the tables of
// the run.
package cell

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
)

// Run runs a job in virtual time. It reports its progress to tell, which may be nil.
func Run(ctx context.Context, j *experiment.Job, tell func(experiment.Progress)) (table.Bundle, error) {
	p, err := resolve.ParseSeed(j.LabName, []byte(j.Lab), j.Seed)
	if err != nil {
		return nil, err
	}
	o := run.Options{Workers: 1}
	if tell != nil {
		o.Progress = func(now status.Progress) {
			tell(experiment.Progress{Now: now.Now, Until: run.HorizonOf(p).Until, Hops: now.Hops, Flows: now.Flows})
		}
	}
	r, err := run.New(p, o)
	if err != nil {
		return nil, err
	}
	r.RecordPauses()
	series, err := recordSeries(r, &j.Record)
	if err != nil {
		return nil, err
	}
	flows := NewFlowTable(r.Fabric.FlowNames())
	r.RecordPatterns(flows, true)
	if err := r.Do(ctx); err != nil {
		return nil, err
	}
	all := slices.Concat(RunTables(r.Fabric, r.Pauses(), flows), flows.Tables())
	for _, s := range series {
		t, err := ReadSeries(s.name, &s.csv)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	programs, err := ProgramTables(j.Real)
	if err != nil {
		return nil, err
	}
	return append(all, programs...), nil
}

// SeriesOf returns the series that a job wants to record in a lab with this clock; nil if
// none.
func SeriesOf(p *plan.Plan, want *experiment.Recording, clock experiment.Clock) (queues *recording.Series, flows *recording.FlowSeries, err error) {
	wall, length := clock == experiment.Wall, p.Duration
	if wall {
		length = 0 // the programs determine when it ends
	}
	if len(want.Queues) > 0 {
		queues = &recording.Series{Every: want.Every, Length: length, Wall: wall}
		if queues.Ports, err = p.MatchPorts(want.Queues); err == nil {
			err = queues.Check(p)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("queues: %w", err)
		}
	}
	if len(want.Flows) > 0 {
		flows = &recording.FlowSeries{Every: want.Every, Length: length, Flows: want.Flows, Wall: wall}
		if err := flows.Check(p); err != nil {
			return nil, nil, fmt.Errorf("flows: %w", err)
		}
	}
	return queues, flows, nil
}

// Check checks that a lab can record what is wanted with this clock.
func Check(p *plan.Plan, want *experiment.Recording, clock experiment.Clock) error {
	_, _, err := SeriesOf(p, want, clock)
	return err
}

// series is a series of a run, in memory.
type series struct {
	name string // of the table
	csv  bytes.Buffer
}

// Write implements io.Writer.
func (s *series) Write(b []byte) (int, error) { return s.csv.Write(b) }

// Close implements io.Closer; it has nothing to do.
func (s *series) Close() error { return nil }

// recordSeries makes a run record the series that a job wants. They are complete after the run.
func recordSeries(r *run.Run, want *experiment.Recording) (all []*series, err error) {
	queues, flows, err := SeriesOf(r.Fabric.Plan, want, experiment.Virtual)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	add := func(name string) run.Output {
		s := &series{name: name}
		all = append(all, s)
		return run.Output{Name: name, What: "the table " + name, To: s}
	}
	if queues != nil {
		r.RecordQueues(*queues, add(QueueSeries))
	}
	if flows != nil {
		r.RecordFlows(*flows, add(FlowSeries))
	}
	return all, nil
}

// ReadSeries reads a series of queues or flows as a run writes it.
func ReadSeries(name string, csv io.Reader) (*table.Table, error) {
	return table.ReadCSV(name, csv, textColumns...)
}

// textColumns are the columns of series that hold text.
var textColumns = []string{"port", "class", "nic", "qpn", "transfer", "flow"}
