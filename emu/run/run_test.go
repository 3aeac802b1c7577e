package run_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// star returns a lab with transfers, flows of packets, flows of patterns and pauses.
func star(t *testing.T) *plan.Plan {
	t.Helper()
	return fabrictest.Parse(t, `
duration: 2ms
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26}}
    switch: {buffer: {size: 200KB}, classes: {roce: {dscp: 26, priority: 3, pfc: {}}, default: {}}}
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}
workload:
  - {incast: {to: h1, from: "h[2-4]", size: 500KB}}
  - {cbr: {from: h2, to: h3, rate: 1Gbps, size: 1000B}}
  - {arrivals: {name: short, hosts: "h[2-4]", load: 10%, sizes: 5KB}}
`)
}

// file is an output in memory.
type file struct {
	bytes.Buffer
	closed int
	full   error // of writes
}

func (f *file) Write(b []byte) (int, error) {
	if f.full != nil {
		return 0, f.full
	}
	return f.Buffer.Write(b)
}

func (f *file) Close() error { f.closed++; return nil }

// sink counts records, and calls put, if it is set, with each.
type sink struct {
	records, closed int
	put             func()
}

func (s *sink) PutRecord(*records.Record) error {
	if s.records++; s.put != nil {
		s.put()
	}
	return nil
}

func (s *sink) Close() error { s.closed++; return nil }

