package dcqcn

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of both ends. Names are those of mlxconfig(8), the driver's
// /sys/class/net/DEV/ecn and its debugfs, which write them in capitals or with rp_ instead of
// rpg_. Values use the units of a lab file; mlxconfig has bare numbers: microseconds, Mb/s,
// percent, blocks of 64 bytes. Ranges follow NVIDIA's page "DCQCN CC Parameters", or are wider
// where a comment says so; times and rates are not bounded by the width of a register.
type Config struct {
	// DCETCPG is the weight of the old alpha when it is updated, in 1/1024:
	// 1-g of the paper. 0 to 1023.
	DCETCPG int `yaml:"dce_tcp_g,omitempty" json:"dce_tcp_g" jsonschema_description:"weight of the old alpha when it is updated, in 1/1024, 0 to 1023"`
	// DCETCPRTT is the time between updates of alpha. Above 0, up to 1 h.
	DCETCPRTT units.Time `yaml:"dce_tcp_rtt,omitempty" json:"dce_tcp_rtt" jsonschema_description:"time between updates of alpha"`
	// InitialAlphaValue is alpha at a flow's first CNP, in 1/1024. 1 to 1024,
	// one more than the register holds, because the paper begins with 1.
	InitialAlphaValue int `yaml:"initial_alpha_value,omitempty" json:"initial_alpha_value" jsonschema_description:"alpha at a flow's first CNP, in 1/1024, 1 to 1024"`

	// RateToSetOnFirstCNP becomes the current and target rate at the first CNP, which then
	// causes no other decrease. 0 ("unlimited" in a lab file) means 85% of the line rate. With
	// the line rate or more, the first CNP causes an ordinary decrease.
	RateToSetOnFirstCNP units.Rate `yaml:"rate_to_set_on_first_cnp,omitempty" json:"rate_to_set_on_first_cnp" jsonschema_description:"rate after the first CNP; unlimited means 85% of the line rate"`
	// RPGMinDecFac is the smallest share of the rate that a decrease leaves. 0% to 100%; 100%
	// prevents decreases.
	RPGMinDecFac units.Fraction `yaml:"rpg_min_dec_fac,omitempty" json:"rpg_min_dec_fac" jsonschema_description:"minimum share of the rate left by a decrease"`
	// RPGMinRate is the minimum rate. Above 0, up to the line rate.
	RPGMinRate units.Rate `yaml:"rpg_min_rate,omitempty" json:"rpg_min_rate" jsonschema_description:"minimum rate"`
	// RPGGD is the binary logarithm of the divisor of alpha, in 1/1024, in a decrease: the rate
	// is reduced by the share alpha·1024/2^rpg_gd. 0 to 15. 11 is alpha/2 as in the paper, 10
	// is alpha.
	RPGGD int `yaml:"rpg_gd,omitempty" json:"rpg_gd" jsonschema_description:"binary logarithm of the divisor of alpha in a decrease, with alpha in 1/1024; 0 to 15"`
	// RateReduceMonitorPeriod is the time between decreases: the rate is
	// decreased at the end of every such period that brought a CNP. 0, which a
	// NIC does not have, is the paper's reaction point: every CNP decreases
	// the rate and increases alpha at once, and alpha decreases after each
	// dce_tcp_rtt since the last CNP (§3.1, Eq. 1 and 2). Up to 1 h.
	RateReduceMonitorPeriod units.Time `yaml:"rate_reduce_monitor_period,omitempty" json:"rate_reduce_monitor_period" jsonschema_description:"time between decreases; 0 decreases at every CNP"`

	// ClampTgtRate means that every decrease sets the target to the rate before it. Otherwise
	// only a decrease that follows an increase by the byte counter does, so that consecutive
	// decreases recover to where the first began.
	ClampTgtRate bool `yaml:"clamp_tgt_rate,omitempty" json:"clamp_tgt_rate" jsonschema_description:"whether every decrease sets the target to the rate before it"`
	// ClampTgtRateAfterTimeInc means that an increase by the timer counts there
	// as well.
	ClampTgtRateAfterTimeInc bool `yaml:"clamp_tgt_rate_after_time_inc,omitempty" json:"clamp_tgt_rate_after_time_inc" jsonschema_description:"whether the first decrease after an increase by the timer does so"`
	// RPGTimeReset is the timer: the time between increases. Above 0, up to 1 h.
	RPGTimeReset units.Time `yaml:"rpg_time_reset,omitempty" json:"rpg_time_reset" jsonschema_description:"time between increases by the timer"`
	// RPGByteReset is the byte counter: the bytes sent between increases; 0 turns it off, and
	// the timer's stage alone decides. mlxconfig counts blocks of 64 bytes, up to 32767. The
	// counter counts all packets, retransmissions too, with the size that they occupy on the
	// wire, which is 24 bytes more than the frame; neither the paper nor NVIDIA says which
	// bytes are meant.
	RPGByteReset units.Bytes `yaml:"rpg_byte_reset,omitempty" json:"rpg_byte_reset" jsonschema_description:"bytes sent between increases by the byte counter; 0 turns it off"`
	// RPGThreshold is the number of fast recovery increases of a counter (F of the paper). 0 to
	// 31.
	RPGThreshold int `yaml:"rpg_threshold,omitempty" json:"rpg_threshold" jsonschema_description:"number of increases in fast recovery, 0 to 31"`
	// RPGMaxRate is the highest rate of a limited flow; 0, or anything above the line rate,
	// means the line rate.
	RPGMaxRate units.Rate `yaml:"rpg_max_rate,omitempty" json:"rpg_max_rate" jsonschema_description:"maximum rate of a limited flow; unlimited means the line rate"`
	// ReleaseAtMaxRate means that a flow whose rate has reached rpg_max_rate is no longer
	// limited and its next CNP is again a first one, as mlxconfig describes RPG_MAX_RATE. It is
	// not a key of mlxconfig; the paper and the simulators keep a flow's limit.
	ReleaseAtMaxRate bool `yaml:"release_at_max_rate,omitempty" json:"release_at_max_rate" jsonschema_description:"whether a flow that reaches rpg_max_rate is no longer limited"`
	// RPGAIRate is what an additive increase adds to the target. Above 0.
	RPGAIRate units.Rate `yaml:"rpg_ai_rate,omitempty" json:"rpg_ai_rate" jsonschema_description:"amount that an additive increase adds to the target rate"`
	// RPGHAIRate is what a hyper increase adds to the target. Above 0.
	RPGHAIRate units.Rate `yaml:"rpg_hai_rate,omitempty" json:"rpg_hai_rate" jsonschema_description:"amount that a hyper increase adds to the target rate"`

	// NPMinTimeBetweenCNPs is the minimum time between CNPs for a flow (N of the paper). 0,
	// which answers every marked packet, to 1 h.
	NPMinTimeBetweenCNPs units.Time `yaml:"np_min_time_between_cnps,omitempty" json:"np_min_time_between_cnps" jsonschema_description:"minimum time between CNPs for a flow; 0 answers every marked packet"`
	// NPCNPDSCP is the DSCP of CNPs. 0 to 63. (np_cnp_prio is for VLAN tags, which
	// packets of NICs do not have.)
	NPCNPDSCP int `yaml:"np_cnp_dscp,omitempty" json:"np_cnp_dscp" jsonschema_description:"DSCP of CNPs, 0 to 63"`
}

