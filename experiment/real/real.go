// Package real runs one cell of an experiment in wall-clock time: its lab comes up, real
// programs run in its hosts, and their output is converted to tables.
package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
	"github.com/weftlab/weft/experiment/table"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
)

// prefix is the prefix of all names of cells' labs.
const prefix = "cell-"

// LabName returns the name of a job's lab in this process, which is unique.
func LabName(j *experiment.Job) string {
	return fmt.Sprintf("%s%.12s-%d", prefix, j.Key, os.Getpid())
}

// SweepLeftovers removes what is left of cells whose processes were killed.
func SweepLeftovers() error {
	labs, err := netnslab.ListLabs()
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range labs {
		if i.Running || !strings.HasPrefix(i.Name, prefix) {
			continue
		}
		// Another process may have been faster.
		if err := netnslab.SweepLab(i.Name); err != nil && !errors.Is(err, netnslab.ErrUnknown) && !errors.Is(err, netnslab.ErrRunning) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Runner runs cells.
type Runner struct {
	Name  string                                                   // name of the lab
	Enter func(host string, argv []string, dilated bool) *exec.Cmd // see lab.Programs
	Warn  func(error)                                              // is called with errors that do not end a run
	Tell  func(experiment.Progress)                                // is called with the progress; may be nil
}

// Run runs a job. If the machine does not keep up, the job is run again, as often as it
// says; then the last run counts, or Run returns an error. When Run returns, nothing is
// left of the lab.
func (r *Runner) Run(ctx context.Context, j *experiment.Job) (table.Bundle, error) {
	if j.Real == nil {
		return nil, errors.New("the job has no real programs")
	}
	for try := 1; ; try++ {
		tables, timing, err := r.runOnce(ctx, j, try)
		switch {
		case err != nil:
			return nil, err
		case timing.Kept(), try >= j.Real.Tries && j.Real.KeepLate:
			return tables, nil
		case try >= j.Real.Tries:
			return nil, fmt.Errorf("the machine did not keep up in any of %d runs; the last: %s", try, timing.Verdict())
		}
		r.Warn(fmt.Errorf("run %d of %d does not count: %s", try, j.Real.Tries, timing.Verdict()))
	}
}

// runOnce runs the lab of a job and its programs once.
func (r *Runner) runOnce(ctx context.Context, j *experiment.Job, try int) (table.Bundle, *report.Timing, error) {
	p, err := resolve.ParseWallClock(j.LabName, []byte(j.Lab), &j.Seed)
	if err != nil {
		return nil, nil, err
	}
	p.Name = r.Name
	rec, err := openRecording(p, &j.Record)
	if err != nil {
		return nil, nil, fmt.Errorf("record: %w", err)
	}
	defer rec.removeFiles()
	if !j.Real.Workload {
		p.Flows, p.Transfers, p.Traffic = nil, nil, nil // recordings of them have no rows
	}
	l, err := lab.New(p)
	if err != nil {
		return nil, nil, err
	}
	rec.beginFiles(l)
	pauseLog := recording.LogPauses(l.Fabric())
	flows := cell.NewFlowTable(l.Fabric().FlowNames())
	l.SinkFlows(flows, true, flows.Close, func(*report.Report) {})
	c := &programGroup{lab: l, dilation: p.Dilation, programs: j.Real.Programs, env: j.Real.Env}
	l.RunPrograms(lab.Programs{Enter: r.Enter})
	stopTelling := func() {}
	done := make(chan struct{}) // closed when the programs have ended
	running, stop := context.WithCancel(ctx)
	defer stop()
	up := false
	rep, err := l.Run(ctx, units.Never, func() {
		up = true
		stopTelling = r.reportProgress(l)
		go func() {
			defer close(done)
			c.runPrograms(running)
			l.Stop()
		}()
	}, r.Warn)
	stop()
	if up {
		<-done
	}
	stopTelling()
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		return nil, nil, err
	case !up:
		return nil, nil, errors.New("the lab ended before it was up")
	case errors.Is(c.err, context.Canceled):
		return nil, nil, errors.New("the lab ended before its programs")
	case c.err != nil:
		return nil, nil, c.err
	}
	tables := append(cell.RunTables(l.Fabric(), pauseLog.Records(), flows), flows.Tables()...)
	more, err := cell.ProgramTables(j.Real)
	if err != nil {
		return nil, nil, err
	}
	tables = append(tables, more[:len(more)-1]...)
	tables = append(tables, cell.LatenessTable(rep.Timing, try))
	if err := c.readOutput(tables); err != nil {
		return nil, nil, err
	}
	series, err := rec.readTables(rep)
	return append(tables, series...), rep.Timing, err
}

// tellEvery is how often a run reports its progress.
const tellEvery = time.Second

// reportProgress reports the progress of a lab until stop is called.
func (r *Runner) reportProgress(l *lab.Lab) (stop func()) {
	if r.Tell == nil {
		return func() {}
	}
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if now, err := labTime(l); err == nil {
				r.Tell(experiment.Progress{Now: now})
			}
		}
	}()
	return func() { close(quit); <-over }
}

// labTime returns the emulated time of a running lab.
func labTime(l *lab.Lab) (now units.Time, err error) {
	err = l.Do(func() { now = l.Fabric().Now() })
	return now, err
}

// seriesFiles are the series of a run, in private files.
type seriesFiles struct {
	all []*series
}

type series struct {
	name  string
	path  string
	begin func(l *lab.Lab, path string, file *os.File)
	file  *os.File // the lab closes it
	sum   func(*report.Report) *report.Series
}

// openRecording creates the files of the series that a job wants.
func openRecording(p *plan.Plan, want *experiment.Recording) (*seriesFiles, error) {
	queues, flows, err := cell.SeriesOf(p, want, experiment.Wall)
	if err != nil {
		return nil, err
	}
	rec := &seriesFiles{}
	if queues != nil {
		rec.all = append(rec.all, &series{name: cell.QueueSeries, begin: func(l *lab.Lab, path string, f *os.File) { l.Record(*queues, path, f) }, sum: func(r *report.Report) *report.Series { return r.Series }})
	}
	if flows != nil {
		rec.all = append(rec.all, &series{name: cell.FlowSeries, begin: func(l *lab.Lab, path string, f *os.File) { l.RecordFlows(*flows, path, f) }, sum: func(r *report.Report) *report.Series { return r.FlowSeries }})
	}
	for _, s := range rec.all {
		if s.file, err = os.CreateTemp("", "weft-"+s.name+"-*.csv"); err != nil {
			rec.removeFiles()
			return nil, err
		}
		s.path = s.file.Name()
	}
	return rec, nil
}

// beginFiles makes the lab write the files.
func (rec *seriesFiles) beginFiles(l *lab.Lab) {
	for _, s := range rec.all {
		s.begin(l, s.path, s.file)
	}
}

// removeFiles removes the files.
func (rec *seriesFiles) removeFiles() {
	for _, s := range rec.all {
		if s.file != nil {
			s.file.Close() // the lab has closed it, if it ran
			os.Remove(s.path)
		}
	}
}

// readTables reads the files.
func (rec *seriesFiles) readTables(r *report.Report) (b table.Bundle, err error) {
	for _, s := range rec.all {
		if sum := s.sum(r); sum != nil && sum.Error != "" {
			return nil, fmt.Errorf("the table %s is incomplete: %s", s.name, sum.Error)
		}
		f, err := os.Open(s.path)
		if err != nil {
			return nil, err
		}
		t, err := cell.ReadSeries(s.name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("the table %s: %w", s.name, err)
		}
		b = append(b, t)
	}
	return b, nil
}
