package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// ackFrame is the size of an acknowledgement's frame with IPv6 headers; dataOver is what
// RoCE over IPv6 adds to the payload of a data packet.
const (
	ackFrame  units.Bytes = 14 + 40 + 8 + 20 + 4
	dataOver  units.Bytes = 14 + 40 + 8 + 32 + 4
	maxWindow             = 1 << 14
)

// bandwidthDelay sets the window of loss recoveries that limit packets in flight to the
// network's bandwidth-delay product (BDP-FC of IRN). The window is the number of packets
// that a NIC sends while one packet travels the longest path between two hosts and its
// acknowledgement returns, with no other traffic on the path.
func bandwidthDelay(p *plan.Plan) {
	mtu, wanted := units.Bytes(0), map[int]transport.WindowFromPath{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.NIC == nil {
			continue
		}
		mtu = max(mtu, units.Bytes(n.NIC.MTU.Bytes()))
		if s, ok := n.NIC.Recovery.Settings.(transport.WindowFromPath); ok && s.NeedsPath() {
			wanted[i] = s
		}
	}
	if len(wanted) == 0 {
		return
	}
	trip := longestTrip(p, packet.OnWire(mtu+dataOver), packet.OnWire(ackFrame))
	for i, s := range wanted {
		n := &p.Nodes[i]
		packets, line := 0, rateOf(p, &n.Ports[0])
		if line > 0 { // without a rate there is no product, and so no limit
			each := line.TimeOf(packet.OnWire(units.Bytes(n.NIC.MTU.Bytes()) + dataOver))
			packets = int(min((trip+each-1)/each+1, maxWindow))
		}
		s.SetWindow(packets)
	}
}

// longestTrip returns how long a frame and its answer take on the longest of the shortest
// paths between hosts with NICs.
func longestTrip(p *plan.Plan, frame, answer units.Bytes) (longest units.Time) {
	nodes := p.Nodes
	from := map[int]bool{} // nodes next to hosts: paths differ only from there on
	for i := range nodes {
		if nodes[i].NIC == nil {
			continue
		}
		for j := range nodes[i].Ports {
			if far, _, ok := exchangeTime(p, &nodes[i].Ports[j], frame, answer); ok {
				from[far] = true
			}
		}
	}
	hops, took := make([]int, len(nodes)), make([]units.Time, len(nodes))
	for start := range from {
		for i := range hops {
			hops[i] = -1
		}
		hops[start], took[start] = 0, 0
		first, last := units.Time(-1), units.Time(-1) // the two longest links from start to hosts
		for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if nodes[at].Kind == plan.Host && at != start {
				continue
			}
			for j := range nodes[at].Ports {
				to, time, ok := exchangeTime(p, &nodes[at].Ports[j], frame, answer)
				switch {
				case !ok:
				case hops[to] < 0:
					hops[to], took[to] = hops[at]+1, took[at]+time
					queue = append(queue, to)
				case hops[to] == hops[at]+1:
					took[to] = max(took[to], took[at]+time)
				}
			}
		}
		for i := range nodes {
			switch {
			case nodes[i].NIC == nil || hops[i] < 0:
			case hops[i] == 1 && took[i] > first:
				first, last = took[i], first
			case hops[i] == 1:
				last = max(last, took[i])
			}
		}
		for i := range nodes {
			if nodes[i].NIC == nil || hops[i] < 0 {
				continue
			}
			near := first
			if hops[i] == 1 {
				near = last
			}
			longest = max(longest, took[i]+max(near, 0))
		}
	}
	return longest
}

// exchangeTime returns the node at the far end of a port's link and how long a frame and its
// answer take on the link.
func exchangeTime(p *plan.Plan, port *plan.Port, frame, answer units.Bytes) (to int, time units.Time, ok bool) {
	if port.Link < 0 {
		return 0, 0, false
	}
	l := &p.Links[port.Link]
	for i, size := range [2]units.Bytes{frame, answer} {
		s := &l.Dir[port.End^i]
		time += s.Delay
		if s.Rate > 0 {
			time += s.Rate.TimeOf(size)
		}
	}
	return l.Ends[1-port.End].Node, time, true
}
