package fabric

import (
	"context"
	"errors"
	"io"

	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/series"
)

// Series says which queues are sampled, and how often.
type Series struct {
	Ports  []spec.End
	Every  units.Time
	Length units.Time // of the run; 0 = not known
	Wall   bool       // under the wall clock
}

// Check judges a series of a plan before the run. The error names the mend.
func (s Series) Check(p *spec.Plan) error {
	length := s.Length
	if length == 0 && !s.Wall {
		length = lengthOf(p)
	}
	return series.Check(len(sourcesOf(p, s.Ports)), s.Every, length, s.Wall)
}

// lengthOf is when the last of a plan's flows ends, 0 when that is not known.
func lengthOf(p *spec.Plan) (end units.Time) {
	for i := range p.Flows {
		f := &p.Flows[i]
		if f.For == 0 {
			return 0
		}
		end = max(end, f.At+f.For)
	}
	return end
}

// sourcesOf lists the queues of ports: each port, then its classes where it has
// several.
func sourcesOf(p *spec.Plan, ports []spec.End) (sources []series.Source) {
	for _, e := range ports {
		name := p.PortName(e.Node, e.Port)
		sources = append(sources, series.Source{Port: name})
		for _, c := range classesOf(p, e) {
			sources = append(sources, series.Source{Port: name, Class: c})
		}
	}
	return sources
}

// classesOf names the classes of a port that has several, by rising priority
// as in PortStatus.
func classesOf(p *spec.Plan, e spec.End) (names []string) {
	if c := p.Nodes[e.Node].Ports[e.Port].Classes; len(c) > 1 {
		for i := range c {
			names = append(names, c[i].Name)
		}
	}
	return names
}

// Recording is a series under way. The samples of an instant are taken when
// everything that happens at that instant has happened. They are those of the
// multiples of Every, without 0, and of the end of the run.
type Recording struct {
	recorder *series.Recorder
	every    units.Time
	queues   int
	parts    []*part // by shard in the wall clock, otherwise one
	done     chan struct{}
	sum      series.Summary
	err      error
	stopped  bool // no more samples
}

// part is the queues that one goroutine samples. It is also the handler of the
// timer that tells it to, in the wall clock.
type part struct {
	fabric   *Fabric
	tap      *series.Tap
	ports    []spec.End
	classes  []int            // by port: how many are sampled
	readings []series.Reading // of one instant
	every    units.Time
	next     units.Time // the next multiple of every
	alone    bool       // no shard runs beside: the far halves of links may be looked at
	timer    sim.Timer
}

// Record begins a series at time zero; s has been checked. A goroutine writes
// it to w. In virtual time Run takes the samples, and waits for the writer
// where it must. In the wall clock the engines do, and lose what cannot be
// written in time. Sampling does not change what the fabric does.
func (f *Fabric) Record(s Series, w io.Writer) *Recording {
	sources := sourcesOf(f.Plan, s.Ports)
	ring := 1 << 12
	if s.Wall {
		// Room for the samples of a second, for which a disk may be busy.
		ring = int(min(max(float64(len(sources))*float64(units.Second)/float64(s.Every), float64(ring)), 1<<20))
	}
	r := &Recording{
		recorder: series.New(series.Options{Sources: sources, Wait: !s.Wall, Ring: ring}),
		every:    s.Every, queues: len(sources), done: make(chan struct{}),
	}
	parts, of := 1, func(spec.End) int { return 0 }
	if s.Wall {
		parts, of = len(f.Shards), func(e spec.End) int { return f.shardOf[e.Node] }
	}
	for i := range parts {
		p := &part{fabric: f, every: s.Every, next: s.Every, alone: !s.Wall || parts == 1}
		var indices []int32
		at := int32(0)
		for _, e := range s.Ports {
			n := len(classesOf(f.Plan, e))
			if of(e) == i {
				p.ports, p.classes = append(p.ports, e), append(p.classes, n)
				for k := range int32(1 + n) {
					indices = append(indices, at+k)
				}
			}
			at += int32(1 + n)
		}
		if len(indices) == 0 {
			continue
		}
		p.tap, p.readings = r.recorder.NewTap(indices), make([]series.Reading, len(indices))
		r.parts = append(r.parts, p)
		if s.Wall {
			// Registered after everything else, it fires last of an instant.
			p.timer = f.Shards[i].Engine.NewTimer(p)
			p.timer.Arm(p.next)
		}
	}
	if !s.Wall {
		f.recording = r
	}
	go func() {
		r.sum, r.err = r.recorder.Run(w)
		close(r.done)
	}()
	return r
}

