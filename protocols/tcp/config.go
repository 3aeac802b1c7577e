package tcp

import (
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// ECN is how a connection takes part in explicit congestion notification.
type ECN uint8

// How it does.
const (
	NoECN      ECN = iota
	ClassicECN     // ECE until the sender says CWR (RFC 3168)
	DCTCP          // ECE follows the marks of packets (RFC 8257)
)

// Config has the settings of a connection, which are the same at both ends.
type Config struct {
	// MTU is that of the path: of a packet with its IP header.
	MTU  units.Bytes
	IPv6 bool
	ECN  ECN
	// Window is the receiver's buffer, and so the most that is under way. The receiver
	// reads at once what has come in order, so it always advertises all of it.
	Window     units.Bytes
	Timestamps bool
	// InitialRTO is the timeout before there is an RTT, MinRTO the least that is added to
	// the smoothed RTT, MaxRTO the most.
	InitialRTO, MinRTO, MaxRTO units.Time
	// Retries is how often in a row a timeout may resend before the connection is given up.
	Retries int
	// TailProbes means that a probe goes before the timeout (TLP).
	TailProbes bool
	// AckEvery is how many full segments an acknowledgement may wait for, DelayedAck how
	// long. The first QuickAcks are not delayed.
	AckEvery, QuickAcks int
	DelayedAck          units.Time
	// SACKDelay is how long an acknowledgement that tells of segments out of order may wait
	// for more of them, and at most 5% of the RTT of the handshake; 0 has each go at once.
	SACKDelay units.Time
	// Offload means that the segments of a burst of the rate control (cc.Burster) leave back to
	// back. Without it each is paced on its own.
	Offload bool
}

// Default gives the settings that Linux has, for a path of Ethernet's MTU.
func Default() Config {
	return Config{
		MTU: 1500, Window: 3 * units.MiB, Timestamps: true,
		InitialRTO: units.Second, MinRTO: 200 * units.Millisecond, MaxRTO: 120 * units.Second,
		Retries: 15, TailProbes: true, AckEvery: 2, QuickAcks: 16, DelayedAck: 40 * units.Millisecond,
		SACKDelay: units.Millisecond,
		Offload:   true,
	}
}

// Limits of settings.
const (
	leastMTU  = 576     // of IPv4: what every host takes (RFC 791)
	mostMTU   = 65535   // what an IP header can say
	mostAcks  = 1000    // segments for an acknowledgement
	mostTries = 30      // more doublings mean nothing
	mostQuick = 1 << 15 // acknowledgements that are not delayed
	mostScale = 14      // RFC 7323 §2.3
)

// MaxWindow is the most that a window of TCP can say.
const MaxWindow units.Bytes = 65535 << mostScale

// Check says what is wrong with settings. The error joins a registry.RangeError for each.
func (c *Config) Check() error {
	var check registry.Check
	if c.MTU < leastMTU || c.MTU > mostMTU {
		check.Bad("mtu", c.MTU, "an amount from %v to %v", units.Bytes(leastMTU), units.Bytes(mostMTU))
	}
	if least := 2 * c.MTU; c.Window < least || c.Window > MaxWindow {
		check.Bad("receive-window", c.Window, "an amount from %v, two packets of the MTU, to %v", least, MaxWindow)
	}
	check.Time("initial-rto", c.InitialRTO, units.Microsecond)
	check.Time("min-rto", c.MinRTO, 0)
	check.Time("max-rto", c.MaxRTO, c.MinRTO)
	check.Number("retries", c.Retries, 1, mostTries)
	check.Number("ack-every", c.AckEvery, 1, mostAcks)
	check.Number("quick-acks", c.QuickAcks, 0, mostQuick)
	check.Time("delayed-ack", c.DelayedAck, 0)
	check.Time("sack-delay", c.SACKDelay, 0)
	return check.Err()
}

// MSS is what the MSS option says: the payload of a packet whose TCP header has no options
// (RFC 6691).
func (c *Config) MSS() units.Bytes {
	if c.IPv6 {
		return c.MTU - wire.IPv6Header - headerLen
	}
	return c.MTU - wire.IPv4Header - headerLen
}

// Full is the payload of a full segment of data.
func (c *Config) Full() units.Bytes {
	if c.Timestamps {
		return c.MSS() - 12
	}
	return c.MSS()
}

// scale is the shift of the window that is advertised.
func (c *Config) scale() (n uint8) {
	for n < mostScale && c.Window>>n > 65535 {
		n++
	}
	return n
}

// timestamp is the clock of timestamps, which ticks in milliseconds as Linux's does. It
// begins at 1: 0 is no echo.
func timestamp(now units.Time) uint32 { return uint32(now/units.Millisecond) + 1 }
