// Package run runs a plan in virtual time: weft sim and the cells of experiments do. It builds
// the fabric, drives it until the end of the plan or its last flow, and completes what is
// recorded meanwhile.
//
//	r, err := run.New(p, run.Options{})
//	r.RecordQueues(queues, run.Output{Name: "q.csv", To: file})
//	err = r.Do(ctx)
//	r.Report().Write(os.Stdout)
package run

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// Options say how a plan is run. No result but Report.Events depends on them.
type Options struct {
	// Workers is the maximum number of threads that drive the fabric; 0 means as many as suit
	// the lab and the cores that the process may use.
	Workers int
	// Ordered drives the whole fabric with one engine, so that captured packets of all ports
	// are written in order of time. Workers is not used then.
	Ordered bool
	// Progress is called every half second of real time during the run, on a goroutine of its
	// own, with what the run has done so far; nil asks for nothing.
	Progress func(now status.Progress)
	// Interrupt is called when the context has ended before the run, with the cause. If it
	// returns true, the run has not failed but is partial: Do completes what is recorded, and
	// the report says how far the run has come. nil means that it has failed.
	Interrupt func(cause error) bool
}

// Run is a run of a plan. After New, its methods determine what is recorded. Then Do runs it,
// once, and then Fabric and Report have the results. Close ends a Run that Do has not been
// called for.
type Run struct {
	Fabric *fabric.Fabric

	options   Options
	recorders []func() error // complete what is recorded, in this order
	queues    *report.Series // nil if not recorded
	flows     *report.Series
	pauses    *recording.PauseLog
	partial   *report.Partial
	failure   error // of events that could not be carried out
}

// New builds the fabric of a plan.
func New(p *plan.Plan, o Options) (*Run, error) {
	r := &Run{options: o}
	var err error
	if o.Ordered {
		r.Fabric, err = fabric.NewSharded(p, 1)
	} else {
		r.Fabric, err = fabric.NewParallel(p, o.Workers)
	}
	if err != nil {
		return nil, err
	}
	r.Fabric.Failed = func(err error) { r.failure = errors.Join(r.failure, err) }
	return r, nil
}

// Until returns the emulated time at which the run of a plan ends; units.Never means with the
// last of its flows.
func Until(p *plan.Plan) units.Time {
	if p.Duration > 0 {
		return p.Duration
	}
	return units.Never
}

// Horizon is when a run ends, as far as its plan says.
type Horizon struct {
	Until  units.Time // the end of the run or, if it is open, of its measurement window; 0: neither is known
	Open   bool       // the run goes on after Until until its last flow is over
	Latest units.Time // when an open run ends at the latest; 0 means that nothing but its flows ends it
}

// HorizonOf returns the horizon of the run of a plan.
func HorizonOf(p *plan.Plan) Horizon {
	m := &p.Measure
	switch {
	case p.Duration > 0:
		return Horizon{Until: p.Duration}
	case m.End > 0 && m.Grace > 0:
		return Horizon{Until: m.End, Open: true, Latest: m.End + m.Grace}
	}
	return Horizon{Until: m.End, Open: true}
}

// Do runs the fabric and completes what is recorded. The error joins those of the run, of the
// recordings and of events that could not be carried out.
func (r *Run) Do(ctx context.Context) error {
	stop := r.reportProgress()
	err := r.Fabric.Run(ctx, Until(r.Fabric.Plan))
	stop()
	// Free the run's memory before its results are put together.
	r.Fabric.Shrink()
	runtime.GC()
	if err != nil && ctx.Err() != nil && r.options.Interrupt != nil {
		if cause := context.Cause(ctx); r.options.Interrupt(cause) {
			err = nil
			r.partial = &report.Partial{Why: cause.Error(), Until: r.Fabric.Plan.Duration}
		}
	}
	return errors.Join(err, r.Close(), r.failure)
}

// Close completes what is recorded. It does nothing after Do or another Close.
func (r *Run) Close() error {
	var errs []error
	for _, finish := range r.recorders {
		errs = append(errs, finish())
	}
	r.recorders = nil
	return errors.Join(errs...)
}

// Report returns the report of a run that has ended. It has the series that were recorded; a
// partial run has no trace, because no other run would stop at the same event.
func (r *Run) Report() *report.Report {
	all := report.Of(report.Virtual, r.Fabric.Plan, r.Fabric, recording.Timeline(r.Fabric))
	all.Series, all.FlowSeries = r.queues, r.flows
	if all.Partial = r.partial; r.partial != nil {
		all.Trace = ""
	}
	return all
}

// CheckPauses explains why ports of switches, such as "s1:3", did or did not pause their
// peers. It returns an error for a name that is not a port of a switch, before a run as after
// it.
func (r *Run) CheckPauses(ports []string) (all []status.PauseCheck, err error) {
	for _, name := range ports {
		node, index, err := r.Fabric.Plan.Endpoint(name)
		if err != nil {
			return nil, err
		}
		c, err := r.Fabric.CheckPause(node, index)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// progressEvery is the interval, in real time, at which progress is reported.
const progressEvery = 500 * time.Millisecond

// reportProgress reports the progress of a run that begins now, until stop is called.
func (r *Run) reportProgress() (stop func()) {
	if r.options.Progress == nil {
		return func() {}
	}
	r.Fabric.Progress() // asks the shards for the first figures
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				r.options.Progress(r.Fabric.Progress())
			}
		}
	}()
	return func() { close(quit); <-done }
}
