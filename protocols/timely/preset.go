package timely

import "github.com/weftlab/weft/sim/units"

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
//     which is not scaled, packets paced. The minimum rate there is 1 Gb/s; below 25
//     Gb/s it is a 25th of the line rate here, since it would otherwise leave nothing
//     to control. (There increases below t_low may be hyper-active too, by five times
//     as here.)
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
	default:
		panic("timely: unknown preset " + name)
	}
	return c
}
