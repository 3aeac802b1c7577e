package run

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/observe/records"
)

// Output is where a recording goes.
type Output struct {
	Name string         // of the file, for the report
	What string         // begins errors, such as "--series q.csv"
	To   io.WriteCloser // is closed when everything is written
}

// RecordQueues makes the run record a series of queues, which has been checked (Series.Check).
func (r *Run) RecordQueues(s recording.Series, to Output) {
	rec := recording.RecordQueues(r.Fabric, s, to.To)
	r.record(rec, to, func(sum *report.Series) {
		sum.Every, sum.Queues, r.queues = s.Every, rec.Things, sum
	})
}

// RecordFlows is like RecordQueues, for a series of flows.
func (r *Run) RecordFlows(s recording.FlowSeries, to Output) {
	rec := recording.RecordFlows(r.Fabric, s, to.To)
	r.record(rec, to, func(sum *report.Series) {
		sum.Every, sum.Flows, r.flows = s.Every, rec.Things, sum
	})
}

// record completes a series when the run is over, and passes on its summary.
func (r *Run) record(rec *recording.Recording, to Output, put func(*report.Series)) {
	r.recorders = append(r.recorders, func() error {
		sum, err := rec.Stop()
		if err = errors.Join(err, to.To.Close()); err != nil {
			return fmt.Errorf("%s: %w", to.What, err)
		}
		put(&report.Series{File: to.Name, Summary: sum, FlowsLeftOut: rec.LeftOut})
		return nil
	})
}

// RecordPatterns makes the run put a record of each flow of patterns into a sink, which it
// closes. paths asks for the path of each flow, which costs time.
func (r *Run) RecordPatterns(s records.Sink, paths bool) {
	r.Fabric.SetFlowSink(s, paths)
	r.recorders = append(r.recorders, func() error { return errors.Join(r.Fabric.EndFlows(), s.Close()) })
}

// RecordPauses makes the run keep a record of each pause of each port, for Pauses.
func (r *Run) RecordPauses() { r.pauses = recording.LogPauses(r.Fabric) }

// Pauses returns the pauses recorded so far, in order of their beginnings; nil without
// RecordPauses.
func (r *Run) Pauses() []pauses.Record {
	if r.pauses == nil {
		return nil
	}
	return r.pauses.Records()
}

// Capture is a capture of ports that has not begun.
type Capture struct {
	run     *Run
	ports   []fabric.Watched
	capture *capture.Capture
}

// NewCapture prepares a capture of all packets of ports, such as "s1:3". The packets are in
// order of time with Options.Ordered. o has everything but Interfaces, Describe and Wait. The
// error says what is wrong with the ports or with the filter.
func (r *Run) NewCapture(ports []string, o capture.Options) (*Capture, error) {
	c := &Capture{run: r}
	for _, name := range ports {
		node, index, err := r.Fabric.Plan.Endpoint(name)
		if err != nil {
			return nil, err
		}
		c.ports = append(c.ports, fabric.Watched{Node: node, Port: index, In: true, Out: true})
	}
	o.Wait = true // virtual time waits for the writer
	var err error
	c.capture, err = r.Fabric.NewCapture(c.ports, o)
	return c, err
}

// Begin makes the run write the capture to w, and close w.
func (c *Capture) Begin(w io.WriteCloser) {
	stop := c.run.Fabric.Watch(c.ports, c.capture)
	done := make(chan error, 1)
	go func() {
		_, err := c.capture.Run(context.Background(), w)
		done <- err
	}()
	c.run.recorders = append(c.run.recorders, func() error {
		stop()
		err := <-done
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		return err
	})
}