// Validate checks c for a port at line rate line. The error joins all problems: a
// registry.RangeError for each wrong parameter, and another error for a line without a rate.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("DCQCN needs the rate of the port's link: flows start at it and recover to it; give the link a rate"))
	}
	check.CheckNumber("dce_tcp_g", c.DCETCPG, 0, 1023)
	check.CheckTime("dce_tcp_rtt", c.DCETCPRTT, units.Picosecond)
	check.CheckNumber("initial_alpha_value", c.InitialAlphaValue, 1, 1024)
	if r := c.RateToSetOnFirstCNP; r < 0 || r > 0 && r < c.RPGMinRate {
		check.AddRange("rate_to_set_on_first_cnp", r, "at least rpg_min_rate (%v), or unlimited for 85%% of the line rate", c.RPGMinRate)
	}
	check.CheckShare("rpg_min_dec_fac", c.RPGMinDecFac, 0, 1)
	check.CheckRate("rpg_min_rate", c.RPGMinRate, line, "1Mbps")
	check.CheckNumber("rpg_gd", c.RPGGD, 0, 15)
	check.CheckTime("rate_reduce_monitor_period", c.RateReduceMonitorPeriod, 0)
	check.CheckTime("rpg_time_reset", c.RPGTimeReset, units.Picosecond)
	if c.RPGByteReset < 0 {
		check.AddRange("rpg_byte_reset", c.RPGByteReset, "an amount such as 10MB, or 0 for no byte counter")
	}
	check.CheckNumber("rpg_threshold", c.RPGThreshold, 0, 31)
	if r := c.RPGMaxRate; r < 0 || r > 0 && r < c.RPGMinRate {
		check.AddRange("rpg_max_rate", r, "at least rpg_min_rate (%v), or unlimited for the line rate", c.RPGMinRate)
	}
	check.CheckRate("rpg_ai_rate", c.RPGAIRate, 0, "5Mbps")
	check.CheckRate("rpg_hai_rate", c.RPGHAIRate, 0, "50Mbps")
	check.CheckTime("np_min_time_between_cnps", c.NPMinTimeBetweenCNPs, 0)
	check.CheckNumber("np_cnp_dscp", c.NPCNPDSCP, 0, 63)
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"connectx", "paper", "hpcc", "hpcc-paper", "rocc"}

