package rogue

import (
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of a NIC's layer.
type Config struct {
	// Segment is the size of a batch, for which the NIC signals once, and the largest piece of
	// a WRITE or READ (§3.1). From 1 KB to 1 GB.
	Segment units.Bytes `yaml:"segment,omitempty" json:"segment" jsonschema_description:"size of a batch, for which the NIC signals once, and largest piece of a WRITE or READ; default 64KB, and 256KB from 100 Gb/s on"`
	// Queued is the minimum number of posted batches while there is data, whatever the window,
	// so that the NIC does not starve (§3.1). 1 to 64.
	Queued int `yaml:"queued,omitempty" json:"queued" jsonschema_description:"minimum number of posted batches, regardless of the window"`
	// Initial is the window of a new connection, in packets of the path MTU (§3.3). 1 to 1000.
	Initial int `yaml:"initial,omitempty" json:"initial" jsonschema_description:"congestion window of a new connection, in packets"`
	// Alpha and Beta are the bounds of Vegas, in packets: below alpha the window grows by one
	// packet, above beta it shrinks by one. 0 to 1000, alpha below beta.
	Alpha float64 `yaml:"alpha,omitempty" json:"alpha" jsonschema_description:"packets queued below which the window grows"`
	Beta  float64 `yaml:"beta,omitempty" json:"beta" jsonschema_description:"packets queued above which the window shrinks"`
	// Gamma is the number of queued packets above which slow start ends, as in Vegas.
	Gamma float64 `yaml:"gamma,omitempty" json:"gamma" jsonschema_description:"packets queued above which slow start ends"`
	// RateStep bounds the change of the rate limit (§3.3). 0 means no bound.
	RateStep units.Rate `yaml:"rate-step,omitempty" json:"rate_step" jsonschema_description:"maximum change of the rate limit at once; 0 means no bound"`
	// Hold is the amount of data after a change of the rate limit whose round-trip times do
	// not count (§3.3).
	Hold units.Bytes `yaml:"hold,omitempty" json:"hold" jsonschema_description:"amount of data after a change of the rate limit whose round-trip times do not count"`
	// BaseRTT is the lower bound of RTTs (§3.3, footnote 1). 0 means the RTT of the idle path;
	// if that is not known, there is no bound.
	BaseRTT units.Time `yaml:"base-rtt,omitempty" json:"base_rtt" jsonschema_description:"lower bound of round-trip times; 0 means that of the idle path"`
	// FixedBase means that the base RTT is BaseRTT, or the RTT of the idle path, instead of
	// the lowest measured RTT: a flow that starts while there is a queue never measures it.
	FixedBase bool `yaml:"fixed-base,omitempty" json:"fixed_base" jsonschema_description:"whether base-rtt is the base RTT, instead of the lowest measured one; default false"`
	// Noise bounds the random time, uniform from 0, that is added to each sample (Fig. 8).
	Noise units.Time `yaml:"noise,omitempty" json:"noise" jsonschema_description:"random time, from 0 up to this, that is added to each round-trip time"`
	// Limiter enables the NIC's rate limiter (§3.3).
	Limiter bool `yaml:"limiter,omitempty" json:"limiter" jsonschema_description:"whether the rate limiter of the NIC paces packets; default true"`
	// CutImmediate means that WRITEs with immediate data are cut like others (§4). The peer's
	// completion then has the length of the last segment instead of the whole.
	CutImmediate bool `yaml:"cut-immediate,omitempty" json:"cut_immediate" jsonschema_description:"whether WRITEs with immediate data are cut like others, so that the peer's completion has only the length of the last segment; default true"`
	// Retries is the number of times that the NIC repeats a verb before the layer takes over
	// (§3.5). 0 to 7.
	Retries int `yaml:"retries,omitempty" json:"retries" jsonschema_description:"retries of a verb by the NIC before the shadow queue pair takes over"`
	// EchoTimeout is the minimum wait for the echo of a batch over UC (§3.4); the wait is also
	// at least two RTTs of the last batch. At least 1 us.
	EchoTimeout units.Time `yaml:"echo-timeout,omitempty" json:"echo_timeout" jsonschema_description:"time without an echo after which a batch over UC is lost and slow start begins; at least two round-trip times"`
	// Failover enables shadow queue pairs (§3.5).
	Failover bool `yaml:"failover,omitempty" json:"failover" jsonschema_description:"whether a shadow queue pair takes over when the NIC gives up; default true"`
}

// fast is the line rate from which batches are larger (§3.1 has 10 and 100 Gb/s).
const fast = 100 * units.Gbps

// Default returns the paper's parameters for a NIC at line rate line; 0 means unlimited.
func Default(line units.Rate) *Config {
	c := &Config{
		Segment: 64 << 10, Queued: 2, Initial: 10, Alpha: 2, Beta: 4, Gamma: 1, RateStep: units.Gbps, Hold: 160_000,
		Limiter: true, CutImmediate: true, Retries: 1, EchoTimeout: 4 * units.Millisecond, Failover: true,
	}
	if line >= fast {
		c.Segment = 256 << 10
	}
	return c
}

// Validate checks the parameters for a line. The error joins a registry.RangeError for each
// invalid one.
func (c *Config) Validate(units.Rate) error {
	var check registry.Check
	if c.Segment < 1<<10 || c.Segment > 1<<30 {
		check.AddRange("segment", c.Segment, "an amount from 1KB to 1GB, such as 64KB")
	}
	check.CheckNumber("queued", c.Queued, 1, 64)
	check.CheckNumber("initial", c.Initial, 1, maxPackets)
	checkPackets(&check, "alpha", c.Alpha, 0)
	checkPackets(&check, "beta", c.Beta, c.Alpha)
	checkPackets(&check, "gamma", c.Gamma, 0)
	if c.RateStep < 0 {
		check.AddRange("rate-step", int64(c.RateStep), "a rate such as 1Gbps, or 0 for no bound")
	}
	if c.Hold < 0 {
		check.AddRange("hold", c.Hold, "an amount such as 160KB, or 0")
	}
	check.CheckTime("base-rtt", c.BaseRTT, 0)
	check.CheckTime("noise", c.Noise, 0)
	check.CheckTime("echo-timeout", c.EchoTimeout, units.Microsecond)
	check.CheckNumber("retries", c.Retries, 0, 7)
	return check.Err()
}

// maxPackets bounds parameters in packets.
const maxPackets = 1000

func checkPackets(check *registry.Check, key string, v, low float64) {
	if !(v >= low && v <= maxPackets) {
		check.AddRange(key, v, "a number of packets from %v to %d", low, maxPackets)
	}
}
