package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// Requests is partition and aggregate: an aggregator asks some workers, and all of them
// answer it at once, which is an incast. With a Fanout of 1 it is a remote procedure call.
//
// With Every it is an open loop: requests are made at times of their own. Without, it is
// closed: an aggregator makes its next request a time Think after it has all answers to
// the previous one.
//
// A request is a group, and complete when all its answers have arrived. The request
// messages belong to it too.
type Requests struct {
	Stream
	Aggregators []int
	// Workers may include aggregators; no host is its own worker.
	Workers []int
	// Fanout is the number of workers of a request, drawn for each request; 0 for all.
	Fanout int
	// Request is the size of the message to each worker. If it is nil there is none:
	// workers know when requests are made and answer then. That needs an open loop.
	Request sizes.Dist
	// Response is the size of each worker's answer or, if Total, of all answers to a
	// request together, which is split evenly: the first ones are 1 B larger if it does not
	// divide, and each has at least 1 B.
	Response sizes.Dist
	Total    bool

	// Every is the mean time between the requests of an aggregator, or of all of them if
	// Roaming; 0 for a closed loop.
	Every units.Time
	// Roaming is for open loops: one process makes all requests, and the aggregator of
	// each is drawn.
	Roaming bool
	// Think is the mean time that a closed loop waits from the last answer to the next
	// request, and from Start to the first.
	Think units.Time
	// Outstanding is the number of requests of a closed loop that an aggregator has under
	// way at a time, each with its own think time; 0 means one.
	Outstanding int
	// Times is the distribution of Every or Think; zero is constant. Open loops at constant
	// times begin exactly at Start, all aggregators together.
	Times       Law
	Start, Stop units.Time // requests are made from Start on, before Stop; a Stop of 0 is none
	Count       int        // requests of each aggregator, or in all if Roaming; 0 for no limit
}

// answer marks the tag of an answer. The rest of a tag is the number of the request.
const answer = 1 << 31

type requests struct {
	Requests
	basic
	worker map[int]int // places of hosts among the workers
}

func (q *requests) Hosts() []int { return q.basic.hosts }

func (q *requests) isOpenLoop() bool { return q.Every > 0 }

// Make checks q and makes its pattern.
func (q Requests) Make() (Pattern, error) {
	if err := checkHosts("aggregators", q.Aggregators, 1); err != nil {
		return nil, err
	}
	if err := checkHosts("workers", q.Workers, 1); err != nil {
		return nil, err
	}
	p := &requests{q, basic{unionHosts(q.Aggregators, q.Workers)}, map[int]int{}}
	for i, h := range q.Workers {
		p.worker[h] = i
	}
	for _, a := range q.Aggregators {
		if n := p.eligibleWorkers(a); n == 0 {
			return nil, fmt.Errorf("aggregator %d has no worker but itself", a)
		} else if q.Fanout > n {
			return nil, fmt.Errorf("a request to %d workers: aggregator %d has only %d", q.Fanout, a, n)
		}
	}
	switch {
	case q.Response == nil:
		return nil, errors.New("requests without the size of a response")
	case q.Fanout < 0 || q.Every < 0 || q.Think < 0 || q.Outstanding < 0 || q.Count < 0:
		return nil, errors.New("requests: fanout, times, requests outstanding and count must not be negative")
	case q.Every > 0 && (q.Think > 0 || q.Outstanding > 0):
		return nil, errors.New("requests at set times (every) do not wait for answers: think and outstanding are for closed loops")
	case q.Every == 0 && q.Request == nil:
		return nil, errors.New("a closed loop needs a size of the request message: only that tells workers of a request")
	case q.Every == 0 && q.Roaming:
		return nil, errors.New("each aggregator has its own closed loop: only requests at set times (every) roam")
	}
	if err := checkTimes(q.Start, q.Stop); err != nil {
		return nil, err
	}
	p.Times = q.Times.orElse(ConstantLaw())
	p.Outstanding = max(q.Outstanding, 1)
	return p, nil
}

// eligibleWorkers returns how many workers may work for an aggregator.
func (q *requests) eligibleWorkers(aggregator int) int {
	n := len(q.Workers)
	if _, ok := q.worker[aggregator]; ok {
		n--
	}
	return n
}

// groupOf returns a request's group; aggregators count their own requests, or all if they roam.
func groupOf(aggregator int, number uint32) uint64 {
	return uint64(aggregator)<<32 | uint64(number&^answer) + 1
}

func (q *requests) Agent(host int) Agent {
	g := &requestAgent{host: host}
	if i := slices.Index(q.Aggregators, host); i >= 0 && q.Request != nil {
		a := &aggregator{p: q, host: host, rand: q.Stream.hostStream(host), draws: newDraws(q)}
		if q.Every > 0 {
			a.requests = q.scheduleOf(host)
			a.seekOwn()
		} else {
			a.open = map[uint32]int{}
			for range q.Outstanding {
				a.thinkUntil(q.Times.drawFirst(q.Start, float64(q.Think), a.rand))
			}
		}
		g.aggregator = a
	}
	if i, ok := q.worker[host]; ok && !slices.Equal(q.Aggregators, []int{host}) {
		w := &worker{p: q, host: host, place: i, draws: newDraws(q)}
		if q.Request == nil {
			w.requests = q.scheduleOf(-1)
			w.seekOwn()
		}
		g.worker = w
	}
	if g.aggregator == nil && g.worker == nil {
		return nil
	}
	return g
}

// requestAgent is a host that is an aggregator, a worker or both.
type requestAgent struct {
	host       int
	aggregator *aggregator
	worker     *worker
}

