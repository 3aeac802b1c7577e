package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// defaultControlDSCP is the DSCP of packets that should not wait: Expedited Forwarding
// (RFC 3246).
const defaultControlDSCP = 46

// byNDP resolves the settings of flows that use NDP.
func (e *patternEntry) byNDP(p pattern.Pattern) *carrier.NDP {
	hosts := p.Hosts()
	f := e.file.By.Value.NDP
	c := &carrier.NDP{Config: ndp.Default(), DSCP: uint8(f.DSCP), ControlDSCP: defaultControlDSCP}
	setFrom((*labfile.DSCP)(&c.ControlDSCP), f.ControlDSCP)
	ipv6, used := e.checkPaths(p, f.IP, true)
	c.IPv6 = ipv6
	c.MTU = e.packetMTU(used, f.MTU, c.IPv6)
	if f.Window != nil && *f.Window < 1 {
		e.ReportFault(f.Window, "leave it out for the bandwidth-delay product of each flow's path", "window %d is outside 1 to 16384", *f.Window)
	}
	setFrom(&c.Window, f.Window)
	setFrom(&c.Paths, f.Paths)
	setFrom(&c.PathPenalty, f.PathPenalty)
	setFrom(&c.RTO, f.RTO)
	setFrom(&c.MaxRTO, f.MaxRTO)
	setFrom(&c.Retries, f.Retries)
	setFrom(&c.PullShare, f.PullShare)
	setFrom(&c.Priority, f.Priority)
	labfile.ReportSettings(e.Reader, "ndp", f, c.Config.Check(), e.file.By)
	e.samePulls(c, hosts)
	return c
}

// samePulls checks that flows can share the pull queues of hosts with the flows of
// earlier entries.
func (e *patternEntry) samePulls(c *carrier.NDP, hosts []int) {
	mine := map[int]bool{}
	for _, h := range hosts {
		mine[h] = true
	}
	for _, t := range e.plan.Traffic {
		if t.NDP == nil || t.NDP.MTU == c.MTU && t.NDP.PullShare == c.PullShare {
			continue
		}
		for _, h := range t.Pattern.Hosts() {
			if mine[h] {
				e.ReportFault(e.file.By, "give both the same mtu and pull-share", "NDP flows to one host share its pull queue: flows of %s to %s have a different mtu or pull-share", t.Name, e.plan.Nodes[h].Name)
				return
			}
		}
	}
}
