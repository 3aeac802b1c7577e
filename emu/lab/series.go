package lab

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/report"
)

// recording is the series of a run.
type recording struct {
	*fabric.Recording
	file *os.File
	sum  *report.Series // nil until the end
	of   report.Series
}

// Record has Run write a series of queues to the file, whose content it
// replaces, and close it in the end, before the report is made. It is called
// before Run, once; s has been checked. Of name only the report makes use.
func (l *Lab) Record(s fabric.Series, name string, file *os.File) {
	err := file.Truncate(0)
	r := &recording{Recording: l.fabric.Record(s, file), file: file}
	r.of = report.Series{File: name, Every: s.Every, Queues: r.Queues()}
	if err != nil && !errors.Is(err, unix.EINVAL) { // of what is no regular file
		r.of.Error = err.Error()
	}
	l.series = r
}

// finish ends the series after the engines have stopped.
func (r *recording) finish() {
	sum, err := r.Stop()
	r.of.Summary = sum
	if err = errors.Join(err, r.file.Close()); err != nil {
		r.of.Error = err.Error()
	}
	r.sum = &r.of
}

// watch tells warn when the series ends before the run does.
func (r *recording) watch(warn func(error)) {
	<-r.Ended()
	switch sum, err := r.Result(); {
	case err != nil:
		warn(fmt.Errorf("nothing more is recorded: %s: %w", r.of.File, err))
	case sum.Full > 0:
		warn(fmt.Errorf("nothing more is recorded: %s has as many rows as it may", r.of.File))
	}
}
