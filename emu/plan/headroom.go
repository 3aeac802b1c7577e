package plan

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Extreme has the extreme settings of one direction of a link over all events of a plan.
type Extreme struct {
	Slowest, Fastest units.Rate // Slowest is 0 if the rate is ever unlimited
	Delay            units.Time // the longest
	MTU              units.Bytes
	Clock            nodeclock.Settings // of the node that sends
}

// ExtremeOf returns the extremes of settings that do not change, of a direction that leaves a node
// with a clock.
func ExtremeOf(s links.Settings, c nodeclock.Settings) Extreme {
	return Extreme{s.Rate, s.Rate, s.Delay, s.MTU, c}
}

// jitter returns the bound of the jitter at the slowest rate.
func (e *Extreme) jitter() units.Time { return e.Clock.Jitter.On(e.Slowest, OnWire(e.MTU)) }

// Widen widens e so that it covers o.
func (e *Extreme) Widen(o Extreme) {
	e.Slowest, e.Fastest = min(e.Slowest, o.Slowest), max(e.Fastest, o.Fastest)
	e.Delay, e.MTU = max(e.Delay, o.Delay), max(e.MTU, o.MTU)
}

// Extremes returns the extreme settings of every link, by direction.
func (p *Plan) Extremes() [][2]Extreme {
	all := make([][2]Extreme, len(p.Links))
	for i, l := range p.Links {
		for d, s := range l.Dir {
			all[i][d] = ExtremeOf(s, p.Nodes[l.Ends[d].Node].Clock)
		}
	}
	for _, e := range p.Events {
		for d := range e.Dir {
			if !e.Dir[d] {
				continue
			}
			at := &all[e.Link][d]
			if e.Set.Rate != nil {
				at.Slowest, at.Fastest = min(at.Slowest, *e.Set.Rate), max(at.Fastest, *e.Set.Rate)
			}
			if e.Set.Delay != nil {
				at.Delay = max(at.Delay, *e.Set.Delay)
			}
			if e.Set.MTU != nil {
				at.MTU = max(at.MTU, units.Bytes(*e.Set.MTU))
			}
		}
	}
	return all
}

// Headroom is how much can still come in through a port after it has to ask for a pause, in
// bytes on the wire (IEEE 802.1Q-2022 annex N), and what that consists of. Until the peer
// receives the request, the port finishes a packet and sends the request; the request must
// cross the link, and so must what the peer has sent meanwhile. The peer finishes a packet
// too. And the whole packet whose last bit caused the pause may count against the headroom.
type Headroom struct {
	Rate    units.Rate  // at which packets come in
	Delays  units.Time  // of the link and the jitters of both clocks, there and back
	Request units.Time  // time of one packet and the request on the way out
	Flight  units.Bytes // what comes in during Delays and Request
	Packets units.Bytes // the two packets
}

// MaxHeadroom bounds the headroom of a port, so that sums of headrooms fit into 64 bits.
const MaxHeadroom = 1000 * units.GB

// HeadroomFor returns the headroom that a port needs for the direction of its link that comes
// in and the one that goes out. Both have a rate.
func HeadroomFor(in, out Extreme) Headroom {
	const request = wire.EthernetMin + wire.EthernetOverhead
	h := Headroom{
		Rate: in.Clock.TrueRate(in.Fastest), Delays: out.Delay + out.jitter() + in.Delay + in.jitter(),
		Request: out.Clock.TrueRate(out.Slowest).TimeOf(OnWire(out.MTU) + request),
	}
	h.Flight = InFlight(h.Rate, h.Delays+h.Request, 1)
	h.Packets = 2 * OnWire(in.MTU)
	return h
}

// Bytes returns the sum.
func (h Headroom) Bytes() units.Bytes { return h.Flight + h.Packets }

// String shows how the sum follows: "25Gbps · (2us + 519ns) + 2 · 1.538KB".
func (h Headroom) String() string {
	return fmt.Sprintf("%v · (%v + %v) + 2 · %v", h.Rate, h.Delays, h.Request, h.Packets/2)
}

// OnWire returns the bytes that a packet of an MTU takes on the wire.
func OnWire(mtu units.Bytes) units.Bytes { return mtu + wire.EthernetHeader + wire.EthernetOverhead }

// InFlight returns how much a rate carries in the given multiple of a time, at most
// MaxHeadroom.
func InFlight(r units.Rate, t units.Time, times float64) units.Bytes {
	return units.Bytes(math.Min(math.Round(float64(r)/8*t.Seconds()*times), float64(MaxHeadroom)))
}
