// Package cell runs one cell of an experiment in virtual time, and returns the tables of
// the run.
package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/sim/units"
)

// tellEvery is how often a run reports its progress.
const tellEvery = 500 * time.Millisecond

// Run runs a job in virtual time. It reports its progress to tell, which may be nil.
func Run(ctx context.Context, j *experiment.Job, tell func(experiment.Progress)) (table.Bundle, error) {
	p, err := resolve.ParseSeed(j.LabName, []byte(j.Lab), j.Seed)
	if err != nil {
		return nil, err
	}
	until := units.Never
	if p.Duration > 0 {
		until = p.Duration
	}
	fb, err := fabric.NewParallel(p, 1)
	if err != nil {
		return nil, err
	}
	var failure error
	fb.Failed = func(err error) { failure = errors.Join(failure, err) }
	pauseLog := recording.LogPauses(fb)
	flows := NewFlowTable(fb.FlowNames())
	fb.SetFlowSink(flows, true)
	finish, err := record(fb, &j.Record)
	if err != nil {
		return nil, err
	}
	stop := reportProgress(fb, until, tell)
	err = fb.Run(ctx, until)
	stop()
	series, serr := finish()
	if err = errors.Join(err, serr, fb.EndFlows(), failure); err != nil {
		return nil, err
	}
	programs, err := Programs(j.Real)
	if err != nil {
		return nil, err
	}
	return slices.Concat(Tables(fb, pauseLog.Records()), flows.Tables(), series, programs), nil
}

// reportProgress reports the progress of a run until stop is called.
func reportProgress(fb *fabric.Fabric, until units.Time, tell func(experiment.Progress)) (stop func()) {
	if tell == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p := fb.Progress()
				tell(experiment.Progress{Now: p.Now, Until: until, Hops: p.Hops, Flows: p.Flows})
			}
		}
	}()
	return func() { cancel(); <-done }
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

// record starts the series that a job wants. Finish returns them as tables.
func record(fb *fabric.Fabric, want *experiment.Recording) (finish func() (table.Bundle, error), err error) {
	queues, flows, err := SeriesOf(fb.Plan, want, experiment.Virtual)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	type started struct {
		*recording.Recording
		name string
		csv  *bytes.Buffer
	}
	var all []started
	if queues != nil {
		csv := &bytes.Buffer{}
		all = append(all, started{recording.RecordQueues(fb, *queues, csv), QueueSeries, csv})
	}
	if flows != nil {
		csv := &bytes.Buffer{}
		all = append(all, started{recording.RecordFlows(fb, *flows, csv), FlowSeries, csv})
	}
	return func() (b table.Bundle, err error) {
		for _, r := range all {
			_, serr := r.Stop()
			t, terr := ReadSeries(r.name, r.csv)
			err = errors.Join(err, serr, terr)
			b = append(b, t)
		}
		return b, err
	}, nil
}

// ReadSeries reads a series of queues or flows as a run writes it.
func ReadSeries(name string, csv io.Reader) (*table.Table, error) {
	return table.ReadCSV(name, csv, textColumns...)
}

// textColumns are the columns of series that hold text.
var textColumns = []string{"port", "class", "nic", "qpn", "transfer", "flow"}
