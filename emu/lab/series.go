package lab

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/sim/units"
)

// seriesFile is a series of a run and its file.
type seriesFile struct {
	*recording.Recording
	file *os.File
	of   report.Series
	put  func(r *report.Report, s *report.Series, things int)
	done bool
}

// Record makes Run write a series of queues to the file, replacing its content,
// and close it at the end, before the report is made. It is called before Run,
// once; s has been checked. name is only used in the report.
func (l *Lab) Record(s recording.Series, name string, file *os.File) {
	l.recordSeries(name, s.Every, file, func() *recording.Recording { return recording.RecordQueues(l.fabric, s, file) },
		func(r *report.Report, sum *report.Series, n int) { sum.Queues, r.Series = n, sum })
}

// RecordFlows is like Record, for a series of flows.
func (l *Lab) RecordFlows(s recording.FlowSeries, name string, file *os.File) {
	l.recordSeries(name, s.Every, file, func() *recording.Recording { return recording.RecordFlows(l.fabric, s, file) },
		func(r *report.Report, sum *report.Series, n int) { sum.Flows, r.FlowSeries = n, sum })
}

func (l *Lab) recordSeries(name string, every units.Time, file *os.File, begin func() *recording.Recording, put func(*report.Report, *report.Series, int)) {
	err := file.Truncate(0)
	r := &seriesFile{Recording: begin(), file: file, of: report.Series{File: name, Every: every}, put: put}
	if err != nil && !errors.Is(err, unix.EINVAL) { // not a regular file
		r.of.Error = err.Error()
	}
	l.series = append(l.series, r)
}

// finishSeries ends the series after the engines have stopped.
func (r *seriesFile) finishSeries() {
	sum, err := r.Stop()
	r.of.Summary, r.of.FlowsLeftOut = sum, r.LeftOut
	if err = errors.Join(err, r.file.Close()); err != nil {
		r.of.Error = err.Error()
	}
	r.done = true
}

// warnOfEnd calls warn if the series ends before the run does.
func (r *seriesFile) warnOfEnd(warn func(error)) {
	<-r.Ended()
	switch sum, err := r.Result(); {
	case err != nil:
		warn(fmt.Errorf("nothing more is recorded: %s: %w", r.of.File, err))
	case sum.Full > 0:
		warn(fmt.Errorf("nothing more is recorded: %s has reached its row limit", r.of.File))
	}
}
