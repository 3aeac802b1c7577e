package pattern

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// List is an explicit list of flows, for instance from a file, each with its start time or
// its trigger. A flow's tag is its place in the list.
type List struct {
	Hosts    []int // the hosts that the flows' numbers stand for: number i is Hosts[i]
	Flows    []Listed
	Triggers []Trigger
	Offset   units.Time // added to the times of all flows; may be negative
}

// Listed is a flow of a list.
type Listed struct {
	From, To int // numbers of hosts, from 0
	Size     units.Bytes
	At       units.Time // when it starts, unless Trigger starts it
	Group    uint64
	Trigger  int // the place in Triggers, from 1, of what starts it; 0 for none: it starts at At
	// Sent and Received are the places, from 1, of what is activated when the flow is
	// complete at its sender, and when all of it has arrived at its receiver; 0 for none.
	Sent, Received int
	Line           int // in the file that it is from, for errors; 0 for none
}

// Trigger starts flows when others have ended.
type Trigger struct {
	Kind  TriggerKind
	Count int // of a Barrier: how often it is activated before it starts its flows
}

// TriggerKind is what a trigger does when it is activated.
type TriggerKind uint8

// The kinds of triggers, as htsim has them.
const (
	Oneshot   TriggerKind = iota // starts all its flows; it is activated once
	Multishot                    // starts one flow more each time, in the list's order
	Barrier                      // starts all its flows when activated for the Count-th time
)

// place names a flow in errors.
func (f Listed) place(i int) string {
	if f.Line > 0 {
		return fmt.Sprintf("line %d", f.Line)
	}
	return fmt.Sprintf("flow %d", i+1)
}

type list struct {
	basic
	flows    []Flow
	listed   []Listed
	triggers []Trigger
	started  [][]int32       // by trigger: the flows that it starts
	timed    map[int][]int32 // by host
	acts     map[int]bool    // hosts that send, or activate triggers
	together [][]int         // sets of hosts between which triggers act
}

// Make checks l and makes its pattern. A trigger is activated at the host that sees the cause: a
// sender sees its flows complete, a receiver sees them arrive. It starts flows at that instant,
// those of other hosts too (Together). Flows that nothing would ever start are rejected.
func (l List) Make() (Pattern, error) {
	if err := checkHosts("a list of flows", l.Hosts, 2); err != nil {
		return nil, err
	}
	p := &list{
		flows: make([]Flow, len(l.Flows)), listed: l.Flows, triggers: l.Triggers,
		started: make([][]int32, len(l.Triggers)), timed: map[int][]int32{}, acts: map[int]bool{},
	}
	if len(l.Flows) == 0 {
		return nil, errors.New("an empty list of flows")
	}
	for i, f := range l.Flows {
		if err := l.checkFlow(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.place(i), err)
		}
		p.flows[i] = Flow{
			Tag: uint32(i), From: l.Hosts[f.From], To: l.Hosts[f.To], Size: f.Size, At: f.At + l.Offset, Group: f.Group,
		}
		p.hosts = append(p.hosts, l.Hosts[f.From], l.Hosts[f.To])
		p.acts[l.Hosts[f.From]] = true
		if f.Received > 0 {
			p.acts[l.Hosts[f.To]] = true
		}
		if f.Trigger > 0 {
			p.started[f.Trigger-1] = append(p.started[f.Trigger-1], int32(i))
		} else {
			p.timed[p.flows[i].From] = append(p.timed[p.flows[i].From], int32(i))
		}
	}
	p.hosts = unionHosts(p.hosts)
	for _, flows := range p.timed {
		slices.SortStableFunc(flows, func(a, b int32) int {
			return int(min(max(p.flows[a].At-p.flows[b].At, -1), 1))
		})
	}
	p.together = p.joinHosts()
	return p, p.completeAll()
}

// checkFlow returns what is wrong with one flow.
func (l List) checkFlow(f Listed) error {
	for _, h := range []int{f.From, f.To} {
		if h < 0 || h >= len(l.Hosts) {
			return fmt.Errorf("there is no host %d: hosts are 0 to %d", h, len(l.Hosts)-1)
		}
	}
	for _, t := range []int{f.Trigger, f.Sent, f.Received} {
		if t < 0 || t > len(l.Triggers) {
			return fmt.Errorf("there is no trigger %d", t)
		}
	}
	switch {
	case f.From == f.To:
		return fmt.Errorf("host %d would send to itself", f.From)
	case f.Size < 1:
		return fmt.Errorf("a flow of %d bytes: at least 1 is needed", int64(f.Size))
	case f.Trigger == 0 && (f.At < 0 || f.At+l.Offset < 0):
		return fmt.Errorf("it starts at %v, before the run", f.At+l.Offset)
	}
	return nil
}

