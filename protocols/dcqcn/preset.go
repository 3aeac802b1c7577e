package dcqcn

import "github.com/weftlab/weft/sim/units"

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"connectx", "paper", "hpcc", "hpcc-paper"}

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
	}
	panic("dcqcn: unknown preset " + name)
}

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
