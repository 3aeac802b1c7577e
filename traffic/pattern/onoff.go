package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// OnOff are sources that send bursts of flows and are silent in between. The flows of a
// burst go to one destination, each starting when the previous one is complete at the
// sender; the silence begins when the last one is complete. A burst is a group. A
// flow's tag counts the flows of its host.
type OnOff struct {
	Stream
	Hosts []int        // that send
	To    Destinations // of bursts; nil means AnyOther{}. Only the ratios within a row of Weights matter.
	Sizes sizes.Dist
	// Burst is how many flows a burst has. If it is 0, bursts last a time drawn with
	// mean On: no flow starts later, and the one under way runs to its end.
	Burst       int
	On          units.Time
	Off         units.Time // mean time of silence; one precedes the first burst
	Phases      Law        // of On and Off; zero means exponential
	Start, Stop units.Time // flows start from Start on, before Stop; a Stop of 0 means no end
}

type onOff struct {
	OnOff
	basic
	route route
}

func (o *onOff) Hosts() []int { return o.basic.hosts }

// Make checks o and returns its pattern.
func (o OnOff) Make() (Pattern, error) {
	if err := checkHosts("on-off sources", o.Hosts, 1); err != nil {
		return nil, err
	}
	switch {
	case o.Sizes == nil:
		return nil, errors.New("on-off sources without sizes")
	case o.Burst < 0 || o.On < 0 || o.Off < 0:
		return nil, errors.New("on-off sources: burst, on and off must not be negative")
	case (o.Burst > 0) == (o.On > 0):
		return nil, errors.New("on-off sources: a burst is either a number of flows or a time on, so one of them must be above 0")
	}
	if err := checkTimes(o.Start, o.Stop); err != nil {
		return nil, err
	}
	if o.To == nil {
		o.To = AnyOther{}
	}
	o.Phases = o.Phases.orElse(PoissonLaw())
	r, err := o.To.makeRoute(o.Stream, o.Hosts)
	if err != nil {
		return nil, err
	}
	if r.share != nil {
		for i, h := range o.Hosts {
			if r.share(i) == 0 {
				return nil, fmt.Errorf("host %d has no weight to any host: leave it out of the sources", h)
			}
		}
	}
	return &onOff{o, basic{unionHosts(o.Hosts, r.receivers)}, r}, nil
}

func (o *onOff) Agent(host int) Agent {
	i := slices.Index(o.OnOff.Hosts, host)
	if i < 0 {
		return nil
	}
	g := &onOffAgent{p: o, host: host, rand: o.Stream.hostStream(host), to: o.route.to(i)}
	g.waitUntil(o.Phases.drawFirst(o.Start, float64(o.Off), g.rand))
	return g
}

type onOffAgent struct {
	p     *onOff
	host  int
	rand  *rand.Rand
	to    func(*rand.Rand) int
	due   units.Time // the next burst
	n     uint32
	burst uint32
	dest  int
	left  int        // flows of this burst that have not started, if bursts have a count
	until units.Time // end of this burst, otherwise
}

func (g *onOffAgent) NextFlow() units.Time { return g.due }

// waitUntil waits until t.
func (g *onOffAgent) waitUntil(t units.Time) {
	g.due = t
	if hasEnded(t, g.p.Stop) {
		g.due = units.Never
	}
}

func (g *onOffAgent) Fire(now units.Time, start func(Flow)) {
	if now < g.due {
		return
	}
	g.due = units.Never
	g.burst++
	g.dest = g.to(g.rand)
	if g.left = g.p.Burst; g.left == 0 {
		// At least long enough to start one flow.
		g.until = max(g.p.Phases.drawAfter(now, float64(g.p.On), g.rand), now+1)
	}
	g.startOne(now, start)
}

func (g *onOffAgent) startOne(now units.Time, start func(Flow)) {
	f := Flow{
		Tag: g.n, From: g.host, To: g.dest, Size: g.p.Sizes.DrawSize(g.rand), At: now,
		Group: uint64(g.host)<<32 | uint64(g.burst),
	}
	g.n++
	g.left--
	start(f)
}

func (g *onOffAgent) OnArrival(units.Time, Flow, func(Flow)) {}

func (g *onOffAgent) OnCompletion(now units.Time, _ Flow, start func(Flow)) {
	more := g.left > 0
	if g.p.Burst == 0 {
		more = now < g.until
	}
	if more && !hasEnded(now, g.p.Stop) {
		g.startOne(now, start)
		return
	}
	g.waitUntil(g.p.Phases.drawAfter(now, float64(g.p.Off), g.rand))
}
