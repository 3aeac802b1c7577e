package ndp

import (
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Config holds the settings of a connection, which are the same at both ends.
type Config struct {
	// MTU is the path's MTU: the size of a packet with its IP header.
	MTU  units.Bytes
	IPv6 bool
	// Window is the number of packets pushed before any PULL, 1 to 16384; 0 means the
	// bandwidth-delay product of the flow's path, plus Allowance for the queues on it.
	Window int
	// Paths is the number of path IDs that a sender uses in turn, 1 to 4096. The paper's
	// senders list the paths; here paths have labels that switches look at, or hash.
	Paths int
	// PathPenalty leaves out paths that have many more NACKs or losses than others.
	PathPenalty bool
	// RTO is the minimum retransmission timeout, MaxRTO the maximum after doubling.
	RTO, MaxRTO units.Time
	// Retries is how many timeouts in a row, with nothing heard, a connection survives, 1 to
	// 30. This project's.
	Retries int
	// PullShare is the share of the line at which PULLs ask for data, above 0.
	PullShare units.Fraction
	// Priority ranks the PULLs of a receiving host: the highest goes first, and connections of
	// one priority take turns. 0 to 255.
	Priority int
}

// Allowance is the number of packets that a default window has beyond the bandwidth-delay
// product of the path without queues: two queues of eight packets. This project's. Without it a
// permutation on a fat-tree (k=8, 9000 B) gets 0.73 of the links, with it 0.9. The paper's
// simulations push 30 packets, from memory.
const Allowance = 16

// Limits of settings.
const (
	minMTU    = 576
	maxMTU    = 65535
	maxWindow = 1 << 14
	maxPaths  = 4096
	maxTries  = 30

	// span is how many packets may be between the first unacknowledged one and the last one
	// sent: the room that a receiver has for reordering.
	span = 1 << 15
)

// Default returns the settings for a path with Ethernet's MTU. The RTO is the paper's, from
// memory, the share that of package pull, the rest this project's.
func Default() Config {
	return Config{
		MTU: 1500, Paths: 256, RTO: units.Millisecond, MaxRTO: 100 * units.Millisecond, Retries: 15, PullShare: pull.DefaultShare,
	}
}

// Check returns an error if settings are wrong. It joins a registry.RangeError for each.
func (c *Config) Check() error {
	var check registry.Check
	if c.MTU < minMTU || c.MTU > maxMTU {
		check.AddRange("mtu", c.MTU, "an amount from %v to %v", units.Bytes(minMTU), units.Bytes(maxMTU))
	}
	check.CheckNumber("window", c.Window, 0, maxWindow)
	check.CheckNumber("paths", c.Paths, 1, maxPaths)
	check.CheckTime("rto", c.RTO, units.Microsecond)
	check.CheckTime("max-rto", c.MaxRTO, c.RTO)
	check.CheckNumber("retries", c.Retries, 1, maxTries)
	check.CheckShare("pull-share", c.PullShare, 0.01, 1)
	check.CheckNumber("priority", c.Priority, 0, 255)
	return check.Err()
}

// HeadersLen returns the length of a packet's headers, from IP to NDP.
func (c *Config) HeadersLen() units.Bytes {
	if c.IPv6 {
		return wire.IPv6Header + wire.UDPHeader + HeaderLen
	}
	return wire.IPv4Header + wire.UDPHeader + HeaderLen
}

// FullPayload returns the payload of a full packet.
func (c *Config) FullPayload() units.Bytes { return c.MTU - c.HeadersLen() }

// WindowFor returns the window for a path: Window if it is set, otherwise the bandwidth-delay
// product in packets of a size on the wire, plus Allowance.
func (c *Config) WindowFor(bdp, packet units.Bytes) int {
	if c.Window > 0 {
		return c.Window
	}
	return int(min(Allowance+(bdp+packet-1)/packet, maxWindow))
}
