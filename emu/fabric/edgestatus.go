package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// EdgeStatus is the edge service of a host's interface at one moment.
type EdgeStatus struct {
	Service      string        `json:"service"` // as in the lab file
	Preset       string        `json:"preset,omitempty"`
	QueuePackets int           `json:"queue_packets"` // that it holds
	QueueBytes   units.Bytes   `json:"queue"`
	Gauges       []gauge.Value `json:"gauges,omitempty"`
}

// Add adds what another service counts. Gauges that are no counts are left out.
func (s *EdgeStatus) Add(e *EdgeStatus) {
	s.QueuePackets += e.QueuePackets
	s.QueueBytes += e.QueueBytes
	for _, g := range e.Gauges {
		if g.Unit != gauge.Number && g.Unit != gauge.Bytes {
			continue
		}
		if i := slices.IndexFunc(s.Gauges, func(o gauge.Value) bool { return o.Name == g.Name }); i >= 0 {
			s.Gauges[i].Value += g.Value
		} else {
			s.Gauges = append(s.Gauges, g)
		}
	}
}

func (h *edgeHost) status(now units.Time) *EdgeStatus {
	s := &EdgeStatus{Service: h.chosen.Name, Preset: h.chosen.Preset}
	s.QueuePackets, s.QueueBytes = h.service.Held()
	s.Gauges = gauge.Read(h.chosen.Gauges(), h.service.Gauges(now, nil))
	return s
}

// EdgeFlow is a flow that an edge service tells apart, at one moment, with its counts since
// it is known.
type EdgeFlow struct {
	Port     string     `json:"port"`             // "h1:eth0"
	Flow     string     `json:"flow,omitempty"`   // name of a modelled flow
	From     netip.Addr `json:"from,omitzero"`    // of others
	To       netip.Addr `json:"to,omitzero"`      // likewise; neither is there of flows that share a queue
	Peer     string     `json:"peer,omitempty"`   // the interface that has To, such as "h2:eth0"
	Protocol string     `json:"proto,omitempty"`  // tcp, udp, icmp, icmp6 or its number
	SrcPort  uint16     `json:"source,omitempty"` // port of TCP and UDP
	DstPort  uint16     `json:"destination,omitempty"`
	QP       uint32     `json:"qp,omitempty"`    // destination queue pair of RoCEv2
	Class    string     `json:"class,omitempty"` // of the packet that is next, or of the last one

	Rate         units.Rate    `json:"rate"` // at which it may send, on the wire; 0 is without limit
	QueuePackets int           `json:"queue_packets"`
	QueueBytes   units.Bytes   `json:"queue"`
	TxPackets    uint64        `json:"tx_packets"`
	TxBytes      uint64        `json:"tx_bytes"` // of frames, without FCS
	Dropped      uint64        `json:"dropped"`
	Gauges       []gauge.Value `json:"gauges,omitempty"` // of its rate control
}

// EdgeFlowsOf gives the flows that the edge services of a host know, or that of an
// interface such as "h1:eth0". "" is all.
func (f *Fabric) EdgeFlowsOf(name string) ([]EdgeFlow, error) {
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
	all, found := []EdgeFlow{}, false
	for _, s := range f.Stations {
		if s.edge == nil || node >= 0 && s.Node != node || port >= 0 && s.Index != port {
			continue
		}
		found = true
		for _, x := range s.edge.service.Flows(f.nowAt(s.Node)) {
			all = append(all, f.edgeFlow(s, &x))
		}
	}
	switch {
	case found || name == "":
		return all, nil
	case f.Plan.Nodes[node].Kind != plan.Host:
		return nil, fmt.Errorf("%s is a switch, and only hosts have edge services", f.Plan.Nodes[node].Name)
	}
	return nil, fmt.Errorf("%s has no edge service: write for example edge: {limit: {rate: 100Mbps}} for it in the lab file", name)
}

func (f *Fabric) edgeFlow(s *Station, x *edge.Flow) EdgeFlow {
	k := &x.Key
	e := EdgeFlow{
		Port: f.Plan.PortName(s.Node, s.Index), From: k.From, To: k.To, SrcPort: k.SrcPort, DstPort: k.DstPort, QP: k.QP,
		Class: s.className(x.Priority), Rate: x.Rate, QueuePackets: x.Packets, QueueBytes: x.Bytes,
		TxPackets: x.TxPackets, TxBytes: x.TxBytes, Dropped: x.Dropped, Gauges: x.Gauges,
	}
	switch {
	case k.Flow >= 0:
		from, to := f.flowEnds[k.Flow][0], f.flowEnds[k.Flow][1]
		v6 := f.Plan.Flows[k.Flow].IPv6
		e.Flow, e.From, e.To = f.Plan.Flows[k.Flow].Name, f.addressOf(from, v6), f.addressOf(to, v6)
		e.Protocol = protocolName(wire.ProtoUDP)
	case k.To.IsValid():
		e.Protocol = protocolName(k.Proto)
	}
	if e.To.IsValid() {
		e.Peer = f.holderOf(e.To)
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
