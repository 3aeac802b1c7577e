package carrier

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
)

// StreamFlow is the state of a TCP or NDP flow from a host, which has begun and is not over.
type StreamFlow struct {
	ID       uint64 // of its record
	From, To netip.AddrPort
	NDP      bool        // over NDP, where the packets of a flow have many source ports: the port of From is 0
	Number   uint32      // of the connection, for NDP
	Rate     units.Rate  // at which it may send, on the wire; 0 means no limit
	Window   units.Bytes // of its rate control; 0 means no limit
	InFlight units.Bytes // payload assumed to be in flight
	RTT      units.Time  // smoothed; 0 before the first
	Acked    units.Bytes // payload acknowledged in order
	Resent   uint64      // packets
	Gauges   []float64   // of its rate control
}

// Name returns the name of the flow, such as "tcp 10.0.0.1:40000 >
// 10.0.0.2:5201", or for NDP "ndp 10.0.0.1 > 10.0.0.2:54794 #3". It has no
// comma.
func (x *StreamFlow) Name() string {
	if x.NDP {
		return fmt.Sprintf("ndp %v > %v #%d", x.From.Addr(), x.To, x.Number)
	}
	return "tcp " + x.From.String() + " > " + x.To.String()
}

// EachFlow calls f with the TCP flows from the host that are under way, in the order in
// which they began. x is valid only during the call.
func (d *Streams) EachFlow(now units.Time, f func(x *StreamFlow)) {
	d.eachInOrder(func(s *tcpFlow) { f(d.flowState(now, s)) })
}

// flowState returns the state of a flow.
func (d *Streams) flowState(now units.Time, s *tcpFlow) *StreamFlow {
	c := s.sender.Control()
	d.seen = StreamFlow{
		ID: s.ID, From: netip.AddrPortFrom(s.from, s.SrcPort), To: netip.AddrPortFrom(s.to, d.listenPort()),
		Rate: c.Rate(), Window: c.Window(), InFlight: s.sender.InFlight(), RTT: s.sender.SRTT(),
		Acked: s.sender.AckedBytes(), Resent: s.sender.Counters().Resent, Gauges: c.AppendGauges(now, d.seen.Gauges[:0]),
	}
	return &d.seen
}

// Counters returns the counters of the host's senders, including finished flows.
func (d *Streams) Counters() tcp.Counters {
	sum := d.counted
	for _, s := range d.sending {
		sum.AddCounters(s.sender.Counters())
	}
	return sum
}
