package fabric

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// cachedPath is pathBetween, computed once for all hosts of two switches.
func (f *Fabric) cachedPath(from, to *hosts.Interface) linkPath {
	a, b := f.switchOf(from), f.switchOf(to)
	if a < 0 || b < 0 {
		return f.pathBetween(from, to)
	}
	w, known := f.traffic.linkPaths[[2]int{a, b}]
	if !known {
		w = f.pathBetween(from, to)
		f.traffic.linkPaths[[2]int{a, b}] = w
	}
	if w == nil {
		return nil
	}
	x, y := &f.Plan.Nodes[from.Node].Ports[from.Index], &f.Plan.Nodes[to.Node].Ports[to.Index]
	out, in := f.Plan.Links[x.Link].Dir[x.End], f.Plan.Links[y.Link].Dir[1-y.End]
	if !out.Up || !in.Up {
		return nil
	}
	w[0], w[len(w)-1] = hop{out.Rate, out.Delay}, hop{in.Rate, in.Delay}
	return w
}

// switchOf returns the switch that an interface is connected to; -1 if there is none.
func (f *Fabric) switchOf(iface *hosts.Interface) int {
	p := &f.Plan.Nodes[iface.Node].Ports[iface.Index]
	if far := f.Plan.Links[p.Link].Ends[1-p.End]; f.Switches[far.Node] != nil {
		return far.Node
	}
	return -1
}

// idealFlow returns the time that a flow takes alone on its path.
func (f *Fabric) idealFlow(t *plan.Traffic, w linkPath, from *hosts.Interface, size units.Bytes) units.Time {
	if c := t.RDMA; c != nil {
		mtu := c.MTU
		if mtu == 0 {
			mtu = f.Device(from.Node, from.Index).Settings().MTU
		}
		return idealOn(w, &workload.Transfer{Verb: c.Verb, Service: roce.RC, MTU: units.Bytes(mtu.Bytes()), IPv6: c.IPv6}, size)
	}
	if t.TCP != nil {
		return idealStream(w, t.TCP, size)
	}
	if t.NDP != nil {
		return idealPulled(w, t.NDP, size)
	}
	c := t.UDP
	header := units.Bytes(wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader)
	if c.IPv6 {
		header += wire.IPv6Header - wire.IPv4Header
	}
	// The last packet holds the rest, and may be short: if it waits behind the one
	// before, that one sets the pace.
	packets := max(1, (size+c.Size-1)/c.Size)
	full, last := packet.OnWire(header+c.Size), packet.OnWire(header+size-(packets-1)*c.Size)
	rate := c.Rate
	if rate == 0 {
		rate = w[0].rate
	}
	if packets == 1 {
		return w.carries(last, 0)
	}
	return max(w.carries(full, (packets-2)*full+last), rate.TimeOf((packets-1)*full)+w.carries(last, 0))
}

// idealStream returns the time that a flow over TCP takes alone on its path: the
// handshake, its packets as fast as the slowest link carries them, and the
// acknowledgement of the last.
func idealStream(w linkPath, c *carrier.TCP, size units.Bytes) units.Time {
	head := wire.EthernetHeader + c.MTU - c.FullPayload()
	syn := packet.OnWire(head + 8) // its options are longer than those of data
	full := max(1, (size+c.FullPayload()-1)/c.FullPayload())
	first, last := packet.OnWire(head+min(size, c.FullPayload())), units.Bytes(0)
	if full > 1 {
		last = (full-2)*packet.OnWire(head+c.FullPayload()) + packet.OnWire(head+size-(full-1)*c.FullPayload())
	}
	return 2*w.carries(syn, 0) + w.carries(first, last) + w.carries(packet.OnWire(head), 0)
}

// idealPulled returns the time that a flow over NDP takes alone on its path: its packets as
// fast as the slowest link carries them, and the acknowledgement of the last.
func idealPulled(w linkPath, c *carrier.NDP, size units.Bytes) units.Time {
	head := wire.EthernetHeader + c.HeadersLen()
	packets := max(1, (size+c.FullPayload()-1)/c.FullPayload())
	first, rest := packet.OnWire(head+min(size, c.FullPayload())), units.Bytes(0)
	if packets > 1 {
		rest = (packets-2)*packet.OnWire(head+c.FullPayload()) + packet.OnWire(head+size-(packets-1)*c.FullPayload())
	}
	return w.carries(first, rest) + w.carries(packet.OnWire(head), 0)
}
