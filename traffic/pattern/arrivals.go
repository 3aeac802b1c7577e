package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// Arrivals are flows that start at random times, regardless of earlier ones: the open loop
// with which papers offer a load. Each sending host has its own process. A flow's tag
// counts the flows of its host.
type Arrivals struct {
	Stream
	Hosts []int        // that send
	To    Destinations // nil is AnyOther{}
	Sizes sizes.Dist
	// Rate is the average rate that each host offers, above 0: bits of the flows' data per
	// second, without headers. A load is a share of some capacity, which the caller knows.
	// With Weights it is the mean of all hosts.
	Rate        units.Rate
	Gaps        Law        // between the flows of a host; zero is Poisson
	Start, Stop units.Time // flows are created from Start on, before Stop; a Stop of 0 is none
	// Flows is the total number of flows, 0 for no limit. Each host has its part, in
	// proportion to its rate, so hosts do not end at the same time.
	Flows int
}

type arrivals struct {
	Arrivals
	basic
	route route
}

// Make checks a and makes its pattern.
func (a Arrivals) Make() (Pattern, error) {
	if err := checkHosts("arrivals", a.Hosts, 1); err != nil {
		return nil, err
	}
	switch {
	case a.Sizes == nil:
		return nil, errors.New("arrivals without sizes")
	case a.Rate <= 0:
		return nil, fmt.Errorf("arrivals at %d bit/s: the rate must be above 0", int64(a.Rate))
	case a.Flows < 0:
		return nil, fmt.Errorf("%d flows: it must not be negative", a.Flows)
	}
	if err := checkTimes(a.Start, a.Stop); err != nil {
		return nil, err
	}
	if a.To == nil {
		a.To = AnyOther{}
	}
	a.Gaps = a.Gaps.orElse(PoissonLaw())
	r, err := a.To.makeRoute(a.Stream, a.Hosts)
	if err != nil {
		return nil, err
	}
	return &arrivals{a, basic{unionHosts(a.Hosts, r.receivers)}, r}, nil
}

func (a *arrivals) Hosts() []int { return a.basic.hosts }

func (a *arrivals) isOpenLoop() bool { return true }

// cumulativeShare returns a host's part of all flows: the shares of the hosts up to it minus the
// shares of the hosts before it, so that parts add up.
func (a *arrivals) cumulativeShare(i int) int {
	n := len(a.Arrivals.Hosts)
	if a.route.share == nil {
		return a.Flows*(i+1)/n - a.Flows*i/n
	}
	before := 0.0
	for j := range i {
		before += a.route.share(j)
	}
	upTo := func(shares float64) int { return int(float64(a.Flows)*shares/float64(n) + 0.5) }
	return upTo(before+a.route.share(i)) - upTo(before)
}

func (a *arrivals) Agent(host int) Agent {
	i := slices.Index(a.Arrivals.Hosts, host)
	if i < 0 {
		return nil
	}
	g := &arrivalsAgent{p: a, host: host, left: -1, rand: a.Stream.hostStream(host), to: a.route.to(i)}
	rate := float64(a.Rate)
	if a.route.share != nil {
		rate *= a.route.share(i)
	}
	if a.Flows > 0 {
		g.left = a.cumulativeShare(i)
	}
	if rate == 0 || g.left == 0 {
		return nil
	}
	g.gap = a.Sizes.MeanSize() * 8 / rate * float64(units.Second)
	g.scheduleNext(a.Gaps.drawFirst(a.Start, g.gap, g.rand))
	return g
}

type arrivalsAgent struct {
	openLoop
	p    *arrivals
	host int
	rand *rand.Rand
	to   func(*rand.Rand) int
	gap  float64 // picoseconds, the mean
	due  units.Time
	n    uint32
	left int // negative for no limit
}

func (g *arrivalsAgent) NextFlow() units.Time { return g.due }

// scheduleNext sets when the next flow is created.
func (g *arrivalsAgent) scheduleNext(t units.Time) {
	g.due = t
	if g.left == 0 || hasEnded(t, g.p.Stop) {
		g.due = units.Never
	}
}

func (g *arrivalsAgent) Fire(now units.Time, start func(Flow)) {
	for g.due <= now {
		f := Flow{Tag: g.n, From: g.host, To: g.to(g.rand), Size: g.p.Sizes.DrawSize(g.rand), At: g.due}
		g.n++
		g.left--
		g.scheduleNext(g.p.Gaps.drawAfter(g.due, g.gap, g.rand))
		start(f)
	}
}
