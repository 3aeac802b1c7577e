package status

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Edge is the state of the edge service of a host's interface at one moment.
type Edge struct {
	Service      string        `json:"service"` // as in the lab file
	Preset       string        `json:"preset,omitempty"`
	QueuePackets int           `json:"queue_packets"` // packets that it holds
	QueueBytes   units.Bytes   `json:"queue"`
	Gauges       []gauge.Value `json:"gauges,omitempty"`

	// Flows are at most MaxEdgeFlows of the flows that it tells apart, oldest first.
	Flows        []EdgeFlow `json:"flows,omitempty"`
	FlowsLeftOut int        `json:"flows_left_out,omitempty"` // how many more there are
}

// MaxEdgeFlows is the maximum number of flows in the status of an edge service: sampling a
// lab every second must not hold its engines for long, and metrics must not grow without
// bound.
const MaxEdgeFlows = 16

// Add adds the counts of another service. Gauges that are not counts are left out.
func (s *Edge) Add(e *Edge) {
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

// EdgeFlow is the state of a flow that an edge service tells apart, at one moment, with its
// counts since the service first saw it.
type EdgeFlow struct {
	Port     string     `json:"port"`             // "h1:eth0"
	Flow     string     `json:"flow,omitempty"`   // name of a modelled flow
	From     netip.Addr `json:"from,omitzero"`    // of other flows
	To       netip.Addr `json:"to,omitzero"`      // likewise; flows that share a queue have neither
	Peer     string     `json:"peer,omitempty"`   // the interface with To, such as "h2:eth0"
	Protocol string     `json:"proto,omitempty"`  // tcp, udp, icmp, icmp6 or its number
	SrcPort  uint16     `json:"source,omitempty"` // port of TCP and UDP
	DstPort  uint16     `json:"destination,omitempty"`
	QP       uint32     `json:"qp,omitempty"`    // destination queue pair of RoCEv2
	Class    string     `json:"class,omitempty"` // of the next packet, or of the last one

	Rate         units.Rate    `json:"rate"` // allowed, on the wire; 0 means no limit
	QueuePackets int           `json:"queue_packets"`
	QueueBytes   units.Bytes   `json:"queue"`
	TxPackets    uint64        `json:"tx_packets"`
	TxBytes      uint64        `json:"tx_bytes"` // of frames, without FCS
	Dropped      uint64        `json:"dropped"`
	Gauges       []gauge.Value `json:"gauges,omitempty"` // of its rate control
}

// Name returns the name of a modelled flow, or the protocol and addresses of another
// flow, such as "tcp 10.0.0.1:5201 > 10.0.0.2:40000". It has no comma.
func (e *EdgeFlow) Name() string {
	if e.Flow != "" {
		return e.Flow
	}
	return e.Ends()
}

// Ends returns the protocol and addresses of a flow.
func (e *EdgeFlow) Ends() string {
	if !e.To.IsValid() {
		return "all others"
	}
	end := func(a netip.Addr, port uint16) string {
		if port == 0 {
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	text := fmt.Sprintf("%s %s > %s", e.Protocol, end(e.From, e.SrcPort), end(e.To, e.DstPort))
	if e.QP > 0 {
		text += fmt.Sprintf(" QP %d", e.QP)
	}
	return text
}
