package pattern

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// net is a minimal network: a flow arrives after a latency plus the time that its bytes
// take, and is complete at its sender half the latency later. The latency is random, so
// flows overtake each other.
type net struct {
	t        testing.TB
	rand     *rand.Rand
	latency  units.Time
	agents   map[int]Agent
	events   events
	n        int
	started  []Flow
	arrived  []Flow      // At is when
	done     []Flow      // likewise
	log      []event     // starts, arrivals and completions, in order
	under    map[int]int // flows under way, by sender
	maxUnder map[int]int // the maximum of under
}

type event struct {
	at    units.Time
	order int
	kind  int // 0: fires; 1: arrives; 2: is complete
	flow  Flow
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (n *net) post(at units.Time, kind int, f Flow) {
	n.n++
	heap.Push(&n.events, event{at, n.n, kind, f})
}

// run runs a pattern until no event is left or the given number of flows have started.
func run(t testing.TB, p Pattern, seed uint64, flows int) *net {
	t.Helper()
	n := &net{t: t, rand: rand.New(rand.NewPCG(seed, 1)), latency: 10 * units.Microsecond, agents: map[int]Agent{}, under: map[int]int{}, maxUnder: map[int]int{}}
	for _, h := range p.Hosts() {
		if a := p.Agent(h); a != nil {
			n.agents[h] = a
			n.arm(h, 0)
		}
	}
	now := units.Time(0)
	for _, a := range n.agents {
		if l, ok := a.(Linked); ok {
			l.LinkAgents(func(host int) (Agent, func(Flow)) { return n.agents[host], n.starter(host, now) })
		}
	}
	for len(n.events) > 0 && len(n.started) < flows {
		e := heap.Pop(&n.events).(event)
		now = e.at
		f := e.flow
		if e.kind > 0 {
			n.log = append(n.log, e)
		}
		switch e.kind {
		case 0:
			if a := n.agents[f.From]; a.NextFlow() <= e.at {
				n.call(f.From, e.at, func(start func(Flow)) { a.Fire(e.at, start) })
			}
		case 1:
			g := f
			g.At = e.at
			n.arrived = append(n.arrived, g)
			if a := n.agents[f.To]; a != nil {
				// Only the fields that the data carries.
				n.call(f.To, e.at, func(start func(Flow)) {
					a.OnArrival(e.at, Flow{Tag: f.Tag, From: f.From, To: f.To, Size: f.Size}, start)
				})
			}
		case 2:
			g := f
			g.At = e.at
			n.done = append(n.done, g)
			n.under[f.From]--
			n.call(f.From, e.at, func(start func(Flow)) { n.agents[f.From].OnCompletion(e.at, f, start) })
		}
	}
	return n
}

// arm posts an event for the time at which an agent is due.
func (n *net) arm(host int, now units.Time) {
	due := n.agents[host].NextFlow()
	if due == units.Never {
		return
	}
	if due < now {
		n.t.Fatalf("host %d is due at %v, and it is %v", host, due, now)
	}
	n.post(due, 0, Flow{From: host})
}

// call calls an agent, and checks and sends the flows that it starts.
func (n *net) call(host int, now units.Time, call func(start func(Flow))) {
	n.t.Helper()
	call(n.starter(host, now))
	n.arm(host, now)
}

// starter returns what starts a flow of a host, checks and sends it.
func (n *net) starter(host int, now units.Time) func(Flow) {
	return func(f Flow) {
		switch {
		case f.From != host:
			n.t.Fatalf("host %d starts a flow of host %d", host, f.From)
		case f.To == f.From || f.To < 0:
			n.t.Fatalf("host %d sends to %d", f.From, f.To)
		case f.Size < 1:
			n.t.Fatalf("a flow of %d bytes", f.Size)
		case f.At > now:
			n.t.Fatalf("a flow created at %v starts at %v", f.At, now)
		}
		n.started = append(n.started, f)
		n.log = append(n.log, event{at: now, flow: f})
		n.under[host]++
		n.maxUnder[host] = max(n.maxUnder[host], n.under[host])
		span := n.latency/2 + units.Time(n.rand.Int64N(int64(n.latency))) + units.Time(f.Size)*80 // 100 Gb/s
		n.post(now+span, 1, f)
		n.post(now+span+n.latency/2, 2, f)
	}
}

// groups returns when each group began, when its last flow had arrived, and how many
// flows it has.
func (n *net) groups() map[uint64]*span {
	g := map[uint64]*span{}
	for _, f := range n.started {
		s := g[f.Group]
		if s == nil {
			s = &span{begin: f.At}
			g[f.Group] = s
		}
		s.begin = min(s.begin, f.At)
		s.flows++
	}
	for _, f := range n.arrived {
		g[f.Group].end = max(g[f.Group].end, f.At)
	}
	return g
}

type span struct {
	begin, end units.Time
	flows      int
}

// must makes a pattern that a test knows to be valid.
func must(p interface{ Make() (Pattern, error) }) Pattern {
	made, err := p.Make()
	if err != nil {
		panic(err)
	}
	return made
}

// hosts returns n hosts that are not numbered from 0.
func hosts(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = 100 + 3*i
	}
	return all
}

// sorted sorts flows by sender, time, receiver and tag, so that sets can be compared.
func sorted(flows []Flow) []Flow {
	flows = slices.Clone(flows)
	slices.SortFunc(flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.At, b.At), cmp.Compare(a.To, b.To), cmp.Compare(a.Tag, b.Tag))
	})
	return flows
}

// equal compares flows of two runs as sets.
func equal(t interface{ Errorf(string, ...any) }, what string, a, b []Flow) {
	a, b = sorted(a), sorted(b)
	if len(a) != len(b) {
		t.Errorf("%s: %d flows and %d", what, len(a), len(b))
		return
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("%s: %+v and %+v", what, a[i], b[i])
			return
		}
	}
}
