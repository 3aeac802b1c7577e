package timely

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters under the names of the two papers.
type Config struct {
	// Alpha is the weight of a new difference of RTTs in rtt_diff, their moving
	// average. 0 to 1.
	Alpha units.Fraction `yaml:"alpha,omitempty" json:"alpha" jsonschema_description:"weight of a new difference of RTTs in their moving average"`
	// Beta is the multiplicative decrement factor. 0 to 1.
	Beta units.Fraction `yaml:"beta,omitempty" json:"beta" jsonschema_description:"multiplicative decrement factor"`
	// Delta is the additive increment. Above 0.
	Delta units.Rate `yaml:"delta,omitempty" json:"delta" jsonschema_description:"additive increment"`
	// TLow is the RTT below which the rate is increased whatever the gradient. 0 to 1 h.
	TLow units.Time `yaml:"t_low,omitempty" json:"t_low" jsonschema_description:"RTT below which the rate is increased regardless of the gradient"`
	// THigh is the RTT above which the rate is decreased. From t_low to 1 h.
	THigh units.Time `yaml:"t_high,omitempty" json:"t_high" jsonschema_description:"RTT above which the rate is decreased regardless of the gradient"`
	// MinRTT is the divisor that turns differences of RTTs into a gradient. 0 means the
	// RTT of the flow's path without queues, or the lowest measured RTT if that is not
	// known. Up to 1 h.
	MinRTT units.Time `yaml:"min_rtt,omitempty" json:"min_rtt" jsonschema_description:"divisor of RTT differences; 0 means the RTT of the idle path"`
	// HAIAfter is the number of consecutive completion events without a rising RTT after
	// which the increase is hyper-active (HAI), and HAITimes the number of deltas of such
	// an increase. They only apply where the gradient decides, and not with Patched. At
	// least 1.
	HAIAfter int `yaml:"hai_after,omitempty" json:"hai_after" jsonschema_description:"completion events without a rising RTT until the increase is hyper-active, 1 to 1000"`
	HAITimes int `yaml:"hai_times,omitempty" json:"hai_times" jsonschema_description:"increments of a hyper-active increase, 1 to 1000"`
	// HAIAlways means that increases below TLow are hyper-active too, and that HAIAfter
	// counts consecutive increases. Not with Patched.
	HAIAlways bool `yaml:"hai_always,omitempty" json:"hai_always" jsonschema_description:"whether increases below t_low count and may be hyper-active too"`
	// Seg is the size of a segment: a completion event occurs for every Seg bytes of
	// acknowledged payload. 0 means once per round trip, with the first packet sent after
	// the previous event.
	Seg units.Bytes `yaml:"seg,omitempty" json:"seg" jsonschema_description:"payload between completion events; 0 means one per round trip"`
	// Burst is the amount of data that leaves at line rate before the gap that maintains
	// the rate; 0 paces every packet.
	Burst units.Bytes `yaml:"burst,omitempty" json:"burst" jsonschema_description:"data sent at line rate before a gap; 0 paces every packet"`
	// ScaleUpdates means that an update less than MinRTT after the previous one has
	// proportionally less effect (§5 of the paper; min(1, interval/minRTT) as in eRPC).
	ScaleUpdates bool `yaml:"scale_updates,omitempty" json:"scale_updates" jsonschema_description:"whether updates within min_rtt of the previous one have proportionally less effect"`
	// MaxDecrease is the largest share of the rate that an update takes. 0% to 100%.
	MaxDecrease units.Fraction `yaml:"max_decrease,omitempty" json:"max_decrease" jsonschema_description:"maximum share of the rate that an update takes"`
	// InitialRate is the rate of a new flow; 0 ("unlimited" in a lab file) means the line
	// rate.
	InitialRate units.Rate `yaml:"initial_rate,omitempty" json:"initial_rate" jsonschema_description:"rate of a new flow; unlimited means the line rate"`
	// MinRate is the minimum rate. Above 0, up to the line rate.
	MinRate units.Rate `yaml:"min_rate,omitempty" json:"min_rate" jsonschema_description:"minimum rate"`
	// Patched selects Algorithm 2 of Zhu et al., CoNEXT 2016: between t_low and t_high
	// the gradient weighs an increase by Delta against a decrease in proportion to how
	// far the RTT is above RTTRef. An RTTRef of 0 means t_low, as there.
	Patched bool       `yaml:"patched,omitempty" json:"patched" jsonschema_description:"whether the absolute RTT decides the decrease (Zhu et al., CoNEXT 2016, Algorithm 2)"`
	RTTRef  units.Time `yaml:"rtt_ref,omitempty" json:"rtt_ref" jsonschema_description:"RTT that patched TIMELY steers towards; 0 means t_low"`
}

// refRTT returns RTT_ref of Algorithm 2.
func (c *Config) refRTT() float64 {
	if c.RTTRef > 0 {
		return float64(c.RTTRef)
	}
	return float64(c.TLow)
}

// maxCount bounds the counts of completion events.
const maxCount = 1000

