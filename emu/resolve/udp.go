package resolve

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// byUDP resolves the settings of flows that use UDP.
func (e *patternEntry) byUDP(hosts []int) *carrier.UDP {
	f := e.file.By.Value.UDP
	c := &carrier.UDP{ECT: f.ECT, DSCP: uint8(f.DSCP), IPv6: e.chooseIPVersion(hosts, f.IP)}
	setFrom(&c.Rate, f.Rate)
	if f.Rate != nil && *f.Rate == 0 {
		e.ReportFault(f.Rate, "leave it out for the rate of the sender's link", "rate must not be unlimited")
	}
	over := overIPv4
	if c.IPv6 {
		over = overIPv6
	}
	c.Size = maxDatagram
	for _, h := range hosts {
		p := e.firstPort(h)
		if p == nil {
			continue
		}
		c.Size = min(c.Size, min(e.settingsOf(p, 0).MTU, e.settingsOf(p, 1).MTU)-over-e.plan.Nodes[h].EdgeOverhead(c.IPv6))
		if c.Rate == 0 && e.settingsOf(p, 0).Rate == 0 {
			e.FailOnce(e.file.By, "write by: {udp: {rate: ...}}", "the link of %s has no rate, and neither have the flows", e.plan.Nodes[h].Name)
		}
	}
	if f.Size != nil {
		if *f.Size == 0 || *f.Size > c.Size {
			e.ReportFault(f.Size, fmt.Sprintf("the largest payload is %v", c.Size), "size %v is out of range for an mtu of %v", *f.Size, c.Size+over)
		}
		c.Size = *f.Size
	}
	e.checkPaths(hosts, c.IPv6)
	return c
}

// maxDatagram is the longest UDP payload over IPv4.
const maxDatagram units.Bytes = 65507
