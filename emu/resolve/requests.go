package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) resolveRequests(f *labfile.Requests) maker {
	q := pattern.Requests{Stream: e.stream, Roaming: f.Roaming, Times: e.resolveLaw(f.Times)}
	q.Aggregators = e.findHosts(f.Aggregators, &f.Aggregators, 1)
	q.Workers = e.findHosts(f.Workers, &f.Workers, 1)
	setFrom((*labfile.Amount)(&q.Fanout), f.Fanout)
	setFrom((*labfile.Amount)(&q.Outstanding), f.Outstanding)
	setFrom((*labfile.Amount)(&q.Count), f.Count)
	setFrom(&q.Every, f.Every)
	setFrom(&q.Think, f.Think)
	q.Start, q.Stop = e.resolveSpan(&f.Span)
	e.checkEnd(f.Stop != nil || f.Count != nil, "stop: or count:")
	e.checkTime(f.Every, "every", maxTime)
	e.checkTime(f.Think, "think", maxTime)
	e.checkLoop(f)
	e.checkWorkers(f, &q)
	if f.Request != nil {
		q.Request = sizesOf(e.Reader, f.Request)
	}
	switch {
	case (f.Response == nil) == (f.Total == nil):
		e.ReportFault(e.FirstSet(f.Total, e.place), "write response: with the size of each worker's answer, or total: with the total size of a request's answers", "exactly one of response and total is required")
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
		e.ReportFault(f.Every, "leave it out for a closed loop", "every must be above 0")
	case f.Every != nil && f.Think != nil:
		e.ReportFault(f.Think, "leave out think, or every", "requests with every: do not wait for answers")
	case f.Every != nil && f.Outstanding != nil:
		e.ReportFault(f.Outstanding, "leave out outstanding, or every", "requests with every: do not wait for answers")
	case f.Every == nil && f.Request == nil:
		e.ReportFault(e.place, "write request: with its size, such as 100B, or every: for requests at times that workers know", "a closed loop needs a request message")
	case f.Every == nil && f.Roaming:
		e.ReportFault(&f.Roaming, "write every: too", "each aggregator has its own closed loop, which cannot roam")
	case f.Every == nil && f.Think == nil && f.Times != nil:
		e.ReportFault(f.Times, "write every: or think: too", "times is the distribution of every or think, and has no effect without either")
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
			e.FailOnce(e.FirstSet(&f.Workers, e.place), "no host is its own worker", "%s has no worker but itself", name)
		case q.Fanout > n:
			e.FailOnce(f.Fanout, "", "a request goes to %d workers, and %s has only %d", q.Fanout, name, n)
		}
	}
}
