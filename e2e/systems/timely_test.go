package systems

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
)

// timelyStar is hosts at a switch, all links at the 10 Gb/s that TIMELY's parameters
// are for. %s is a preset.
const timelyStar = `
duration: 1s
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: {timely: {preset: %s}}}}
    switch:
      buffer: {size: 12MB, alpha: 1}
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {}}
        default: {weight: 1}
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}
workload:
  - {write: {name: first, from: h1, to: h3, size: 10MB, count: unlimited}}
  - {write: {name: second, from: h2, to: h3, size: 10MB, count: unlimited, at: 5ms}}
`

// TestTIMELY_TwoFlowsShareAtTheExpectedRTT: one flow joins another that has the link. Patched
// TIMELY reaches equal shares of a full link, with a queue at which RTTs are where Zhu et al.,
// CoNEXT 2016, Theorem 5 has them, T_low (1 + N delta / (beta C)): 62.5 us. TIMELY with bursts
// of 16 KB shares about equally, and keeps RTTs far below.
func TestTIMELY_TwoFlowsShareAtTheExpectedRTT(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const line = 10. * 1024 / 1106 // Gb/s of payload in packets of 1024 B
	for _, c := range []struct {
		preset         string
		full, fairness float64 // least share of the link, and Jain's index
		low, high      units.Time
	}{{"patched", 0.99, 0.999, 60 * us, 65 * us}, {"paper", 0.8, 0.95, 4 * us, 50 * us}} {
		f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(timelyStar, c.preset)))
		runTo(t, f, 150*ms)
		g := goodputs(t, f, 200*ms)
		q := portNamed(t, f, "s1:h3")
		n, _ := pauseTotals(f)
		t.Logf("%s: %.2f and %.2f Gb/s of %.2f; queue mean %.1f KB, max %.1f KB", c.preset, g["first"], g["second"], line, q.QueueMean/1e3, float64(q.QueueMax)/1e3)
		if sum := g["first"] + g["second"]; sum < c.full*line || fairness.Jain(g["first"], g["second"]) < c.fairness {
			t.Errorf("%s: %.2f and %.2f Gb/s of %.2f", c.preset, g["first"], g["second"], line)
		}
		if n > 0 || f.Accounts().Dropped > 0 {
			t.Errorf("%s: %d pauses, %d dropped", c.preset, n, f.Accounts().Dropped)
		}
		for _, host := range []string{"h1", "h2"} {
			pairs, err := f.QPsOf(host)
			if err != nil || len(pairs) != 1 {
				t.Fatalf("%d queue pairs, %v", len(pairs), err)
			}
			rtt := units.Time(byName(pairs[0].Gauges)["rtt"] * float64(units.Second))
			t.Logf("%s: RTT %v", host, rtt)
			if rtt < c.low || rtt > c.high {
				t.Errorf("%s: %s sees an RTT of %v, want %v to %v", c.preset, host, rtt, c.low, c.high)
			}
		}
	}
}