// joinHosts returns the sets of hosts between which triggers act: those that activate a trigger,
// and those whose flows it starts. Sets of one host are left out.
func (p *list) joinHosts() [][]int {
	parent := map[int]int{}
	find := func(h int) int {
		for {
			up, joined := parent[h]
			if !joined {
				return h
			}
			h = up
		}
	}
	join := func(a, b int) {
		if a, b = find(a), find(b); a != b {
			parent[max(a, b)] = min(a, b)
		}
	}
	for i, f := range p.listed {
		for _, by := range [...]struct{ trigger, host int }{{f.Sent, p.flows[i].From}, {f.Received, p.flows[i].To}} {
			if by.trigger == 0 {
				continue
			}
			for _, k := range p.started[by.trigger-1] {
				join(by.host, p.flows[k].From)
			}
		}
	}
	sets := map[int][]int{}
	for _, h := range p.hosts {
		sets[find(h)] = append(sets[find(h)], h)
	}
	var all [][]int
	for _, h := range p.hosts { // in their order
		if set := sets[h]; len(set) > 1 {
			all = append(all, set)
		}
	}
	return all
}

// completeAll completes all flows, in the list's order, and checks that each starts.
func (p *list) completeAll() error {
	state := map[int]int{}
	var ready []int32
	for i := range p.flows {
		if p.listed[i].Trigger == 0 {
			ready = append(ready, int32(i))
		}
	}
	started := make([]bool, len(p.flows))
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		started[i] = true
		for _, t := range []int{p.listed[i].Sent, p.listed[i].Received} {
			if t == 0 {
				continue
			}
			if state[t] > 0 && p.triggers[t-1].Kind == Oneshot {
				return fmt.Errorf("%s: it activates a oneshot trigger that another flow activates too: make it a barrier or multishot",
					p.listed[i].place(int(i)))
			}
			ready = append(ready, p.activateTrigger(state, t)...)
		}
	}
	if i := slices.Index(started, false); i >= 0 {
		return fmt.Errorf("%s: it never starts: its trigger is not activated often enough", p.listed[i].place(i))
	}
	return nil
}

// activateTrigger returns the flows started by an activation of a trigger, from 1. state counts
// the activations of triggers.
func (p *list) activateTrigger(state map[int]int, trigger int) []int32 {
	state[trigger]++
	t, flows, n := p.triggers[trigger-1], p.started[trigger-1], state[trigger]
	switch {
	case t.Kind == Multishot && n <= len(flows):
		return flows[n-1 : n]
	case t.Kind == Oneshot && n == 1, t.Kind == Barrier && n == t.Count:
		return flows
	}
	return nil
}

func (p *list) Agent(host int) Agent {
	if !p.acts[host] {
		return nil
	}
	return &listAgent{p: p, host: host, timed: p.timed[host], state: map[int]int{}}
}

// Together implements together.
func (p *list) Together() [][]int { return p.together }

type listAgent struct {
	p     *list
	host  int
	timed []int32     // flows that have not started
	state map[int]int // of the triggers whose first flow is this host's
	peer  func(host int) (Agent, func(Flow))
}

// LinkAgents implements Linked.
func (g *listAgent) LinkAgents(peer func(host int) (Agent, func(Flow))) { g.peer = peer }

func (g *listAgent) NextFlow() units.Time {
	if len(g.timed) == 0 {
		return units.Never
	}
	return g.p.flows[g.timed[0]].At
}

func (g *listAgent) Fire(now units.Time, start func(Flow)) {
	for len(g.timed) > 0 && g.NextFlow() <= now {
		i := g.timed[0]
		g.timed = g.timed[1:]
		start(g.p.flows[i])
	}
}

func (g *listAgent) OnArrival(now units.Time, f Flow, start func(Flow)) {
	g.activateTrigger(now, g.p.listed[f.Tag].Received, start)
}

func (g *listAgent) OnCompletion(now units.Time, f Flow, start func(Flow)) {
	g.activateTrigger(now, g.p.listed[f.Tag].Sent, start)
}

func (g *listAgent) activateTrigger(now units.Time, trigger int, start func(Flow)) {
	if trigger == 0 || len(g.p.started[trigger-1]) == 0 {
		return
	}
	keeper := g
	if home := g.p.flows[g.p.started[trigger-1][0]].From; home != g.host {
		a, _ := g.peer(home)
		keeper = a.(*listAgent)
	}
	for _, i := range g.p.activateTrigger(keeper.state, trigger) {
		f := g.p.flows[i]
		f.At = now
		begin := start
		if f.From != g.host {
			_, begin = g.peer(f.From)
		}
		begin(f)
	}
}