func (g *requestAgent) NextFlow() units.Time {
	due := units.Never
	if g.aggregator != nil {
		due = g.aggregator.nextRequest()
	}
	if g.worker != nil {
		due = min(due, g.worker.nextAnswer())
	}
	return due
}

func (g *requestAgent) Fire(now units.Time, start func(Flow)) {
	if g.aggregator != nil {
		g.aggregator.startRequest(now, start)
	}
	if g.worker != nil {
		g.worker.startAnswer(now, start)
	}
}

func (g *requestAgent) OnArrival(now units.Time, f Flow, start func(Flow)) {
	if f.Tag&answer == 0 {
		start(g.worker.answerRequest(now, f.From, f.Tag))
	} else if g.aggregator != nil {
		g.aggregator.countAnswer(now, f.Tag)
	}
}

func (g *requestAgent) OnCompletion(units.Time, Flow, func(Flow)) {}

// aggregator sends requests.
type aggregator struct {
	p    *requests
	host int
	rand *rand.Rand // think times and sizes of requests
	draws
	requests schedule // of an open loop; at its next request of this host

	// Of a closed loop:
	times []units.Time   // when thinking is over
	open  map[uint32]int // answers to come, for each request under way
	n     uint32
}

func (a *aggregator) nextRequest() units.Time {
	if a.p.Every > 0 {
		return a.requests.nextRequest().at
	}
	if len(a.times) == 0 {
		return units.Never
	}
	return slices.Min(a.times)
}

// seekOwn advances to a request of this host.
func (a *aggregator) seekOwn() {
	for a.requests.nextRequest().at != units.Never && a.requests.nextRequest().aggregator != a.host {
		a.requests.advanceRequest()
	}
}

func (a *aggregator) thinkUntil(until units.Time) {
	enough := a.p.Count > 0 && int(a.n)+len(a.times) >= a.p.Count
	if !enough && !hasEnded(until, a.p.Stop) {
		a.times = append(a.times, until)
	}
}

func (a *aggregator) startRequest(now units.Time, start func(Flow)) {
	if a.p.Every > 0 {
		for r := a.requests.nextRequest(); r.at <= now; r = a.requests.nextRequest() {
			a.requests.advanceRequest()
			a.seekOwn()
			a.requestWorkers(r.at, r.number, start)
		}
		return
	}
	for len(a.times) > 0 {
		i := slices.Index(a.times, slices.Min(a.times))
		at := a.times[i]
		if at > now {
			return
		}
		a.times = slices.Delete(a.times, i, i+1)
		number := a.n &^ answer
		a.n++
		a.open[number] = a.requestWorkers(at, number, start)
	}
}

// requestWorkers sends a request to its workers and returns their number.
func (a *aggregator) requestWorkers(at units.Time, number uint32, start func(Flow)) int {
	workers, _ := a.drawWorkers(a.host, number)
	for _, w := range workers {
		start(Flow{
			Tag: number, From: a.host, To: a.p.Workers[w], Size: a.p.Request.DrawSize(a.rand), At: at,
			Group: groupOf(a.host, number),
		})
	}
	return len(workers)
}

// countAnswer counts an answer; the last one of a closed loop begins the thinking.
func (a *aggregator) countAnswer(now units.Time, tag uint32) {
	number := tag &^ answer
	left, ok := a.open[number]
	switch {
	case !ok:
	case left > 1:
		a.open[number] = left - 1
	default:
		delete(a.open, number)
		a.thinkUntil(a.p.Times.drawAfter(now, float64(a.p.Think), a.rand))
	}
}

// worker answers requests.
type worker struct {
	p           *requests
	host, place int
	draws
	requests schedule // if there are no messages; at the next request to this worker
	size     units.Bytes
}

func (w *worker) nextAnswer() units.Time {
	if w.p.Request != nil {
		return units.Never
	}
	return w.requests.nextRequest().at
}

// seekOwn advances to a request to this worker and records the size of its answer.
func (w *worker) seekOwn() {
	for ; w.requests.nextRequest().at != units.Never; w.requests.advanceRequest() {
		r := w.requests.nextRequest()
		if r.aggregator == w.host {
			continue
		}
		if w.size = w.answerSize(r.aggregator, r.number); w.size > 0 {
			return
		}
	}
}

// answerSize returns the size of this worker's answer, 0 if it is not asked.
func (w *worker) answerSize(aggregator int, number uint32) units.Bytes {
	workers, r := w.drawWorkers(aggregator, number)
	i := slices.Index(workers, w.place)
	if i < 0 {
		return 0
	}
	if !w.p.Total {
		for range i {
			w.p.Response.DrawSize(r)
		}
		return w.p.Response.DrawSize(r)
	}
	n := units.Bytes(len(workers))
	total := w.p.Response.DrawSize(r)
	size := total / n
	if units.Bytes(i) < total%n {
		size++
	}
	return max(size, 1)
}

func (w *worker) sendAnswer(at units.Time, aggregator int, number uint32, size units.Bytes) Flow {
	return Flow{
		Tag: number | answer, From: w.host, To: aggregator, Size: size, At: at, Group: groupOf(aggregator, number),
	}
}

// answerRequest answers a request that has arrived.
func (w *worker) answerRequest(now units.Time, aggregator int, number uint32) Flow {
	return w.sendAnswer(now, aggregator, number, w.answerSize(aggregator, number))
}

func (w *worker) startAnswer(now units.Time, start func(Flow)) {
	for w.nextAnswer() <= now {
		r, size := w.requests.nextRequest(), w.size
		w.requests.advanceRequest()
		w.seekOwn()
		start(w.sendAnswer(r.at, r.aggregator, r.number, size))
	}
}
