package resolve

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// requestsFile configures partition-aggregate, incast, and request-response
// traffic.
type requestsFile struct {
	patternFile `yaml:",inline"`
	Aggregators yamlfile.OneOrMore[string] `yaml:"aggregators,omitempty" jsonschema_description:"hosts that send requests, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Workers     yamlfile.OneOrMore[string] `yaml:"workers,omitempty" jsonschema_description:"hosts that answer, likewise; no host is its own worker; default all"`
	Fanout      *amount                    `yaml:"fanout,omitempty" jsonschema_description:"number of workers of a request, drawn at random for each; default all"`
	Request     *sizesForm                 `yaml:"request,omitempty" jsonschema_description:"sizes of the message to each worker; default none if every is set: workers then answer at the times of the requests"`
	Response    *sizesForm                 `yaml:"response,omitempty" jsonschema_description:"sizes of each worker's answer"`
	Total       *sizesForm                 `yaml:"total,omitempty" jsonschema_description:"in place of response: total size of the answers to a request, divided equally among the workers"`
	Every       *units.Time                `yaml:"every,omitempty" jsonschema_description:"mean time between the requests of an aggregator, which do not wait for answers; default a closed loop: the next request follows the last answer"`
	Roaming     bool                       `yaml:"roaming,omitempty" jsonschema_description:"with every: one process makes all requests and draws an aggregator for each; default false"`
	Think       *units.Time                `yaml:"think,omitempty" jsonschema_description:"closed loop: mean time from the last answer to the next request; default 0"`
	Outstanding *amount                    `yaml:"outstanding,omitempty" jsonschema_description:"closed loop: outstanding requests of an aggregator; default 1"`
	Times       *lawForm                   `yaml:"times,omitempty" jsonschema_description:"distribution of every or think; default constant"`
	spanFile    `yaml:",inline"`
	Count       *amount `yaml:"count,omitempty" jsonschema_description:"requests of each aggregator, or of all together if roaming; default no limit"`
}

func (f *requestsFile) resolve(e *patternEntry) maker {
	q := pattern.Requests{Stream: e.stream, Roaming: f.Roaming, Times: e.law(f.Times)}
	q.Aggregators = e.hosts(f.Aggregators, &f.Aggregators, 1)
	q.Workers = e.hosts(f.Workers, &f.Workers, 1)
	set((*amount)(&q.Fanout), f.Fanout)
	set((*amount)(&q.Outstanding), f.Outstanding)
	set((*amount)(&q.Count), f.Count)
	set(&q.Every, f.Every)
	set(&q.Think, f.Think)
	q.Start, q.Stop = e.span(&f.spanFile)
	e.ends(f.Stop != nil || f.Count != nil, "stop: or count:")
	e.checkTime(f.Every, "every", maxTime)
	e.checkTime(f.Think, "think", maxTime)
	f.checkLoop(e)
	f.checkWorkers(e, &q)
	if f.Request != nil {
		q.Request = e.sizes(f.Request)
	}
	switch {
	case (f.Response == nil) == (f.Total == nil):
		e.Fail(e.Some(f.Total, e.place), "write response: with the size of each worker's answer, or total: with the total size of a request's answers", "exactly one of response and total is required")
	case f.Total != nil:
		q.Response, q.Total = e.sizes(f.Total), true
	default:
		q.Response = e.sizes(f.Response)
	}
	return q
}

// checkLoop checks the keys that belong to an open or a closed loop.
func (f *requestsFile) checkLoop(e *patternEntry) {
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
func (f *requestsFile) checkWorkers(e *patternEntry, q *pattern.Requests) {
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
