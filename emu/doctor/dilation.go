package doctor

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

const (
	// safeShare is the share of its capacity up to which an engine is on time.
	// Beyond it, queues form in front of the engine.
	safeShare = 0.8

	// jumbo is the MTU from which a link counts as a link with large frames.
	jumbo = 4000

	// rdmaMTU is the path MTU that perftest and most others choose by default.
	rdmaMTU = 1024

	// wireOverhead is what a packet takes on an Ethernet link in addition to its MTU.
	wireOverhead = 38
)

// Need is the dilation that a lab needs on this machine, with one engine: an
// estimate for traffic in large packets.
type Need struct {
	Lab     string     `json:"lab"`
	File    string     `json:"file"`
	Set     int        `json:"set"`               // set in the file
	All     int        `json:"all"`               // for all hosts sending at once at the rates of their links; 0 means unknown
	One     int        `json:"one"`               // for the most expensive host
	Late    int        `json:"late"`              // for the lateness that the file allows; 0 means unknown
	Offered units.Rate `json:"offered"`           // total rate of the links of all hosts
	Unknown string     `json:"unknown,omitempty"` // why All and One are unknown
	Hosts   int        `json:"hosts,omitempty"`   // number of hosts in the sums
}

// NeedOf estimates the dilation that a plan needs on a machine.
func NeedOf(p *plan.Plan, on *Prediction) Need {
	n := Need{Lab: p.Name, File: p.File, Set: p.Dilation}
	if on.LatenessP99 > 0 {
		n.Late = int(math.Ceil(float64(on.LatenessP99) / float64(p.Fidelity.Limit)))
	}
	if on.TCP1500 == 0 || on.VirtualHops == 0 {
		n.Unknown = "packets could not be measured"
		return n
	}
	further := max(maxDistance(p)-1, 0) // switches beyond the first
	sum, maxCost := 0.0, 0.0
	for i := range p.Nodes {
		node := &p.Nodes[i]
		if node.Kind != plan.Host || node.Attach == plan.NoDevice {
			continue
		}
		cost := 0.0
		for _, port := range node.Ports {
			if port.Link < 0 {
				continue
			}
			s := p.Links[port.Link].Dir[port.End]
			if s.Rate == 0 {
				n.Unknown = fmt.Sprintf("the link of %s has no rate", node.Name)
				return n
			}
			n.Offered += s.Rate
			cost += on.hostCost(node, s.Rate, s.MTU, further)
		}
		n.Hosts++
		sum, maxCost = sum+cost, max(maxCost, cost)
	}
	n.All, n.One = dilationFor(sum), dilationFor(maxCost)
	return n
}

// hostCost returns the share of an engine used by a host that sends at rate r.
func (on *Prediction) hostCost(n *plan.Node, r units.Rate, mtu units.Bytes, further int) float64 {
	carried := on.TCP1500
	switch {
	case n.Offload == plan.OffloadOn && on.Offload > 0:
		carried = on.Offload
	case mtu >= jumbo && on.TCP9000 > 0:
		carried = on.TCP9000
	}
	packets := func(size units.Bytes) float64 { return float64(r) / 8 / float64(size+wireOverhead) }
	programs := float64(r)/float64(carried) + float64(further)*packets(mtu)/on.VirtualHops
	if n.NIC == nil {
		return programs
	}
	// Packets of an RDMA NIC pass no device, and host and NIC share the link.
	return max(programs, float64(switchHops+further)*packets(min(rdmaMTU, mtu))/on.VirtualHops)
}

// dilationFor returns the dilation at which a load, in engines, is within the safe share.
func dilationFor(load float64) int { return max(int(math.Ceil(load/safeShare)), 1) }

// dilationText names a dilation, or says that it is above the limit.
func dilationText(n int) string {
	if n > wall.MaxDilation {
		return fmt.Sprintf("more than the largest dilation, %d", wall.MaxDilation)
	}
	return fmt.Sprintf("dilation: %d", n)
}

// maxDistance returns the maximum number of switches between the first host and
// another. In regular topologies that is about the maximum between any two hosts.
func maxDistance(p *plan.Plan) (maxSwitches int) {
	at := make([]int, len(p.Nodes)) // switches on the path, plus 1
	var todo []int
	for i := range p.Nodes {
		if p.Nodes[i].Kind == plan.Host {
			at[i], todo = 1, []int{i}
			break
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		here := todo[0]
		for _, port := range p.Nodes[here].Ports {
			if port.Link < 0 {
				continue
			}
			far := p.Links[port.Link].Ends[1-port.End].Node
			if at[far] != 0 {
				continue
			}
			at[far] = at[here]
			if p.Nodes[here].Kind == plan.Switch {
				maxSwitches = max(maxSwitches, at[here]-1)
			}
			if p.Nodes[far].Kind == plan.Switch {
				at[far]++
				todo = append(todo, far)
			}
		}
	}
	return maxSwitches
}

// text describes the need in one or two sentences.
func (n *Need) text() string {
	late := ""
	if n.Late > 1 {
		late = fmt.Sprintf(" Lateness here exceeds the file's limit: %s stays within it.", dilationText(n.Late))
	}
	if n.Unknown != "" {
		return fmt.Sprintf("not known, because %s.%s", n.Unknown, late)
	}
	if n.All == 1 {
		return fmt.Sprintf("none: all %d hosts can send at once at the rates of their links, %s.%s", n.Hosts, report.Rate(float64(n.Offered)), late)
	}
	sentence := fmt.Sprintf("%s, if all %d hosts send at once at the rates of their links, %s", dilationText(n.All), n.Hosts, report.Rate(float64(n.Offered)))
	if n.Hosts > 1 && n.One < n.All {
		one := "none"
		if n.One > 1 {
			one = dilationText(n.One)
		}
		sentence += "; " + one + " for one of them"
	}
	if n.Set > 1 {
		sentence += fmt.Sprintf(". The file says %d", n.Set)
	}
	return sentence + "." + late
}