func newRun(t *testing.T, p *plan.Plan, o run.Options) *run.Run {
	t.Helper()
	r, err := run.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// queues returns a series of all ports of s1.
func queues(t *testing.T, p *plan.Plan) recording.Series {
	t.Helper()
	s := recording.Series{Every: 100 * units.Microsecond, Length: p.Duration}
	var err error
	if s.Ports, err = p.MatchPorts([]string{"s1:*"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRun_ResultsDoNotDependOnThreads: one thread, three, and one engine for all nodes make the
// same run, with and without recordings.
func TestRun_ResultsDoNotDependOnThreads(t *testing.T) {
	traces := map[string]bool{}
	for _, o := range []run.Options{{Workers: 1}, {Workers: 3}, {Ordered: true}} {
		for _, recorded := range []bool{false, true} {
			p := star(t)
			r := newRun(t, p, o)
			if recorded {
				r.RecordQueues(queues(t, p), run.Output{To: &file{}})
				r.RecordPatterns(&sink{}, true)
				r.RecordPauses()
			}
			if err := r.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			x := r.Report()
			if x.Trace == "" || x.Clock != report.Virtual || x.Emulated != p.Duration || x.Partial != nil || !x.Accounts.Balanced() {
				t.Errorf("%+v: trace %q, clock %s, %v, partial %v", o, x.Trace, x.Clock, x.Emulated, x.Partial)
			}
			traces[x.Trace] = true
		}
	}
	if len(traces) != 1 {
		t.Errorf("traces %v", traces)
	}
}

// TestRun_RecordsAreCompleteAndClosed: after Do every recording has what happened up to the end
// of the run, its output is closed once, and the report sums the series up.
func TestRun_RecordsAreCompleteAndClosed(t *testing.T) {
	p := star(t)
	r := newRun(t, p, run.Options{Ordered: true})
	c, err := r.NewCapture([]string{"s1:h1"}, capture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var packets, q, f file
	c.Begin(&packets)
	r.RecordQueues(queues(t, p), run.Output{Name: "q.csv", To: &q})
	flows := recording.FlowSeries{Every: 100 * units.Microsecond, Length: p.Duration, Flows: []string{"h*"}}
	if err := flows.Check(p); err != nil {
		t.Fatal(err)
	}
	r.RecordFlows(flows, run.Output{Name: "f.csv", To: &f})
	var patterns sink
	r.RecordPatterns(&patterns, false)
	r.RecordPauses()
	if err := r.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*file{"capture": &packets, "queues": &q, "flows": &f} {
		if f.closed != 1 || f.Len() == 0 {
			t.Errorf("%s: %d bytes, closed %d times", name, f.Len(), f.closed)
		}
	}
	if n := r.Fabric.FlowCount(); n == 0 || uint64(patterns.records) < n || patterns.closed != 1 {
		t.Errorf("%d records of flows, closed %d times; %d flows", patterns.records, patterns.closed, n)
	}
	x := r.Report()
	for _, s := range []struct {
		sum    *report.Series
		file   *file
		name   string
		things int
	}{{x.Series, &q, "q.csv", x.Series.Queues}, {x.FlowSeries, &f, "f.csv", x.FlowSeries.Flows}} {
		if rows := bytes.Count(s.file.Bytes(), []byte("\n")) - 1; s.sum.File != s.name || s.sum.Every != 100*units.Microsecond || uint64(rows) != uint64(s.sum.Rows) || s.things == 0 {
			t.Errorf("%s: %+v for %d rows", s.name, *s.sum, rows)
		}
	}
	if !strings.Contains(q.String(), "\n0.002,") {
		t.Error("the series of queues has no sample at the end of the run")
	}
	paused := uint64(0)
	for _, port := range x.Ports {
		for _, c := range port.Classes {
			paused += c.PauseRx
		}
	}
	if all := r.Pauses(); len(all) == 0 || uint64(len(all)) > paused {
		t.Errorf("%d records of pauses, %d PFC frames received", len(all), paused)
	}
	if err := r.Close(); err != nil || q.closed != 1 || patterns.closed != 1 {
		t.Errorf("a second time: %v, closed %d and %d times", err, q.closed, patterns.closed)
	}
}

// TestRun_InterruptedIsPartial: if Interrupt says so, a run whose context ends is partial, and
// what it recorded is complete; otherwise it has failed.
func TestRun_InterruptedIsPartial(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		name      string
		interrupt func(error) bool
		partial   bool
	}{
		{"no function", nil, false},
		{"refused", func(error) bool { return false }, false},
		{"accepted", func(err error) bool { return errors.Is(err, cause) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			p := star(t)
			p.Duration = 10 * units.Second
			r := newRun(t, p, run.Options{Workers: 1, Interrupt: c.interrupt})
			var q file
			r.RecordQueues(queues(t, p), run.Output{To: &q})
			flows := sink{put: func() { cancel(cause) }} // when the first flow is over
			r.RecordPatterns(&flows, false)
			err := r.Do(ctx)
			if q.closed != 1 || flows.closed != 1 {
				t.Errorf("closed %d and %d times", q.closed, flows.closed)
			}
			if !c.partial {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				return
			}
			x := r.Report()
			if err != nil || x.Partial == nil || x.Partial.Why != "enough" || x.Partial.Until != p.Duration || x.Trace != "" || x.Emulated >= p.Duration || x.Series == nil {
				t.Errorf("error %v, partial %+v, trace %q at %v", err, x.Partial, x.Trace, x.Emulated)
			}
		})
	}
}

// TestRun_FailuresAreNamed: a recording that cannot be written and an event that cannot be
// carried out do not stop the run, which returns both errors.
func TestRun_FailuresAreNamed(t *testing.T) {
	p := star(t)
	r := newRun(t, p, run.Options{})
	full, event := errors.New("no space"), errors.New("no such link")
	r.RecordQueues(queues(t, p), run.Output{What: "--series q.csv", To: &file{full: full}})
	r.Fabric.Failed(event)
	err := r.Do(t.Context())
	if !errors.Is(err, full) || !errors.Is(err, event) || !strings.HasPrefix(err.Error(), "--series q.csv: ") {
		t.Errorf("error %v", err)
	}
	if x := r.Report(); x.Series != nil || x.Emulated != p.Duration {
		t.Errorf("series %v at %v", x.Series, x.Emulated)
	}
}

// TestRun_ProgressIsReported while the run lasts: this one waits for it at its first flow.
func TestRun_ProgressIsReported(t *testing.T) {
	p := star(t)
	reported := make(chan status.Progress, 1)
	r := newRun(t, p, run.Options{Workers: 1, Progress: func(now status.Progress) {
		select {
		case reported <- now:
		default: // one is enough
		}
	}})
	waited := false
	r.RecordPatterns(&sink{put: func() {
		if !waited {
			waited = true
			if now := <-reported; now.Now > p.Duration {
				t.Errorf("%+v", now)
			}
		}
	}}, false)
	if err := r.Do(t.Context()); err != nil || !waited {
		t.Errorf("error %v, waited %v", err, waited)
	}
}

// TestNewCapture_RefusesBadInput: unknown ports and filters that do not parse are errors before
// the run.
func TestNewCapture_RefusesBadInput(t *testing.T) {
	r := newRun(t, star(t), run.Options{Ordered: true})
	for want, err := range map[string]error{
		`no node "s9"`: second(r.NewCapture([]string{"s9:1"}, capture.Options{})),
		"filter":       second(r.NewCapture([]string{"s1:h1"}, capture.Options{Filter: "host host"})),
		"hosts do not": second(r.CheckPauses([]string{"s1:h1", "h1:eth0"})),
		"no port":      second(r.CheckPauses([]string{"s1:h9"})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if all, err := r.CheckPauses([]string{"s1:h2", "s1:h1"}); err != nil || len(all) != 2 || all[0].Port != "s1:h2" {
		t.Errorf("%v, error %v", all, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestClose_CompletesWhatHasNotRun: outputs are closed although the run never began.
func TestClose_CompletesWhatHasNotRun(t *testing.T) {
	p := star(t)
	r := newRun(t, p, run.Options{Ordered: true})
	c, err := r.NewCapture([]string{"s1:h1"}, capture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var packets, q file
	c.Begin(&packets)
	r.RecordQueues(queues(t, p), run.Output{To: &q})
	for range 2 {
		if err := r.Close(); err != nil || packets.closed != 1 || q.closed != 1 {
			t.Errorf("error %v, closed %d and %d times", err, packets.closed, q.closed)
		}
	}
}

// TestUntil_DurationOrLastFlow: a plan without a duration runs until its last flow is over.
func TestUntil_DurationOrLastFlow(t *testing.T) {
	p := star(t)
	if got := run.Until(p); got != 2*units.Millisecond {
		t.Errorf("%v", got)
	}
	p.Duration = 0
	if got := run.Until(p); got != units.Never {
		t.Errorf("%v", got)
	}
	p = fabrictest.Star(t, 2, "{}", "workload: [{write: {from: h1, to: h2, size: 1MB}}]")
	r := newRun(t, p, run.Options{})
	if err := r.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := r.Report(); x.Emulated == 0 || x.Emulated > units.Second || x.TransferSums.Completed != 1 {
		t.Errorf("%v, %+v", x.Emulated, x.TransferSums)
	}
}

// TestHorizonOf_DurationWindowOrNeither: what a plan says about the end of its run.
func TestHorizonOf_DurationWindowOrNeither(t *testing.T) {
	const ms = units.Millisecond
	for text, want := range map[string]run.Horizon{
		"duration: 3ms":                     {Until: 3 * ms},
		"duration: 3ms\nwindow: {end: 2ms}": {Until: 3 * ms},
		"window: {end: 2ms, grace: 5ms}":    {Until: 2 * ms, Open: true, Latest: 7 * ms},
	} {
		p := fabrictest.Star(t, 2, "{}", text+"\nworkload: [{arrivals: {load: 1%, sizes: 1KB}}]")
		if got := run.HorizonOf(p); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	p := fabrictest.Star(t, 2, "{}", "workload: [{write: {from: h1, to: h2, size: 1MB}}]")
	if got, want := run.HorizonOf(p), (run.Horizon{Open: true}); got != want {
		t.Errorf("without either: %+v, want %+v", got, want)
	}
}
