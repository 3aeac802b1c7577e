package pattern

import (
	"container/heap"
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// schedule computes when an open loop makes requests. Every host that needs it keeps its
// own copy; all copies agree.
type schedule struct {
	p         *requests
	processes []process // a heap by time and place
}

// request is a request of an open loop.
type request struct {
	at         units.Time // Never for none
	aggregator int
	number     uint32
}

// process makes requests one after the other.
type process struct {
	request
	place int // among the aggregators
	rand  *rand.Rand
}

// scheduleOf returns the requests from the start: those of one aggregator, or of all if
// it is negative. If requests roam it always returns those of all.
func (q *requests) scheduleOf(aggregator int) schedule {
	s := schedule{p: q}
	for i, a := range q.Aggregators {
		p := process{request{aggregator: a}, i, nil}
		switch {
		case q.Roaming:
			p.rand = q.streamOf("requests")
		case aggregator >= 0 && a != aggregator:
			continue
		default:
			p.rand = q.streamOf("requests of host %d", a)
		}
		t := q.Start
		if !q.Times.fixed {
			t = q.Times.drawAfter(t, float64(q.Every), p.rand)
		}
		s.setNext(&p, t)
		s.processes = append(s.processes, p)
		if q.Roaming {
			break
		}
	}
	heap.Init(&s)
	return s
}

// setNext sets the time of a process's next request to t.
func (s *schedule) setNext(p *process, t units.Time) {
	p.at = t
	if hasEnded(t, s.p.Stop) || s.p.Count > 0 && p.number == uint32(s.p.Count) {
		p.at = units.Never
		return
	}
	if s.p.Roaming {
		p.aggregator = s.p.Aggregators[p.rand.IntN(len(s.p.Aggregators))]
	}
}

// nextRequest returns the next request.
func (s *schedule) nextRequest() request { return s.processes[0].request }

// advanceRequest moves on to the following request.
func (s *schedule) advanceRequest() {
	p := &s.processes[0]
	p.number++
	s.setNext(p, s.p.Times.drawAfter(p.at, float64(s.p.Every), p.rand))
	if len(s.processes) > 1 {
		heap.Fix(s, 0)
	}
}

func (s *schedule) Len() int { return len(s.processes) }
func (s *schedule) Less(i, j int) bool {
	a, b := &s.processes[i], &s.processes[j]
	return a.at < b.at || a.at == b.at && a.place < b.place
}
func (s *schedule) Swap(i, j int) { s.processes[i], s.processes[j] = s.processes[j], s.processes[i] }
func (s *schedule) Push(any)      { panic("the processes of a schedule are fixed") }
func (s *schedule) Pop() any      { panic("the processes of a schedule are fixed") }

// draws draws the workers of requests. Every host that knows a request's number draws the same.
type draws struct {
	p       *requests
	streams numbered
	seen    []uint64 // a bit for each worker
	workers []int
}

func newDraws(q *requests) draws {
	return draws{p: q, streams: q.numberedStream("request"), seen: make([]uint64, (len(q.Workers)+63)/64)}
}

// drawWorkers returns the places of a request's workers, and the stream from which the sizes of
// their answers are drawn next. Both are valid until the next draw.
func (d *draws) drawWorkers(aggregator int, number uint32) ([]int, *rand.Rand) {
	r := d.streams.streamAt(uint64(aggregator)<<32 | uint64(number))
	m := len(d.p.Workers)
	self, works := d.p.worker[aggregator]
	if works {
		m--
	}
	n := d.p.Fanout
	if n == 0 {
		n = m
	}
	// Floyd's algorithm to draw n of m, in n steps.
	d.workers = d.workers[:0]
	for j := m - n; j < m; j++ {
		i := j
		if n < m {
			if k := r.IntN(j + 1); d.seen[k/64]>>(k%64)&1 == 0 {
				i = k
			}
			d.seen[i/64] |= 1 << (i % 64)
		}
		d.workers = append(d.workers, i)
	}
	for k, i := range d.workers {
		d.seen[i/64] &^= 1 << (i % 64)
		if works && i >= self {
			d.workers[k]++
		}
	}
	return d.workers, r
}
