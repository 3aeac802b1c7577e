package port

import "github.com/weftlab/weft/sim/units"

// TakeMaxQueue returns the maximum length of the queue since the last call, or
// since the start, and restarts from the current length. It does not affect
// Counters. There is one caller: the series of the run.
func (p *Port) TakeMaxQueue(now units.Time) units.Bytes {
	p.drainDeparted(now)
	longest := p.counters.MaxQueue
	p.longest = max(p.longest, longest)
	p.counters.MaxQueue = p.bytes
	return longest
}

// ClassSample is a sample of one class of a port for the series of a run: counts
// since the start, and the longest queue since the last sample.
type ClassSample struct {
	Queue, QueueMax          units.Bytes
	TxBytes                  uint64
	Dropped, Marked, Trimmed uint64
	Paused                   units.Time // by the peer, or without credit from it
}

// SampleClass samples class number i, by ascending priority, of a port with
// classes. Like TakeMaxQueue it has one caller. It does not allocate.
func (p *Port) SampleClass(now units.Time, i int) ClassSample {
	c := p.classes
	q := &c.queues[i]
	s := ClassSample{
		Queue: q.bytes, QueueMax: q.longest, TxBytes: q.tx.bytes,
		Dropped: q.dropped, Marked: q.marked, Trimmed: q.trimmed, Paused: c.flow.rx.Statistics(now, q.prio).Time + q.creditWait(now),
	}
	q.ever = max(q.ever, q.longest)
	q.longest = q.bytes
	return s
}
