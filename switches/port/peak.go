package port

import "github.com/weftlab/weft/sim/units"

// TakeMaxQueue gives the longest that the queue has been since the last call,
// or since the start, and starts over with what waits now. Counters are not
// touched by it. There is one caller: the series of the run.
func (p *Port) TakeMaxQueue(now units.Time) units.Bytes {
	p.settle(now)
	longest := p.counters.MaxQueue
	p.longest = max(p.longest, longest)
	p.counters.MaxQueue = p.bytes
	return longest
}

// ClassSample is one class of a port as the series of a run wants it: counts
// since the start, and the longest queue since the last sample.
type ClassSample struct {
	Queue, QueueMax          units.Bytes
	TxBytes                  uint64
	Dropped, Marked, Trimmed uint64
	Paused                   units.Time // by the peer, or without its credit
}

// SampleClass samples class number i of a port that has classes, by rising
// priority. Like TakeMaxQueue it has one caller. It does not allocate.
func (p *Port) SampleClass(now units.Time, i int) ClassSample {
	c := p.classes
	q := &c.queues[i]
	s := ClassSample{
		Queue: q.bytes, QueueMax: q.longest, TxBytes: q.tx.bytes,
		Dropped: q.dropped, Marked: q.marked, Trimmed: q.trimmed, Paused: c.flow.rx.Got(now, q.prio).Time + q.waited(now),
	}
	q.ever = max(q.ever, q.longest)
	q.longest = q.bytes
	return s
}
