package tcp

import (
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// ECN is the use of explicit congestion notification on a connection.
type ECN uint8

// Values of ECN.
const (
	NoECN      ECN = iota
	ClassicECN     // ECE until the sender sets CWR (RFC 3168)
	DCTCP          // ECE follows the marks of packets (RFC 8257)
)

// Config holds the settings of a connection, which are the same at both ends.
type Config struct {
	// MTU is the MTU of the path, including the IP header.
	MTU  units.Bytes
	IPv6 bool
	ECN  ECN
	// Window is the size of the receiver's buffer, and so the maximum in flight. The receiver
	// reads in-order data at once, so it always advertises the whole buffer.
	Window     units.Bytes
	Timestamps bool
	// InitialRTO is the timeout before the first RTT sample, MinRTO the minimum that is added
	// to the smoothed RTT, MaxRTO the maximum timeout.
	InitialRTO, MinRTO, MaxRTO units.Time
	// Retries is the number of consecutive timeouts that may resend before the connection
	// fails.
	Retries int
	// TailProbes means that a probe is sent before the timeout (TLP).
	TailProbes bool
	// AckEvery is the number of full segments that an acknowledgement may wait for, DelayedAck
	// the time. The first QuickAcks are not delayed.
	AckEvery, QuickAcks int
	DelayedAck          units.Time
	// SACKDelay is how long an acknowledgement of out-of-order segments may wait for more of
	// them; the wait is also at most 5% of the RTT of the handshake. 0 means no wait.
	SACKDelay units.Time
	// Offload means that the segments of a burst of the rate control (cc.Burster) leave back to
	// back. Without it each is paced separately.
	Offload bool
}

// Default returns Linux's settings for a path with Ethernet's MTU.
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
	minMTU   = 576     // of IPv4: every host accepts it (RFC 791)
	maxMTU   = 65535   // limit of the IP header
	maxAcks  = 1000    // segments for an acknowledgement
	maxTries = 30      // more doublings make no difference
	maxQuick = 1 << 15 // acknowledgements that are not delayed
	maxScale = 14      // RFC 7323 §2.3
)

// MaxWindow is the largest window that TCP can advertise.
const MaxWindow units.Bytes = 65535 << maxScale

// Check validates the settings. The error joins a registry.RangeError for each invalid one.
func (c *Config) Check() error {
	var check registry.Check
	if c.MTU < minMTU || c.MTU > maxMTU {
		check.AddRange("mtu", c.MTU, "an amount from %v to %v", units.Bytes(minMTU), units.Bytes(maxMTU))
	}
	if minWindow := 2 * c.MTU; c.Window < minWindow || c.Window > MaxWindow {
		check.AddRange("receive-window", c.Window, "an amount from %v, two packets of the MTU, to %v", minWindow, MaxWindow)
	}
	check.CheckTime("initial-rto", c.InitialRTO, units.Microsecond)
	check.CheckTime("min-rto", c.MinRTO, 0)
	check.CheckTime("max-rto", c.MaxRTO, c.MinRTO)
	check.CheckNumber("retries", c.Retries, 1, maxTries)
	check.CheckNumber("ack-every", c.AckEvery, 1, maxAcks)
	check.CheckNumber("quick-acks", c.QuickAcks, 0, maxQuick)
	check.CheckTime("delayed-ack", c.DelayedAck, 0)
	check.CheckTime("sack-delay", c.SACKDelay, 0)
	return check.Err()
}

// MSS returns the value of the MSS option: the payload of a packet whose TCP header has no
// options (RFC 6691).
func (c *Config) MSS() units.Bytes {
	if c.IPv6 {
		return c.MTU - wire.IPv6Header - headerLen
	}
	return c.MTU - wire.IPv4Header - headerLen
}

// FullPayload returns the payload of a full segment of data.
func (c *Config) FullPayload() units.Bytes {
	if c.Timestamps {
		return c.MSS() - 12
	}
	return c.MSS()
}

// windowScale returns the window scale to advertise.
func (c *Config) windowScale() (n uint8) {
	for n < maxScale && c.Window>>n > 65535 {
		n++
	}
	return n
}

// timestampAt returns the timestamp clock at now. It ticks in milliseconds, as in Linux, and
// begins at 1: 0 means no echo.
func timestampAt(now units.Time) uint32 { return uint32(now/units.Millisecond) + 1 }
