package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) requests(f *labfile.Requests) maker {
	q := pattern.Requests{Stream: e.stream, Roaming: f.Roaming, Times: e.law(f.Times)}
	q.Aggregators = e.hosts(f.Aggregators, &f.Aggregators, 1)
	q.Workers = e.hosts(f.Workers, &f.Workers, 1)
	set((*labfile.Amount)(&q.Fanout), f.Fanout)
	set((*labfile.Amount)(&q.Outstanding), f.Outstanding)
	set((*labfile.Amount)(&q.Count), f.Count)
	set(&q.Every, f.Every)
	set(&q.Think, f.Think)
	q.Start, q.Stop = e.span(&f.Span)
	e.ends(f.Stop != nil || f.Count != nil, "stop: or count:")
	e.checkTime(f.Every, "every", maxTime)
	e.checkTime(f.Think, "think", maxTime)
	e.checkLoop(f)
	e.checkWorkers(f, &q)
	if f.Request != nil {
		q.Request = sizesOf(e.Reader, f.Request)
	}
	switch {
	case (f.Response == nil) == (f.Total == nil):
		e.Fail(e.Some(f.Total, e.place), "write response: with the size of each worker's answer, or total: with the total size of a request's answers", "exactly one of response and total is required")
	case f.Total != nil:
		q.Response, q.Total = sizesOf(e.Reader, f.Total), true
	default:
		q.Response = sizesOf(e.Reader, f.Response)
	}
	return q
}

// checkLoop checks the keys that belong to an open or a closed loop.
func (e *patternEntry) checkLoop(f *labfile.Requests) {
	switch {
	case f.Every != nil && *f.Every == 0:
		e.Fail(f.Every, "leave it out for a closed loop", "every must be above 0")
	case f.Every != nil && f.Think != nil:
		e.Fail(f.Think, "leave out think, or every", "requests with every: do not wait for answers")
	case f.Every != nil && f.Outstanding != nil:
		e.Fail(f.Outstanding, "leave out outstanding, or every", "requests with every: do not wait for answers")
	case f.Every == nil && f.Request == nil:
		e.Fail(e.place, "write request: with its size, such as 100B, or every: for requests at times that workers know", "a closed loop needs a request message")
	case f.Every == nil && f.Roaming:
		e.Fail(&f.Roaming, "write every: too", "each aggregator has its own closed loop, which cannot roam")
	case f.Every == nil && f.Think == nil && f.Times != nil:
		e.Fail(f.Times, "write every: or think: too", "times is the distribution of every or think, and has no effect without either")
	}
}

// checkWorkers checks that each aggregator has as many workers as it needs.
func (e *patternEntry) checkWorkers(f *labfile.Requests, q *pattern.Requests) {
	works := map[int]bool{}
	for _, w := range q.Workers {
		works[w] = true
	}
	for _, a := range q.Aggregators {
		n := len(q.Workers)
		if works[a] {
			n--
		}
		name := e.plan.Nodes[a].Name
		switch {
		case n < 0 || len(q.Workers) == 0: // reported
		case n == 0:
			e.FailOnce(e.Some(&f.Workers, e.place), "no host is its own worker", "%s has no worker but itself", name)
		case q.Fanout > n:
			e.FailOnce(f.Fanout, "", "a request goes to %d workers, and %s has only %d", q.Fanout, name, n)
		}
	}
}
