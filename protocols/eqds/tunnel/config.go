package tunnel

import (
	"strings"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Backend is how a tunnel begins (§4.1).
type Backend uint8

const (
	// NDP sends one window before any credit arrives, for networks whose switches trim.
	NDP Backend = iota
	// RTS asks for credit first, for networks whose switches do not trim.
	RTS
)

var backendNames = []string{"ndp", "rts"}

// String returns the name used in lab files.
func (b Backend) String() string { return backendNames[b] }

// Names returns the names that a lab file can use.
func (Backend) Names() []string { return backendNames }

// MarshalText returns the name used in lab files.
func (b Backend) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the name used in lab files.
func (b *Backend) UnmarshalText(text []byte) error {
	s := strings.Trim(string(text), `"' `)
	for i, name := range backendNames {
		if name == s {
			*b = Backend(i)
			return nil
		}
	}
	return &registry.RangeError{Key: "backend", Value: s, Fix: "ndp, for switches that trim, or rts"}
}

// Config holds the settings of a host's tunnels. The 100 us of RTO_min and the 256 paths come
// only from the simulator of the paper's authors; values marked as this project's have no
// source.
type Config struct {
	Backend Backend
	// MTU is the largest frame of a tunnel, Ethernet header to payload: the unit of the credit
	// in PULLs.
	MTU units.Bytes
	// Window is the bandwidth-delay product: the credit that a tunnel has between its two
	// ends. At least two MTUs, at most 512.
	Window units.Bytes
	// Paths is the number of path IDs, a power of two up to 256.
	Paths int
	// RTO is the minimum retransmission timeout, and the one used before an RTT is known. It
	// doubles with every timeout, up to MaxRTO, which is this project's.
	RTO, MaxRTO units.Time
	// Timeouts is how many timeouts may follow each other without progress until the tunnel is
	// considered unhealthy and is set up again (Appendix A: "a large number"). This project's.
	Timeouts int
	// GiveUp is how long a receiver may be silent until the packets that wait for it are
	// dropped. This project's.
	GiveUp units.Time
	// Reorder is how long the receiver waits for a packet that others have overtaken. This
	// project's.
	Reorder units.Time
	// AckDelay is how long the acknowledgement of a packet that was not trimmed waits for a
	// PULL to share a packet with, if the sender is in the active-sender list; 0 means not at
	// all. This project's: the paper's prototypes send both separately, in packets of 64 B for
	// each of 8 KB.
	AckDelay units.Time
	// Credit is the most MTUs that a PULL of this host gives (pull.Config.Credit). If it is
	// more than 1, that many packets that arrive in order are acknowledged together, at the
	// latest after AckDelay, even if no PULL is to follow: otherwise only PULLs would be saved.
	// Ultra Ethernet acknowledges every 16 KB.
	Credit int
}

// Default returns the settings for a link of rate line, 0 if unlimited, with frames of at most
// mtu, in a network with round-trip time rtt. credit is Config.Credit: credit that waits for
// more makes the round trip longer, which takes a larger window, as bursts do in §7 of the
// paper. Check rejects settings with an mtu that is out of range.
func Default(line units.Rate, mtu units.Bytes, rtt units.Time, credit int) Config {
	rtt += units.Time(credit-1) * line.TimeOf(mtu)
	c := Config{
		MTU: mtu, Paths: 256, RTO: max(100*units.Microsecond, 3*rtt), Timeouts: 8,
		GiveUp: units.Second, Window: minDefault * mtu, Credit: credit,
	}
	c.MaxRTO, c.Reorder = 100*c.RTO, 30*c.RTO
	if mtu <= 0 {
		return c
	}
	if packets := (line.BytesIn(rtt) + mtu - 1) / mtu; packets > minDefault {
		c.Window = min(packets, maxWindow) * mtu
	}
	if line > 0 {
		c.AckDelay = min(units.Time(max(8, 2*credit))*line.TimeOf(mtu), c.RTO/4)
	}
	return c
}

// Limits of settings.
const (
	minWindow = 2 // MTUs
	// minDefault is the window of the paper's prototype with DPDK (§8.5). The bandwidth-delay
	// product of an empty network is too small if packets meet queues and overtake each other.
	minDefault = 50
	maxWindow  = 512 // MTUs: a window of SYN packets has one epoch
	maxPaths   = 256
	maxTries   = 1000

	maxDoublings = 32 // of a timeout: MaxRTO is reached earlier
)

// maxInFlight is the most packets that may be in flight: SYN packets have the numbers of one
// epoch.
const maxInFlight = eqds.Span - 1

// Check returns an error if settings are wrong. It joins a registry.RangeError for each.
func (c *Config) Check() error {
	var check registry.Check
	if c.MTU < 64 || c.MTU > 1<<16 {
		check.AddRange("mtu", c.MTU, "the largest frame of a tunnel, from 64 to 65536 bytes")
	} else if c.Window < minWindow*c.MTU || c.Window > maxWindow*c.MTU {
		check.AddRange("window", c.Window, "a bandwidth-delay product from %v, two MTUs, to %v", minWindow*c.MTU, maxWindow*c.MTU)
	}
	if c.Paths < 1 || c.Paths > maxPaths || c.Paths&(c.Paths-1) != 0 {
		check.AddRange("paths", c.Paths, "a power of two from 1 to %d", maxPaths)
	}
	check.CheckTime("rto", c.RTO, units.Picosecond)
	check.CheckTime("max-rto", c.MaxRTO, c.RTO)
	check.CheckNumber("timeouts", c.Timeouts, 1, maxTries)
	check.CheckTime("give-up", c.GiveUp, c.RTO)
	check.CheckTime("reorder", c.Reorder, units.Picosecond)
	check.CheckNumber("credit-per-pull", c.Credit, 1, pull.MaxCredit)
	check.CheckTime("ack-delay", c.AckDelay, 0)
	if c.AckDelay > c.RTO/2 {
		check.AddRange("ack-delay", c.AckDelay, "at most half of rto, %v", c.RTO/2)
	}
	return check.Err()
}

// windowMTUs returns the window in MTUs.
func (c *Config) windowMTUs() uint16 { return uint16(c.Window / c.MTU) }