// Preset returns the parameters of the preset name, one of Presets, for a port
// at line rate line:
//
//   - connectx: what mlxconfig shows on an untuned ConnectX-4 or later.
//     (Firmware differs in np_min_time_between_cnps: 0, 2 or 4 us. This is
//     4 us.) Increases are the same whatever the line rate.
//   - paper: the values of §5.2 and Fig. 14, tuned for 40 Gb/s, with F = 5, N =
//     50 us and K = 55 us of §3.1. It gives neither the hyper increase nor a
//     least rate: 200 Mb/s and 100 Mb/s are from the first author's
//     simulator, github.com/bobzhuyb/ns3-rdma.
//   - hpcc: the DCQCN of HPCC's comparisons, "dcqcn" in simulation/run.py of
//     github.com/alibaba-edu/High-Precision-Congestion-Control: increases scaled
//     by the line rate, no byte counter, every marked packet notified. The least
//     rate is 1 Gb/s there; below 25 Gb/s it is taken as a 25th of the line
//     rate, since it would otherwise leave nothing to control.
//   - hpcc-paper: "dcqcn_paper" in that file, which has timers like the paper's.
//   - rocc: the DCQCN of RoCC's comparisons, HostEtherQueue.cc under dcqcn in
//     github.com/danushkam/rocc: the paper's, but additive increases of 4 Mb/s
//     ("NOTE: Default value is 40"), after four increases of fast recovery. Alpha
//     falls each 53 us, which is CNP_INTERVAL and the one-way delay. The byte
//     counter is commented out there, so that hyper increases, 400 Mb/s, never
//     come; here it never expires. There is no least rate; here it is 1 Mb/s.
func Preset(name string, line units.Rate) Config {
	switch name {
	case "connectx":
		return connectxPreset()
	case "paper":
		return paperPreset(line)
	case "hpcc":
		return hpccPreset(line)
	case "hpcc-paper":
		c := hpccPreset(line)
		c.DCETCPRTT, c.RateReduceMonitorPeriod, c.RPGTimeReset = 50*units.Microsecond, 50*units.Microsecond, 55*units.Microsecond
		return c
	case "rocc":
		c := paperPreset(line)
		c.DCETCPRTT, c.RPGThreshold, c.RPGMinRate = 53*units.Microsecond, 4, min(line, units.Mbps)
		c.RPGAIRate, c.RPGHAIRate, c.RPGByteReset = 4*units.Mbps, 400*units.Mbps, never
		return c
	}
	panic("dcqcn: unknown preset " + name)
}

// never is a byte counter that no flow reaches.
const never = 1 << 50 * units.Byte

func connectxPreset() Config {
	return Config{
		DCETCPG: 1019, DCETCPRTT: units.Microsecond, InitialAlphaValue: 1023,
		RPGMinDecFac: 0.5, RPGMinRate: units.Mbps, RPGGD: 11, RateReduceMonitorPeriod: 4 * units.Microsecond,
		ClampTgtRateAfterTimeInc: true,
		RPGTimeReset:             300 * units.Microsecond, RPGByteReset: 32767 * 64, RPGThreshold: 1,
		RPGAIRate: 5 * units.Mbps, RPGHAIRate: 50 * units.Mbps, ReleaseAtMaxRate: true,
		NPMinTimeBetweenCNPs: 4 * units.Microsecond, NPCNPDSCP: 48,
	}
}

func paperPreset(line units.Rate) Config {
	return Config{
		DCETCPG: 1020, DCETCPRTT: 55 * units.Microsecond, InitialAlphaValue: 1024,
		RateToSetOnFirstCNP: line, RPGMinDecFac: 0.5, RPGMinRate: 100 * units.Mbps, RPGGD: 11,
		ClampTgtRate: true,
		RPGTimeReset: 55 * units.Microsecond, RPGByteReset: 10 * units.MB, RPGThreshold: 5,
		RPGAIRate: 40 * units.Mbps, RPGHAIRate: 200 * units.Mbps,
		NPMinTimeBetweenCNPs: 50 * units.Microsecond, NPCNPDSCP: 48,
	}
}

func hpccPreset(line units.Rate) Config {
	return Config{
		DCETCPG: 1020, DCETCPRTT: units.Microsecond, InitialAlphaValue: 1024,
		RateToSetOnFirstCNP: line, RPGMinDecFac: 0.5, RPGMinRate: max(1, min(units.Gbps, line/25)), RPGGD: 11,
		RateReduceMonitorPeriod:  4 * units.Microsecond,
		ClampTgtRateAfterTimeInc: true,
		RPGTimeReset:             300 * units.Microsecond, RPGThreshold: 1,
		RPGAIRate: max(1, line/5000), RPGHAIRate: max(1, line/500),
		NPCNPDSCP: 48,
	}
}

// Traits implements cc.Settings: marks are answered by CNPs.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{ECT: true, Marks: cc.AnswerCNP, CNPGap: c.NPMinTimeBetweenCNPs, CNPDSCP: uint8(c.NPCNPDSCP)}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f.Line) }
