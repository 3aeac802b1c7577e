package ndp

import (
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config has the settings of a connection, which are the same at both ends.
type Config struct {
	// MTU is that of the path: of a packet with its IP header.
	MTU  units.Bytes
	IPv6 bool
	// Window is how many packets are pushed before any PULL, 1 to 16384; 0 is the
	// bandwidth-delay product of the flow's path, and Allowance for the queues on it.
	Window int
	// Paths is how many path IDs a sender uses by turns, 1 to 4096. The paper's senders list
	// the paths; here they have labels that switches look at, or hash.
	Paths int
	// PathPenalty leaves paths out that have much more NACKs or losses than others.
	PathPenalty bool
	// RTO is the least retransmission timeout, MaxRTO the most, with its doubling.
	RTO, MaxRTO units.Time
	// Retries is how many timeouts may follow each other, with nothing heard, until the
	// connection fails, 1 to 30. This project's.
	Retries int
	// PullShare is the share of the line at which PULLs ask for data, above 0.
	PullShare units.Fraction
	// Priority ranks the PULLs of a receiving host: the highest goes first, and connections
	// of one priority by turns. 0 to 255.
	Priority int
}

// Allowance is how many packets a window that is chosen has beyond the bandwidth-delay
// product of the path without queues: two queues of eight packets. This project's. Without it
// a permutation on a fat-tree (k=8, 9000 B) gets 0.73 of the links, with it 0.9. The paper's
// simulations push 30 packets, as remembered.
const Allowance = 16

// Limits of settings.
const (
	leastMTU   = 576
	mostMTU    = 65535
	mostWindow = 1 << 14
	mostPaths  = 4096
	mostTries  = 30

	// span is how many packets may be between the first that is not acknowledged and the
	// last sent: the room of a receiver's reordering.
	span = 1 << 15
)

// Default gives the settings for a path of Ethernet's MTU. The RTO is the paper's as
// remembered, the share that of package pull, the rest this project's.
func Default() Config {
	return Config{
		MTU: 1500, Paths: 256, RTO: units.Millisecond, MaxRTO: 100 * units.Millisecond, Retries: 15, PullShare: pull.DefaultShare,
	}
}

// Check says what is wrong with settings. The error joins a registry.RangeError for each.
func (c *Config) Check() error {
	var check registry.Check
	if c.MTU < leastMTU || c.MTU > mostMTU {
		check.Bad("mtu", c.MTU, "an amount from %v to %v", units.Bytes(leastMTU), units.Bytes(mostMTU))
	}
	check.Number("window", c.Window, 0, mostWindow)
	check.Number("paths", c.Paths, 1, mostPaths)
	check.Time("rto", c.RTO, units.Microsecond)
	check.Time("max-rto", c.MaxRTO, c.RTO)
	check.Number("retries", c.Retries, 1, mostTries)
	check.Share("pull-share", c.PullShare, 0.01, 1)
	check.Number("priority", c.Priority, 0, 255)
	return check.Err()
}

// HeadersLen is the length of the headers of a packet, IP to NDP.
func (c *Config) HeadersLen() units.Bytes {
	if c.IPv6 {
		return wire.IPv6Header + wire.UDPHeader + HeaderLen
	}
	return wire.IPv4Header + wire.UDPHeader + HeaderLen
}

// Full is the payload of a full packet.
func (c *Config) Full() units.Bytes { return c.MTU - c.HeadersLen() }

// WindowFor is the window of a path: that of the settings, or the packets of a size on the
// wire that a bandwidth-delay product has.
func (c *Config) WindowFor(bdp, packet units.Bytes) int {
	if c.Window > 0 {
		return c.Window
	}
	return int(min(Allowance+(bdp+packet-1)/packet, mostWindow))
}