// Validate checks c for a port at line rate line. The error joins a registry.RangeError
// for each invalid parameter, and another error for a line without a rate.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("TIMELY needs the rate of the port's link: it is the maximum rate of a flow; give the link a rate"))
	}
	check.CheckShare("alpha", c.Alpha, 0, 1)
	check.CheckShare("beta", c.Beta, 0, 1)
	check.CheckRate("delta", c.Delta, 0, "10Mbps")
	check.CheckTime("t_low", c.TLow, 0)
	check.CheckTime("t_high", c.THigh, c.TLow)
	check.CheckTime("min_rtt", c.MinRTT, 0)
	check.CheckNumber("hai_after", c.HAIAfter, 1, maxCount)
	check.CheckNumber("hai_times", c.HAITimes, 1, maxCount)
	if c.Seg < 0 {
		check.AddRange("seg", c.Seg, "an amount such as 64KB, or 0 for one update per round trip")
	}
	if c.Burst < 0 {
		check.AddRange("burst", c.Burst, "an amount such as 64KB, or 0 to pace every packet")
	}
	check.CheckShare("max_decrease", c.MaxDecrease, 0, 1)
	check.CheckRate("min_rate", c.MinRate, line, "10Mbps")
	if r := c.InitialRate; r < 0 || r > 0 && r < c.MinRate {
		check.AddRange("initial_rate", r, "at least min_rate (%v), or unlimited for the line rate", c.MinRate)
	}
	if c.HAIAlways && c.Patched {
		check.AddRange("hai_always", c.HAIAlways, "it without patched: true, which has no hyper-active increases")
	}
	check.CheckTime("rtt_ref", c.RTTRef, 0)
	switch {
	case c.RTTRef > 0 && !c.Patched:
		check.AddRange("rtt_ref", c.RTTRef, "it with patched: true only")
	case c.Patched && c.RTTRef == 0 && c.TLow == 0:
		check.AddRange("rtt_ref", c.RTTRef, "a time above 0, because its default, t_low, is 0")
	}
	return check.Err()
}

// largestMTU is the largest path MTU.
const largestMTU = 4096

// Traits implements cc.Settings. It asks for acknowledgements often enough for one per
// segment.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{
		Burst: c.Burst, NeedsAcks: true, NeedsPath: c.MinRTT == 0,
		AskEvery: int(min(max(c.Seg/largestMTU, 1), 64)),
	}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"paper", "patched", "hpcc"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line
// rate line:
//
//   - paper: the values that Zhu et al. (CoNEXT 2016, §4.1) cite as the TIMELY paper's
//     recommendation for 10 Gb/s: beta 0.8, alpha 0.875, t_low 50 us, t_high 500 us,
//     min_rtt 20 us, delta 10 Mb/s. HAI by 5 after 5 completion events is from
//     Algorithm 1. Of the paper's segments of 16 to 64 KB, which leave as bursts, 16
//     KB is the default of github.com/bobzhuyb/ns3-rdma, branch timely; Zhu et al.
//     (Fig. 10) show how badly 64 KB do. So is a minimum rate of a hundredth of the
//     line rate. Scaled updates, which take no more than half of the rate, are from
//     eRPC's copy of the authors' code (src/cc/timely.h); Algorithm 1 has neither. A
//     flow starts at line rate: the paper's C/(N+1) needs the number of the sender's
//     other flows.
//   - patched: Zhu et al. §4.3: as paper, with beta 0.008 and each packet paced, as in
//     their Fig. 8 and 12.
//   - hpcc: TIMELY as in HPCC's comparisons, "timely" in simulation/run.py of
//     github.com/alibaba-edu/High-Precision-Congestion-Control and the constants of
//     its rdma-hw.cc: increments scaled by the line rate, one update per round trip,
//     which is not scaled, packets paced. After five increases in a row, whatever
//     caused them, further ones are hyper-active. The minimum rate there is 1 Gb/s;
//     below 25 Gb/s it is a 25th of the line rate here, since it would otherwise leave
//     nothing to control.
func Preset(name string, line units.Rate) Config {
	c := Config{
		Alpha: 0.875, Beta: 0.8, Delta: 10 * units.Mbps,
		TLow: 50 * units.Microsecond, THigh: 500 * units.Microsecond, MinRTT: 20 * units.Microsecond,
		HAIAfter: 5, HAITimes: 5,
		Seg: 16 * units.KB, Burst: 16 * units.KB,
		ScaleUpdates: true, MaxDecrease: 0.5, MinRate: max(1, line/100),
	}
	switch name {
	case "paper":
	case "patched":
		c.Beta, c.Burst, c.Patched = 0.008, 0, true
	case "hpcc":
		c.Delta, c.MinRate = max(1, line/1000), max(1, min(units.Gbps, line/25))
		c.Seg, c.Burst, c.ScaleUpdates, c.MaxDecrease = 0, 0, false, 1
		c.HAIAfter, c.HAIAlways = 6, true
	default:
		panic("timely: unknown preset " + name)
	}
	return c
}
