package resolve

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// byUDP resolves the settings of flows that use UDP.
func (e *patternEntry) byUDP(p pattern.Pattern) *carrier.UDP {
	f := e.file.By.Value.UDP
	ipv6, used := e.checkPaths(p, f.IP, false)
	c := &carrier.UDP{ECT: f.ECT, DSCP: uint8(f.DSCP), IPv6: ipv6}
	setFrom(&c.Rate, f.Rate)
	if f.Rate != nil && *f.Rate == 0 {
		e.ReportFault(f.Rate, "leave it out for the rate of the sender's link", "rate must not be unlimited")
	}
	over := overIPv4
	if c.IPv6 {
		over = overIPv6
	}
	c.Size = maxDatagram
	if len(used) == 0 {
		c.Size = unknownMTU - over
	}
	for _, x := range used {
		n := &e.plan.Nodes[x.Node]
		out := &n.Ports[x.Port]
		c.Size = min(c.Size, min(e.settingsOf(out, 0).MTU, e.settingsOf(out, 1).MTU)-over-n.EdgeOverhead(c.IPv6))
		if c.Rate == 0 && e.rateOf(out) == 0 {
			e.FailOnce(e.file.By, "write by: {udp: {rate: ...}}", "the link of %s has no rate, and neither have the flows", e.plan.PortName(x.Node, x.Port))
		}
	}
	if f.Size != nil {
		if *f.Size == 0 || *f.Size > c.Size {
			e.ReportFault(f.Size, fmt.Sprintf("the largest payload is %v", c.Size), "size %v is out of range for an mtu of %v", *f.Size, c.Size+over)
		}
		c.Size = *f.Size
	}
	return c
}

// maxDatagram is the longest UDP payload over IPv4.
const maxDatagram units.Bytes = 65507
