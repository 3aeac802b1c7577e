package fabric

import (
	"context"
	"slices"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Sampler reads a part of a running fabric at instants, for whoever records a run. A fabric
// knows nothing else about recordings.
type Sampler interface {
	// Sample reads the part at now, after everything else at that instant has happened:
	// queues, counters, flows, what Shard.Log has got since, and what observers were told.
	// It must not change what the fabric does. alone reports whether no other part runs
	// meanwhile; otherwise the far halves of links that cross (links.Link.CrossesEngines) belong to
	// another goroutine. The last instant of a run may come twice: the second time there is
	// nothing new.
	Sample(now units.Time, alone bool)
	// IsClosed reports that the sampler needs no more samples, for instance because its file
	// is full. It may change at any time.
	IsClosed() bool
}

// Part is the part of a fabric that one goroutine samples: everything in virtual time, a
// shard in the wall clock.
type Part struct {
	Shards []*Shard
	fabric *Fabric
}

// Has reports whether a node belongs to the part.
func (p *Part) Has(node int) bool { return slices.Contains(p.Shards, p.fabric.ShardOf(node)) }

// Sampling calls samplers at the multiples of an interval, without 0, and at the end of the
// run.
type Sampling struct {
	fabric   *Fabric
	every    units.Time
	wall     bool
	samplers []*sampled
	stopped  bool
}

// sampled is a sampler and, in the wall clock, the handler of the timer that triggers its
// samples.
type sampled struct {
	Sampler
	part  Part
	every units.Time
	next  units.Time // the next multiple of every
	alone bool       // no other part runs
	timer sim.Timer
}

// Sample has samplers sample the fabric every so often, from the time 0 on. newSampler
// returns the sampler of a part; nil if there is nothing to sample. In virtual time, Run
// takes the samples, between the events; in the wall clock (wall), timers of the engines
// do, and what a sampler does takes time from the run. No engine may run meanwhile. It
// panics if every is not positive.
func (f *Fabric) Sample(every units.Time, wall bool, newSampler func(p Part) Sampler) *Sampling {
	if every <= 0 {
		panic("an interval between samples that is not positive")
	}
	s := &Sampling{fabric: f, every: every, wall: wall}
	for _, p := range f.parts(wall) {
		if sampler := newSampler(p); sampler != nil {
			s.add(p, sampler)
		}
	}
	if !wall {
		f.samplings = append(f.samplings, s)
	}
	return s
}

// parts returns the parts of the fabric that goroutines sample.
func (f *Fabric) parts(wall bool) (parts []Part) {
	if !wall {
		return []Part{{Shards: f.Shards, fabric: f}}
	}
	for i := range f.Shards {
		parts = append(parts, Part{Shards: f.Shards[i : i+1], fabric: f})
	}
	return parts
}

func (s *Sampling) add(p Part, sampler Sampler) {
	x := &sampled{Sampler: sampler, part: p, every: s.every, next: s.every, alone: len(p.Shards) == len(s.fabric.Shards)}
	s.samplers = append(s.samplers, x)
	if s.wall {
		// Registered after everything else, it fires last in an instant.
		x.timer = p.Shards[0].Engine.NewTimer(x)
		x.timer.Arm(x.next)
	}
}

// Stop takes the last samples, at the end of the run. No shard may run meanwhile. A second
// call does nothing.
func (s *Sampling) Stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	f := s.fabric
	f.samplings = slices.DeleteFunc(f.samplings, func(x *Sampling) bool { return x == s })
	for _, x := range s.samplers {
		now := f.Now()
		if s.wall {
			now = x.part.Shards[0].Engine.Now()
			x.timer.Disarm()
		}
		x.Sample(now, true)
	}
}

// Fire takes a sample in the wall clock.
func (x *sampled) Fire(now units.Time) {
	if x.IsClosed() {
		return
	}
	x.Sample(now, x.alone)
	x.next += x.every
	x.timer.Arm(x.next)
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
		for _, s := range f.samplings {
			for _, x := range s.samplers {
				if x.next == next {
					x.Sample(next, x.alone)
					x.next += x.every
				}
			}
		}
	}
	return f.run(ctx, until)
}

// nextSample returns the time of the next sample; units.Never if there is none.
func (f *Fabric) nextSample() units.Time {
	next := units.Never
	for _, s := range f.samplings {
		for _, x := range s.samplers {
			if !x.IsClosed() {
				next = min(next, x.next)
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
