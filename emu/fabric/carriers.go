package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// addNICs makes the carriers of hosts with flows over RDMA.
func (b *trafficBuilder) addNICs(settings map[int]carrier.RDMA) (err error) {
	used := map[*hosts.Interface][2][]netip.Addr{} // by IP version
	for i := range settings {
		v6 := b.Plan.Traffic[i].IPv6()
		for _, all := range b.egresses[i] {
			for _, w := range all {
				list := used[w.iface]
				if !slices.Contains(list[btoi(v6)], w.address) {
					list[btoi(v6)] = append(list[btoi(v6)], w.address)
				}
				used[w.iface] = list
			}
		}
	}
	var members []carrier.Member
	numbers := map[*hosts.Interface][]int32{} // of members
	var interfaces []*hosts.Interface
	for _, iface := range b.Interfaces {
		list, ok := used[iface]
		if !ok {
			continue
		}
		interfaces = append(interfaces, iface)
		for v := range list {
			slices.SortFunc(list[v], func(x, y netip.Addr) int { return slices.Index(iface.Addresses, x) - slices.Index(iface.Addresses, y) })
		}
		for k := range max(len(list[0]), len(list[1])) {
			m := carrier.Member{Node: iface.Node}
			if k < len(list[0]) {
				m.V4 = list[0][k]
			}
			if k < len(list[1]) {
				m.V6 = list[1][k]
			}
			numbers[iface] = append(numbers[iface], int32(len(members)))
			members = append(members, m)
		}
	}
	if b.table, err = carrier.NewTable(members, len(b.Plan.Traffic), settings); err != nil {
		return err
	}
	f := b.Fabric
	b.table.Ends = func(from, to int, v6 bool) (source, destination netip.Addr, ok bool) {
		p, err := f.topology.TryPath(plan.Pair{From: from, To: to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: v6})
		return p.Source, p.Destination, err == nil
	}
	for _, iface := range interfaces {
		if err := b.addCarrier(iface, numbers[iface]); err != nil {
			return err
		}
	}
	return nil
}

// addCarrier makes the carrier of flows over RDMA through an interface, whose addresses are
// members of the table.
func (b *trafficBuilder) addCarrier(iface *hosts.Interface, members []int32) error {
	d := iface.EmulatedNIC()
	if d == nil {
		return fmt.Errorf("%s has no NIC: write nic: roce for %s in the lab file", b.Plan.PortName(iface.Node, iface.Index), b.Plan.Nodes[iface.Node].Name)
	}
	if d.Line() == 0 {
		return fmt.Errorf("%s has RDMA flows over a link without a rate: give the link one", d.Name())
	}
	c, err := carrier.NewNIC(b.hosts[iface.Node], b.table, d, members...)
	if err != nil {
		return err
	}
	b.nics[iface] = c
	b.traffic.nics = append(b.traffic.nics, c)
	return nil
}

// join returns the carrier of a host's flows of a traffic, which those of its interfaces
// make up.
func (b *trafficBuilder) joinCarriers(t *plan.Traffic, node int, interfaces []*hosts.Interface, carriers []carrier.Carrier) carrier.Carrier {
	if len(carriers) == 1 {
		return carriers[0]
	}
	f := b.Fabric
	return carrier.NewSplit(func(r *records.Record) int {
		p, err := f.pathOf(t, int(r.From), int(r.To))
		if err != nil {
			return 0
		}
		return max(slices.Index(interfaces, f.interfaceAt(p.From)), 0)
	}, carriers...)
}

// carrierAt makes the carrier of a traffic's flows through an interface.
func (b *trafficBuilder) carrierAt(i int, iface *hosts.Interface, part map[int]bool) (carrier.Carrier, error) {
	t, h := &b.Plan.Traffic[i], b.hosts[iface.Node]
	switch {
	case t.RDMA != nil:
		return b.nics[iface], nil
	case t.UDP != nil:
		return b.newDatagrams(i, h, iface, part), nil
	case iface.Port.Link().Rate() == 0:
		return nil, fmt.Errorf("%s flows over a link without a rate: give the link one", []string{"TCP", "NDP"}[btoi(t.NDP != nil)])
	}
	return b.newStreams(i, h, iface, part)
}

