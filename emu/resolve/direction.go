package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// directions checks every direction of every link against what is at its ends, when the run
// begins and after each event.
type directions struct {
	*base
	qos *qos
	mtu *change.MTU // that of links which do not say; nil for the default
}

const ipv6Needs = "mtu %d is less than the %d that IPv6 needs, and %s"

// checkUnlimited reports an event that removes the rate limit of a host's link if
// the host's rate controls need to know the rate.
func (v *directions) checkUnlimited(from plan.End, place any) {
	n := &v.plan.Nodes[from.Node]
	var all []*cc.Choice
	if n.NIC != nil {
		all = append(all, &n.NIC.Control)
	}
	if n.Edge.Settings != nil {
		all = append(all, controlsIn(n.Edge.Settings)...)
	}
	for _, c := range all {
		if c.Settings != nil {
			v.ReportFault(place, "", "%s needs the rate of the link, and the rate of %s becomes unlimited", c, v.plan.PortName(from.Node, from.Port))
		}
	}
}

// tunnelMTUs checks that the links of all interfaces that a tunnel can join have the same MTU:
// both ends of a tunnel count packets of that size, and no node reports an outer packet that
// is too long.
func (v *directions) tunnelMTUs() {
	first := map[string]plan.End{}
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if !n.Encapsulates() {
			continue
		}
		for j := range n.Ports {
			p := &n.Ports[j]
			if p.Link < 0 {
				continue
			}
			at, known := first[n.Edge.Name]
			if !known {
				at = plan.End{Node: i, Port: j}
				first[n.Edge.Name] = at
			}
			whose := &v.plan.Nodes[at.Node].Ports[at.Port]
			want, name := v.settingsOf(whose, 0).MTU, v.plan.PortName(i, j)
			for d := range 2 {
				if mtu := v.settingsOf(p, d).MTU; mtu != want {
					v.FailOnce(v.linkPlaces[p.Link], "give the links of all hosts with "+n.Edge.Name+" the same mtu, in both directions",
						"%s: the link of %s has an mtu of %d, the link of %s %d: tunnels need the same everywhere", n.Edge.Name, name, mtu, v.plan.PortName(at.Node, at.Port), want)
					break
				}
			}
		}
	}
}

// checkTunnelMTU refuses an event that changes the MTU of a link with tunnels at an end.
func (v *directions) checkTunnelMTU(link int, was, is units.Bytes, place any) {
	if was == is {
		return
	}
	for _, end := range v.plan.Links[link].Ends {
		if n := &v.plan.Nodes[end.Node]; n.Encapsulates() {
			v.ReportFault(place, "leave mtu out of the event, or give "+n.Name+" edge: none", plan.FixedMTU, n.Edge.Name, v.plan.PortName(end.Node, end.Port))
			return
		}
	}
}

// checkStart reports what is wrong when the run begins.
func (v *directions) checkStart() {
	v.tunnelMTUs()
	for i, l := range v.plan.Links {
		for d := range l.Dir {
			v.checkDirection(i, d, l.Dir[d], v.linkPlaces[i])
		}
	}
}

// checkDirection checks the settings of one direction of a link. Place is where
// they are set.
func (v *directions) checkDirection(link, direction int, s links.Settings, place any) {
	ends := v.plan.Links[link].Ends
	from := ends[direction]
	port := &v.plan.Nodes[from.Node].Ports[from.Port]
	frame := s.MTU + wire.EthernetHeader
	if v.qos.qosFiles[from.Node] != nil {
		v.qos.checkClassLimits(from, frame, place)
	} else if port.Queue.Limit < frame {
		at := place
		if limit := v.qos.queues[from].Limit; limit != nil {
			at = limit
		}
		v.ReportFault(at, "", "the queue of %s holds %v, less than one packet of the MTU (%dB with its Ethernet header)",
			v.plan.PortName(from.Node, from.Port), port.Queue.Limit, frame)
	}
	if mtu := v.mtu; mtu != nil && units.Bytes(*mtu) == s.MTU {
		place = mtu // the links share it
	}
	for _, end := range ends {
		if r := v.plan.Nodes[end.Node].Router; r != nil && s.MTU < change.MinMTU6 && speaksOwn(r, true) {
			v.ReportFault(place, "raise the mtu, or switch IPv6 off with addressing: {ipv6: none}",
				ipv6Needs, s.MTU, change.MinMTU6, v.plan.Nodes[end.Node].Name+" forwards IPv6")
			return
		}
		if s.MTU < change.MinMTU6 && plan.HasFamily(v.plan.Nodes[end.Node].Ports[end.Port].Addresses, true) {
			v.ReportFault(place, "raise the mtu, or switch IPv6 off with addressing: {ipv6: none}",
				ipv6Needs, s.MTU, change.MinMTU6, v.plan.PortName(end.Node, end.Port)+" has an IPv6 address")
			return
		}
		n := &v.plan.Nodes[end.Node]
		if over := n.EdgeOverhead(true); s.MTU-over < change.MinMTU6 && plan.HasFamily(n.Ports[end.Port].Addresses, true) {
			v.ReportFault(place, fmt.Sprintf("give the link an mtu of %d or more, or switch IPv6 off with addressing: {ipv6: none}", change.MinMTU6+over),
				"mtu %d leaves %d inside the tunnels of %s, less than the %d that IPv6 needs, and %s has an IPv6 address",
				s.MTU, s.MTU-over, n.Edge.Name, change.MinMTU6, v.plan.PortName(end.Node, end.Port))
			return
		}
	}
}
