package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// byRDMA resolves the settings of flows that use RDMA.
func (e *patternEntry) byRDMA(p pattern.Pattern) *carrier.RDMA {
	hosts := p.Hosts()
	f, place := &labfile.RDMAFlows{}, e.place
	if by := e.file.By; by != nil {
		f, place = by.Value.RDMA, by
	}
	ipv6, used := e.checkPaths(p, f.IP, true)
	c := &carrier.RDMA{Verb: f.Verb, IPv6: ipv6, PerPair: e.isPerPair()}
	if f.Verb == workload.Read {
		e.ReportFault(&f.Verb, "for READs, use read: in the workload", "the flows of a pattern must be write or send: the host with the data sends")
	}
	setFrom(&c.Chunk, f.Chunk)
	if c.Chunk > maxMessage || f.Chunk != nil && *f.Chunk == 0 {
		e.ReportFault(f.Chunk, fmt.Sprintf("it can be 1B to %dB", maxMessage), "chunk %dB is out of range", *f.Chunk)
	}
	if c.PerPair && f.Chunk != nil && f.Verb == workload.Write {
		e.ReportFault(f.Chunk, "write verb: send, or leave out chunk", "with connections: per-pair flows cannot be split into WRITEs, of which the receiver sees only the last")
	}
	setFrom((*labfile.PathMTU)(&c.MTU), f.MTU)
	setFrom((*labfile.DSCP)(&c.DSCP), f.DSCP)
	for i, h := range hosts {
		n := &e.plan.Nodes[h]
		if !e.hasNIC(h, place) {
			return c
		}
		switch {
		case f.MTU != nil && c.MTU > n.NIC.MTU:
			e.FailOnce(f.MTU, "", "the NIC of %s has an mtu of %d", n.Name, n.NIC.MTU.Bytes())
		case f.MTU == nil && (i == 0 || c.MTU > n.NIC.MTU):
			c.MTU = n.NIC.MTU
		}
		if f.DSCP != nil {
			continue
		}
		if i > 0 && n.NIC.DSCP != c.DSCP {
			e.FailOnce(place, "write by: {rdma: {dscp: ...}}", "the NICs of %s and %s have different dscps, %d and %d", e.plan.Nodes[hosts[0]].Name, n.Name, c.DSCP, n.NIC.DSCP)
		}
		c.DSCP = n.NIC.DSCP
	}
	for _, x := range used {
		if e.rateOf(&e.plan.Nodes[x.Node].Ports[x.Port]) == 0 {
			e.FailOnce(place, "give links a rate: under kinds, in the generator or in the link", "the link of %s has no rate, and a NIC needs it to pace flows", e.plan.PortName(x.Node, x.Port))
		}
	}
	return c
}