// Stop takes the last samples, at the end of the run, and returns when
// everything is written. No shard runs meanwhile. A second call does nothing.
func (r *Recording) Stop() (series.Summary, error) {
	for _, p := range r.parts {
		if r.stopped {
			break
		}
		p.alone = true
		now := p.fabric.nowAt(p.ports[0].Node)
		if p.fabric.recording == r {
			now = p.fabric.Now()
		}
		if now > p.tap.Last() {
			p.sample(now)
		}
	}
	r.stopped = true
	r.recorder.Close()
	<-r.done
	return r.sum, r.err
}

// Ended is closed when nothing more is written: after Stop, or earlier when the
// file is full or cannot be written. Result then says which.
func (r *Recording) Ended() <-chan struct{} { return r.done }

// Result is what became of a recording that has ended.
func (r *Recording) Result() (series.Summary, error) { return r.sum, r.err }

// Queues is how many queues are sampled.
func (r *Recording) Queues() int { return r.queues }

// Fire is the time for a sample in the wall clock.
func (p *part) Fire(now units.Time) {
	if p.tap.Closed() {
		return
	}
	p.sample(now)
	p.next += p.every
	p.timer.Arm(p.next)
}

// sample reads all queues of the part.
func (p *part) sample(now units.Time) {
	i := 0
	for k, e := range p.ports {
		p.readings[i] = p.fabric.readPort(now, e, p.alone)
		i++
		if n := p.classes[k]; n > 0 {
			p.readings[i-1] = p.fabric.readClasses(now, e, p.readings[i-1], p.readings[i:i+n])
			i += n
		}
	}
	p.tap.Put(now, p.readings)
}

// readPort reads a port. Packets that were under way when a link went down are
// counted by the far half of the link, which another engine may be writing.
func (f *Fabric) readPort(now units.Time, e spec.End, alone bool) series.Reading {
	p := f.ports[e.Node][e.Port]
	c := p.Counters(now)
	_, queue := p.Queued(now)
	r := series.Reading{
		Queue: queue, QueueMax: p.TakeMaxQueue(now), TxBytes: c.TxBytes, RxBytes: c.RxBytes,
		Dropped: c.Dropped(), Marked: c.Marked,
	}
	if l := p.Link(); l != nil && (alone || !l.Crosses()) {
		r.Dropped += l.Counters().Cut
	}
	return r
}

// readClasses reads the classes of a port and gives what they add to the port
// as a whole: its trims, and the pause of the class that was paused longest.
func (f *Fabric) readClasses(now units.Time, e spec.End, whole series.Reading, into []series.Reading) series.Reading {
	p := f.ports[e.Node][e.Port]
	for i := range into {
		c := p.SampleClass(now, i)
		into[i] = series.Reading{
			Queue: c.Queue, QueueMax: c.QueueMax, TxBytes: c.TxBytes,
			Dropped: c.Dropped, Marked: c.Marked, Trimmed: c.Trimmed, Paused: c.Paused,
		}
		whole.Trimmed += c.Trimmed
		whole.Paused = max(whole.Paused, c.Paused)
	}
	return whole
}

// runSampled is run with a stop at every sample, so that what the samples say
// depends neither on the number of shards nor on the order of events within
// one instant.
func (f *Fabric) runSampled(ctx context.Context, until units.Time) error {
	r := f.recording
	if r == nil || len(r.parts) == 0 {
		return f.run(ctx, until)
	}
	p := r.parts[0]
	for ; p.next <= until && !p.tap.Closed(); p.next += r.every {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.due() <= p.next {
			if err := f.run(ctx, p.next); err != nil {
				// Several shards have come to different times: there is no
				// instant for a last sample.
				r.stopped = len(f.Shards) > 1 && !errors.Is(err, errDeadlocked)
				return err
			}
		}
		if until == units.Never && f.due() == units.Never {
			return nil // Stop takes the last sample
		}
		p.sample(p.next)
	}
	err := f.run(ctx, until)
	r.stopped = err != nil && len(f.Shards) > 1 && !errors.Is(err, errDeadlocked)
	return err
}

// due is the time of the earliest thing that will happen. No shard runs
// meanwhile.
func (f *Fabric) due() units.Time {
	due := units.Never
	for _, s := range f.Shards {
		due = min(due, s.Engine.Due())
	}
	return due
}
