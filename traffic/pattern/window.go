package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// Permutation makes each host send to one other and receive from one other, one flow
// after another: a flow starts when the previous one is complete at the sender. All its
// flows are one group; a flow's tag counts the flows of its host.
type Permutation struct {
	Stream
	Hosts       []int
	Partners    Partners
	Sizes       sizes.Dist
	Flows       int        // of each host; 0 for no limit
	Start, Stop units.Time // flows start from Start on, before Stop; a Stop of 0 means no end
}

// Make checks p and returns its pattern.
func (p Permutation) Make() (Pattern, error) {
	r, err := p.Partners.makeRoute(p.Stream, p.Hosts)
	if err != nil {
		return nil, err
	}
	switch {
	case p.Sizes == nil:
		return nil, errors.New("a permutation without sizes")
	case p.Flows < 0:
		return nil, fmt.Errorf("%d flows of each host: it must not be negative", p.Flows)
	}
	if err := checkTimes(p.Start, p.Stop); err != nil {
		return nil, err
	}
	return &windowed{
		basic: basic{unionHosts(p.Hosts)}, stream: p.Stream, order: p.Hosts, sizes: p.Sizes, start: p.Start, stop: p.Stop,
		window: 1, flows: p.Flows, peers: 1,
		to: func(i, _ int) int { return r.to(i)(nil) },
	}, nil
}

// AllToAll makes each host send one flow to every other. The host at position i of the list
// sends to i+1 first, then to i+2 and so on around the list, so that hosts in step send to
// different ones. All flows are one group; a flow's tag counts the flows of its host.
type AllToAll struct {
	Stream
	Hosts []int
	Sizes sizes.Dist
	// Window is how many flows of a host are under way at a time: another starts when one
	// of them is complete at the sender. 0 means all at once.
	Window int
	Start  units.Time
}

// Make checks a and returns its pattern.
func (a AllToAll) Make() (Pattern, error) {
	if err := checkHosts("all-to-all", a.Hosts, 2); err != nil {
		return nil, err
	}
	switch {
	case a.Sizes == nil:
		return nil, errors.New("all-to-all without sizes")
	case a.Window < 0:
		return nil, fmt.Errorf("a window of %d flows: it must not be negative", a.Window)
	}
	if err := checkTimes(a.Start, 0); err != nil {
		return nil, err
	}
	n := len(a.Hosts)
	window := a.Window
	if window == 0 {
		window = n - 1
	}
	return &windowed{
		basic: basic{unionHosts(a.Hosts)}, stream: a.Stream, order: a.Hosts, sizes: a.Sizes, start: a.Start,
		window: window, flows: n - 1, peers: n - 1,
		to: func(i, k int) int { return a.Hosts[(i+1+k)%n] },
	}, nil
}

// windowed is a pattern in which each host has a number of flows under way.
type windowed struct {
	basic
	stream      Stream
	order       []int // hosts in the user's order
	sizes       sizes.Dist
	start, stop units.Time
	window      int
	flows       int                // of each host; 0 for no limit
	to          func(i, k int) int // destination of the k-th flow of the i-th host
	peers       int                // how many different ones these are, of the first flows
}

func (w *windowed) Agent(host int) Agent {
	i := slices.Index(w.order, host)
	if i < 0 {
		return nil
	}
	return &windowAgent{p: w, host: host, i: i, rand: w.stream.hostStream(host), due: w.start}
}

type windowAgent struct {
	p       *windowed
	host, i int
	rand    *rand.Rand
	due     units.Time
	n       int
}

func (g *windowAgent) NextFlow() units.Time { return g.due }

func (g *windowAgent) Fire(now units.Time, start func(Flow)) {
	if now < g.due {
		return
	}
	g.due = units.Never
	for range g.p.window {
		g.startOne(now, start)
	}
}

func (g *windowAgent) OnArrival(units.Time, Flow, func(Flow)) {}

func (g *windowAgent) OnCompletion(now units.Time, _ Flow, start func(Flow)) { g.startOne(now, start) }

// startOne starts the next flow, if there is another.
func (g *windowAgent) startOne(now units.Time, start func(Flow)) {
	if g.p.flows > 0 && g.n == g.p.flows || hasEnded(now, g.p.stop) {
		return
	}
	f := Flow{Tag: uint32(g.n), From: g.host, To: g.p.to(g.i, g.n), Size: g.p.sizes.DrawSize(g.rand), At: now, Group: 1}
	g.n++
	start(f)
}
