package fabric

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// edgeStatus returns the state of an interface's edge service; nil if it has none.
func (f *Fabric) edgeStatus(now units.Time, iface *hosts.Interface) *status.Edge {
	if !iface.HasEdge() {
		return nil
	}
	service, chosen := iface.EdgeService(), iface.EdgeChoice()
	e := &status.Edge{Service: chosen.Name, Preset: chosen.Preset}
	e.QueuePackets, e.QueueBytes = service.HeldPackets()
	e.Gauges = gauge.Read(edge.Services.Kind(chosen.Name).Gauges, service.AppendGauges(now, nil))
	e.Flows = f.edgeFlows(now, iface, status.MaxEdgeFlows)
	e.FlowsLeftOut = service.FlowCount(now) - len(e.Flows)
	return e
}

// edgeFlows returns the flows that an interface's edge service knows, oldest first, at most so many.
func (f *Fabric) edgeFlows(now units.Time, iface *hosts.Interface, maxFlows int) (all []status.EdgeFlow) {
	iface.EdgeService().EachFlow(now, func(x *edge.Flow) bool {
		if !x.Aged && len(all) < maxFlows {
			all = append(all, f.EdgeFlow(iface, x))
		}
		return len(all) < maxFlows
	})
	return all
}

// EdgeFlowsOf returns the flows that the edge services of a host know, or only
// those of an interface such as "h1:eth0". "" means all hosts.
func (f *Fabric) EdgeFlowsOf(name string) ([]status.EdgeFlow, error) {
	node, port := -1, -1
	if name != "" {
		var is bool
		if node, is = f.Plan.Node(name); !is {
			var err error
			if node, port, err = f.Plan.Endpoint(name); err != nil {
				return nil, err
			}
		}
	}
	all, found := []status.EdgeFlow{}, false
	for _, iface := range f.Interfaces {
		if !iface.HasEdge() || node >= 0 && iface.Node != node || port >= 0 && iface.Index != port {
			continue
		}
		found = true
		all = append(all, f.edgeFlows(f.nowAt(iface.Node), iface, math.MaxInt)...)
	}
	switch {
	case found || name == "":
		return all, nil
	case f.Plan.Nodes[node].Kind != plan.Host:
		return nil, fmt.Errorf("%s is a switch, and only hosts have edge services", f.Plan.Nodes[node].Name)
	}
	return nil, fmt.Errorf("%s has no edge service: write for example edge: {limit: {rate: 100Mbps}} for it in the lab file", name)
}

// EdgeFlow describes a flow of an interface's edge service.
func (f *Fabric) EdgeFlow(iface *hosts.Interface, x *edge.Flow) status.EdgeFlow {
	k := &x.Key
	e := status.EdgeFlow{
		Port: f.Plan.PortName(iface.Node, iface.Index), From: k.From, To: k.To, SrcPort: k.SrcPort, DstPort: k.DstPort, QP: k.QP,
		Class: f.Plan.Nodes[iface.Node].Ports[iface.Index].ClassName(x.Priority), Rate: x.Rate, QueuePackets: x.Packets, QueueBytes: x.Bytes,
		TxPackets: x.TxPackets, TxBytes: x.TxBytes, Dropped: x.Dropped,
	}
	if described := iface.EdgeService().FlowGauges(); len(described) > 0 {
		e.Gauges = gauge.Read(described, x.Gauges)
	}
	switch {
	case k.Flow >= 0:
		e.Flow = f.Plan.Flows[k.Flow].Name
		e.From, e.To = f.flowAddresses(k.Flow)
		e.Protocol = protocolName(wire.ProtoUDP)
	case k.To.IsValid():
		e.Protocol = protocolName(k.Proto)
	}
	if e.To.IsValid() {
		e.Peer = networkOf(iface).holderOf(e.To)
	}
	return e
}

func protocolName(p uint8) string {
	switch p {
	case wire.ProtoTCP:
		return "tcp"
	case wire.ProtoUDP:
		return "udp"
	case wire.ProtoICMP:
		return "icmp"
	case wire.ProtoICMPv6:
		return "icmp6"
	}
	return strconv.Itoa(int(p))
}
