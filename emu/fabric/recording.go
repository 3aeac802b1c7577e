package fabric

import (
	"context"
	"io"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim"
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

	fabric   *Fabric
	recorder recorder
	every    units.Time
	wall     bool
	parts    []*part // by shard in the wall clock, otherwise one
	done     chan struct{}
	sum      series.Summary
	err      error
	stopped  bool                      // no more samples
	counts   []func() (n, leftOut int) // flows that have had rows, and flows left out, by part
}

// recorder is a series.Recorder or a series.FlowRecorder.
type recorder interface {
	Run(w io.Writer) (series.Summary, error)
	Close()
}

// sampled is what one goroutine samples. alone means that no other shard runs beside it.
type sampled interface {
	sample(now units.Time, alone bool)
	Last() units.Time // sample
	Closed() bool
}

// part is what is sampled and, in the wall clock, the handler of the timer that triggers
// the samples.
type part struct {
	sampled
	shard *Shard
	every units.Time
	next  units.Time // the next multiple of every
	alone bool       // no other shard runs, so the far halves of links may be read
	timer sim.Timer
}

// parts returns the number of goroutines that sample.
func (f *Fabric) parts(wall bool) int {
	if wall {
		return len(f.Shards)
	}
	return 1
}

func (f *Fabric) newRecording(every units.Time, wall bool, by recorder) *Recording {
	return &Recording{fabric: f, recorder: by, every: every, wall: wall, done: make(chan struct{})}
}

// add adds something to sample in the i-th shard.
func (r *Recording) add(i int, by sampled) {
	p := &part{sampled: by, shard: r.fabric.Shards[i], every: r.every, next: r.every, alone: r.fabric.parts(r.wall) == 1}
	r.parts = append(r.parts, p)
	if r.wall {
		// Registered after everything else, it fires last in an instant.
		p.timer = p.shard.Engine.NewTimer(p)
		p.timer.Arm(p.next)
	}
}

// begin starts the writer.
func (r *Recording) begin(w io.Writer) {
	if !r.wall {
		r.fabric.recordings = append(r.fabric.recordings, r)
	}
	go func() {
		r.sum, r.err = r.recorder.Run(w)
		close(r.done)
	}()
}

// Stop takes the last samples, at the end of the run, and returns when
// everything is written. No shard may run meanwhile. A second call does
// nothing.
func (r *Recording) Stop() (series.Summary, error) {
	for _, p := range r.parts {
		if r.stopped {
			break
		}
		now := p.shard.Engine.Now()
		if !r.wall {
			now = r.fabric.Now()
		}
		if now > p.Last() {
			p.sample(now, true)
		}
	}
	if !r.stopped {
		for _, count := range r.counts {
			n, leftOut := count()
			r.Things, r.LeftOut = r.Things+n, r.LeftOut+leftOut
		}
	}
	r.stopped = true
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

// Fire takes a sample in the wall clock.
func (p *part) Fire(now units.Time) {
	if p.Closed() {
		return
	}
	p.sample(now, p.alone)
	p.next += p.every
	p.timer.Arm(p.next)
}

// runSampled is run with a stop at every sample, so that the samples depend
// neither on the number of shards nor on the order of events within one
// instant.
func (f *Fabric) runSampled(ctx context.Context, until units.Time) error {
	for next := f.nextSample(); next <= until && next < units.Never; next = f.nextSample() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.due() <= next {
			if err := f.run(ctx, next); err != nil {
				return err
			}
		}
		if f.guard.open && f.due() == units.Never {
			return nil // Stop takes the last sample
		}
		for _, r := range f.recordings {
			for _, p := range r.parts {
				if p.next == next {
					p.sample(next, p.alone)
					p.next += p.every
				}
			}
		}
	}
	return f.run(ctx, until)
}

// nextSample returns the time of the next sample; units.Never if there is none.
func (f *Fabric) nextSample() units.Time {
	next := units.Never
	for _, r := range f.recordings {
		for _, p := range r.parts {
			if !p.Closed() {
				next = min(next, p.next)
			}
		}
	}
	return next
}

// due returns the time of the next event. No shard may run meanwhile.
func (f *Fabric) due() units.Time {
	due := units.Never
	for _, s := range f.Shards {
		due = min(due, s.Due())
	}
	return due
}