// newOutlet returns the outlet through which the packets of a traffic leave an interface.
func (b *trafficBuilder) newOutlet(iface *hosts.Interface, v6 bool, part map[int]bool) carrier.Outlet {
	f := b.Fabric
	return carrier.Outlet{
		Pool: iface.Pool, MAC: iface.MAC, Line: iface.LineRate(), Send: iface.OriginatePacket,
		Ends: func(peer int) (from, to netip.Addr, failure string) {
			if !part[peer] {
				return from, to, "the destination host is not part of the traffic"
			}
			p, err := f.topology.TryPath(plan.Pair{From: iface.Node, To: peer, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: v6})
			if err != nil {
				return from, to, err.Error()
			}
			return p.Source, p.Destination, ""
		},
		PathTo: iface.Network.PathTo,
	}
}

// registerReceiver registers receive for the packets of a protocol at an interface, ahead of other
// traffics and the NIC. receive reports whether a packet belongs to its traffic.
func registerReceiver(iface *hosts.Interface, m *packet.MessageProtocol, receive func(now units.Time, p *packet.Packet) bool) {
	before := iface.ReceiverOf(m)
	iface.SetReceiver(m, func(now units.Time, p *packet.Packet) {
		if !receive(now, p) && before != nil {
			before(now, p) // of another traffic
			return
		}
		iface.Pool.Free(p)
	})
}

// newDatagrams makes the carrier of a traffic's flows over UDP at an interface.
func (b *trafficBuilder) newDatagrams(i int, h *carrier.Host, iface *hosts.Interface, part map[int]bool) carrier.Carrier {
	c := *b.Plan.Traffic[i].UDP
	d := carrier.NewDatagrams(h, i, c, b.newOutlet(iface, c.IPv6, part))
	registerReceiver(iface, carrier.DatagramProtocol(), d.ReceivePacket)
	return d
}

// newStreams makes the carrier of a traffic's flows over TCP or NDP at an interface.
func (b *trafficBuilder) newStreams(i int, h *carrier.Host, iface *hosts.Interface, part map[int]bool) (carrier.Carrier, error) {
	t := &b.Plan.Traffic[i]
	kind := []string{"tcp ", "ndp "}[btoi(t.NDP != nil)]
	out := carrier.StreamOutlet{
		Outlet: b.newOutlet(iface, t.IPv6(), part),
		Rate:   iface.LineRate,
		Queued: func(now units.Time) units.Bytes {
			_, bytes := iface.Port.QueueLength(now) // an edge service keeps flows apart
			return bytes
		},
		Waiting: func(now units.Time, dscp uint8) int {
			return iface.Port.WaitingPackets(now, iface.PriorityOf(dscp))
		},
		Trip:    iface.Network.TripTo,
		Offload: b.Plan.Nodes[iface.Node].Offload == plan.OffloadOn,
		Rand:    sim.NewRand(b.Plan.Seed, kind+t.Name+" "+b.Plan.PortName(iface.Node, iface.Index)),
	}
	if t.NDP != nil {
		pulls := b.pulls[iface]
		if pulls == nil {
			pulls = carrier.NewPulls(t.NDP, out.Rate)
			b.pulls[iface] = pulls
		}
		d := carrier.NewPulledStreams(h, i, *t.NDP, out, pulls)
		b.traffic.streams = append(b.traffic.streams, StreamHost{StreamCarrier: d, Interface: iface, Traffic: t, index: i})
		registerReceiver(iface, carrier.NDPProtocol(), d.ReceivePacket)
		return d, pulls.CheckShared(t.NDP)
	}
	d := carrier.NewStreams(h, i, *t.TCP, out)
	b.traffic.streams = append(b.traffic.streams, StreamHost{StreamCarrier: d, Interface: iface, Traffic: t, index: i})
	registerReceiver(iface, carrier.SegmentProtocol(), d.ReceivePacket)
	if m := cc.Methods.Kind(t.TCP.Control.Name).Feedback; m != nil {
		registerReceiver(iface, m, d.ReceiveMessage)
	}
	return d, nil
}
