package recording

import (
	"io"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
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
	sampling *fabric.Sampling
	done     chan struct{}
	sum      series.Summary
	err      error
	samplers []fabric.Sampler // by part that has something to sample
}

// recorder is a series.Recorder or a series.FlowRecorder.
type recorder interface {
	Run(w io.Writer) (series.Summary, error)
	Close()
}

// begin starts to sample and to write. newSampler returns the sampler of a part; nil if there
// is nothing to sample.
func (r *Recording) begin(f *fabric.Fabric, every units.Time, wall bool, newSampler func(fabric.Part) fabric.Sampler, w io.Writer) *Recording {
	r.sampling, r.done = f.Sample(every, wall, func(p fabric.Part) fabric.Sampler {
		s := newSampler(p)
		if s != nil {
			r.samplers = append(r.samplers, s)
		}
		return s
	}), make(chan struct{})
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
	for _, s := range r.samplers {
		if p, ok := s.(*flows); ok {
			n, leftOut := p.count()
			r.Things, r.LeftOut = r.Things+n, r.LeftOut+leftOut
		}
	}
	r.samplers = nil
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
