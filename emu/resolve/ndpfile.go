package resolve

import (
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// ndpFlowsFile holds the settings of flows that use NDP.
type ndpFlowsFile struct {
	DSCP        dscp            `yaml:"dscp,omitempty" jsonschema_description:"DSCP of data packets, 0 to 63; default 0"`
	ControlDSCP *dscp           `yaml:"control-dscp,omitempty" jsonschema_description:"DSCP of ACKs, NACKs and PULLs, 0 to 63; default 46"`
	IP          *ipVersion      `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
	MTU         *units.Bytes    `yaml:"mtu,omitempty" jsonschema_description:"largest packet, including its IP header; default the smallest mtu of the hosts' links"`
	Window      *int            `yaml:"window,omitempty" jsonschema_description:"packets that a flow sends before it waits for PULLs, 1 to 16384; default the bandwidth-delay product of its path without queues, plus 16"`
	Paths       *int            `yaml:"paths,omitempty" jsonschema_description:"number of path IDs that a flow uses in turn, as UDP source ports from 49152 on, 1 to 4096; default 256"`
	PathPenalty *bool           `yaml:"path-penalty,omitempty" jsonschema_description:"whether a flow skips paths with many more NACKs or losses than others for some turns; default false"`
	RTO         *units.Time     `yaml:"rto,omitempty" jsonschema_description:"minimum retransmission timeout; default 1ms"`
	MaxRTO      *units.Time     `yaml:"max-rto,omitempty" jsonschema_description:"maximum timeout after doubling; default 100ms"`
	Retries     *int            `yaml:"retries,omitempty" jsonschema_description:"consecutive timeouts after which a flow fails, 1 to 30; default 15"`
	PullShare   *units.Fraction `yaml:"pull-share,omitempty" jsonschema_description:"share of a receiver's link at which PULLs ask for data, 1% to 100%; default 99%"`
	Priority    *int            `yaml:"priority,omitempty" jsonschema_description:"priority of PULLs at a receiver, highest first, 0 to 255; default 0"`
}

// defaultControlDSCP is the DSCP of packets that should not wait: Expedited Forwarding
// (RFC 3246).
const defaultControlDSCP = 46

// byNDP resolves the settings of flows that use NDP.
func (e *patternEntry) byNDP(hosts []int) *carrier.NDP {
	f := e.file.By.Value.NDP
	c := &carrier.NDP{Config: ndp.Default(), DSCP: uint8(f.DSCP), ControlDSCP: defaultControlDSCP}
	set((*dscp)(&c.ControlDSCP), f.ControlDSCP)
	c.IPv6 = e.version(hosts, f.IP)
	c.MTU = e.packetMTU(hosts, f.MTU, c.IPv6)
	if f.Window != nil && *f.Window < 1 {
		e.Fail(f.Window, "leave it out for the bandwidth-delay product of each flow's path", "window %d is outside 1 to 16384", *f.Window)
	}
	set(&c.Window, f.Window)
	set(&c.Paths, f.Paths)
	set(&c.PathPenalty, f.PathPenalty)
	set(&c.RTO, f.RTO)
	set(&c.MaxRTO, f.MaxRTO)
	set(&c.Retries, f.Retries)
	set(&c.PullShare, f.PullShare)
	set(&c.Priority, f.Priority)
	reportSystem(e.Reader, "ndp", f, c.Config.Check(), e.file.By)
	e.checkPaths(hosts, c.IPv6)
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
				e.Fail(e.file.By, "give both the same mtu and pull-share", "NDP flows to one host share its pull queue: flows of %s to %s have a different mtu or pull-share", t.Name, e.plan.Nodes[h].Name)
				return
			}
		}
	}
}
