package fabric

import (
	"io"

	"github.com/weftlab/weft/observe/series"
)

// Recording is a series in progress, of queues or of flows. The samples of an
// instant are taken after everything else at that instant has happened. They are
// taken at the multiples of Every, without 0, and at the end of the run.
type Recording struct {
	// Things is the number of sampled queues. For flows it is the number of flows that
	// have had rows, and is known after Stop.
	Things int
	// LeftOut is how many flows of edge services, or over TCP or NDP, had no rows because
	// too many others had. It is known after Stop.
	LeftOut int

	recorder recorder
	sampling *Sampling
	done     chan struct{}
	sum      series.Summary
	err      error
	counts   []func() (n, leftOut int) // flows that have had rows, and flows left out, by part
}

// recorder is a series.Recorder or a series.FlowRecorder.
type recorder interface {
	Run(w io.Writer) (series.Summary, error)
	Close()
}

// begin starts to sample and to write.
func (r *Recording) begin(w io.Writer, sampling *Sampling) *Recording {
	r.sampling, r.done = sampling, make(chan struct{})
	go func() {
		r.sum, r.err = r.recorder.Run(w)
		close(r.done)
	}()
	return r
}

// Stop takes the last samples, at the end of the run, and returns when
// everything is written. No shard may run meanwhile. A second call does
// nothing.
func (r *Recording) Stop() (series.Summary, error) {
	r.sampling.Stop()
	for _, count := range r.counts {
		n, leftOut := count()
		r.Things, r.LeftOut = r.Things+n, r.LeftOut+leftOut
	}
	r.counts = nil
	r.recorder.Close()
	<-r.done
	return r.sum, r.err
}

// Ended returns a channel that is closed when nothing more is written: after
// Stop, or earlier when the file is full or cannot be written. Result then says
// which.
func (r *Recording) Ended() <-chan struct{} { return r.done }

// Result returns the outcome of a recording that has ended.
func (r *Recording) Result() (series.Summary, error) { return r.sum, r.err }
