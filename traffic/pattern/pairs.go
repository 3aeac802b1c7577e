package pattern

import "iter"

// paired is a Pattern that knows which hosts send to which.
type paired interface {
	// Pairs yields every pair of hosts between which a flow may go, the sender first. A
	// pair may come more than once.
	Pairs() iter.Seq2[int, int]
}

// Pairs yields every pair of hosts between which a flow of a pattern may go, the host with
// the data first. A pair may come more than once. Of a pattern that does not know, these are
// all pairs of its hosts.
func Pairs(p Pattern) iter.Seq2[int, int] {
	if p, ok := p.(paired); ok {
		return p.Pairs()
	}
	return func(yield func(from, to int) bool) {
		for _, from := range p.Hosts() {
			for _, to := range p.Hosts() {
				if from != to && !yield(from, to) {
					return
				}
			}
		}
	}
}

// pairs yields the pairs of senders and their receivers.
func (r *route) pairs(from []int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i, f := range from {
			for to := range r.receiversOf(i) {
				if to != f && !yield(f, to) {
					return
				}
			}
		}
	}
}

func (a *arrivals) Pairs() iter.Seq2[int, int] { return a.route.pairs(a.Arrivals.Hosts) }
func (o *onOff) Pairs() iter.Seq2[int, int]    { return o.route.pairs(o.OnOff.Hosts) }

func (w *windowed) Pairs() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i, from := range w.order {
			for k := range w.peers {
				if !yield(from, w.to(i, k)) {
					return
				}
			}
		}
	}
}

func (c *collective) Pairs() iter.Seq2[int, int] {
	hosts, peers := c.Collective.Hosts, 1
	if c.Operation == Exchange {
		peers = len(hosts) - 1
	}
	return func(yield func(from, to int) bool) {
		for i, from := range hosts {
			for k := range peers {
				if !yield(from, hosts[(i+1+k)%len(hosts)]) {
					return
				}
			}
		}
	}
}

func (p *list) Pairs() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i := range p.flows {
			if !yield(p.flows[i].From, p.flows[i].To) {
				return
			}
		}
	}
}

func (q *requests) Pairs() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for _, a := range q.Aggregators {
			for _, w := range q.Workers {
				if w == a {
					continue
				}
				if q.Request != nil && !yield(a, w) || !yield(w, a) {
					return
				}
			}
		}
	}
}
