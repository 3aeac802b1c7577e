package dctcp

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of a sender. K belongs to the switch: congestion point step.
// *Config implements cc.Settings.
type Config struct {
	// G is the weight of the last window's share of marked bytes in alpha (g). Above
	// 0, up to 1.
	G units.Fraction `yaml:"g,omitempty" json:"g" jsonschema_description:"weight of the last window's share of marked bytes in alpha"`
	// InitialAlpha is alpha before the first window has ended (RFC 8257 §4.2).
	InitialAlpha units.Fraction `yaml:"initial_alpha,omitempty" json:"initial_alpha" jsonschema_description:"alpha at the beginning of a flow"`
	// InitialWindow is the initial window of a flow, in payload. 0 means the bandwidth-delay
	// product of its path, or ten packets if the path is not known.
	InitialWindow units.Bytes `yaml:"initial_window,omitempty" json:"initial_window" jsonschema_description:"initial window of a flow; 0 means the bandwidth-delay product of its path"`
	// SlowStart means that the window at first grows by all that is acknowledged, until a mark
	// or a loss. Without InitialWindow, a flow whose path is not known always begins with slow
	// start.
	SlowStart bool `yaml:"slow_start,omitempty" json:"slow_start" jsonschema_description:"whether the window at first grows by all acknowledged bytes"`
	// AdditiveIncrease is the growth of the window for each window that is acknowledged without
	// a mark. 0 means the payload of a packet.
	AdditiveIncrease units.Bytes `yaml:"additive_increase,omitempty" json:"additive_increase" jsonschema_description:"growth of the window per acknowledged window; 0 means a packet"`
	// WholePackets means that alpha is counted in 1024ths and the window, when it is reduced,
	// in packets, both rounded down, as in Linux (net/ipv4/tcp_dctcp.c): a reduction by less
	// than a packet has no effect. A reduction leaves at least two packets.
	WholePackets bool `yaml:"whole_packets,omitempty" json:"whole_packets" jsonschema_description:"whether alpha is counted in 1024ths and reductions of the window in packets, as in Linux"`
	// Pacing means that packets are spaced at window/T, and the window is never more than what
	// the line carries in T. Without pacing, acknowledgements are the clock, as in TCP, and the
	// window grows only while it is used up.
	Pacing bool `yaml:"pacing,omitempty" json:"pacing" jsonschema_description:"whether packets are paced at the window divided by the RTT without queues"`
	// BaseRTT is T. 0 means the RTT of the flow's path or, if that is not known, the lowest RTT
	// of an acknowledgement so far.
	BaseRTT units.Time `yaml:"base_rtt,omitempty" json:"base_rtt" jsonschema_description:"T, the RTT without queues; 0 means that of the flow's own path"`
	// MinRate is the minimum window, as the rate that it gives over T. The window is never less
	// than a packet; 0 sets no other minimum.
	MinRate units.Rate `yaml:"min_rate,omitempty" json:"min_rate" jsonschema_description:"minimum window, as a rate over the RTT without queues; unlimited leaves it at a packet"`
}

// Validate implements cc.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("DCTCP needs the rate of the port's link: its first window and pacing depend on it; give the link a rate"))
	}
	if c.G <= 0 {
		check.AddRange("g", c.G, "a share above 0%%, up to 100%%, such as 6.25%%")
	} else {
		check.CheckShare("g", c.G, 0, 1)
	}
	check.CheckShare("initial_alpha", c.InitialAlpha, 0, 1)
	if c.InitialWindow < 0 {
		check.AddRange("initial_window", c.InitialWindow, "an amount such as 10KB, or 0 for the bandwidth-delay product")
	}
	if c.AdditiveIncrease < 0 {
		check.AddRange("additive_increase", c.AdditiveIncrease, "an amount such as 1KB, or 0 for a packet")
	}
	check.CheckTime("base_rtt", c.BaseRTT, 0)
	if c.MinRate != 0 {
		check.CheckRate("min_rate", c.MinRate, line, "100Mbps")
	}
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"paper", "hpcc", "linux"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line rate
// line:
//
//   - paper: g of §3.4, and the rest as in TCP: slow start, no pacing. The first window
//     is that of RFC 6928, ten packets of 1460 bytes; the paper does not say.
//   - hpcc: "dctcp" in simulation/run.py of
//     github.com/alibaba-edu/High-Precision-Congestion-Control, as its authors model
//     DCTCP in a NIC: it begins at the line rate and is paced. The increase of 615 Mb/s
//     there is a packet of 1 KB an RTT of 13 us, and a packet here. The least rate is
//     1 Gb/s; below 25 Gb/s it is taken as a 25th of the line rate, since it would
//     otherwise leave nothing to control.
//   - linux: paper, with Linux's arithmetic.
func Preset(name string, line units.Rate) Config {
	c := Config{G: 0.0625, InitialAlpha: 1}
	switch name {
	case "paper":
		c.SlowStart, c.InitialWindow = true, 14600
	case "linux":
		c.SlowStart, c.InitialWindow, c.WholePackets = true, 14600, true
	case "hpcc":
		c.Pacing, c.MinRate = true, max(1, min(units.Gbps, line/25))
	default:
		panic("dctcp: unknown preset " + name)
	}
	return c
}

// Traits implements cc.Settings: marks come back in the acknowledgement of the marked packet.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{ECT: true, Marks: cc.AnswerEcho, AskEvery: 1, NeedsPath: true, NeedsAcks: true}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }
