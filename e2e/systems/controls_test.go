package systems

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/units"
)

// TestDCTCP_KeepsTheQueueAtK: four DCTCP flows fill the link and keep its queue near K. Marks
// come back in acknowledgements, not as CNPs.
func TestDCTCP_KeepsTheQueueAtK(t *testing.T) {
	for _, preset := range []string{"paper", "hpcc"} {
		f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(`
duration: 30ms
topology:
  kinds:
    host: {nic: {cc: {dctcp: {preset: %s}}}}
    switch: {queue: {limit: 1MB, mark: {step: {k: 40KB}}}}
  generate: {star: {hosts: 5, rate: 10Gbps, delay: 5us}}
workload:
  - {incast: {to: h5, from: "h[1-4]", size: 100KB, count: unlimited, depth: 4}}
`, preset)))
		s1, _ := f.Plan.Node("s1")
		runTo(t, f, 10*units.Millisecond)
		port := f.Port(s1, 4)
		before := port.Counters(f.Now())
		runTo(t, f, 30*units.Millisecond)
		now := port.Counters(f.Now())
		sent := float64(now.TxBytes-before.TxBytes) + 24*float64(now.TxPackets-before.TxPackets)
		mean, used := now.MeanQueue(before), sent*8/0.02/10e9
		t.Logf("%s: queue %.0f B, at most %v, %.3f of the link", preset, mean, now.MaxQueue, used)
		if mean < 25_000 || mean > 45_000 || now.DroppedPackets() > 0 || used < 0.97 {
			t.Errorf("%s: queue %.0f B, %d drops, %.3f of the link", preset, mean, now.DroppedPackets(), used)
		}
		pairs, err := f.QPsOf("")
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range pairs {
			if q.CNPsSent != 0 || q.CNPsHandled != 0 {
				t.Errorf("%d CNPs sent, %d handled", q.CNPsSent, q.CNPsHandled)
			}
			if a := byName(q.Gauges)["alpha"]; q.NIC != "h5:eth0" && (a <= 0 || a >= 1 || byName(q.Gauges)["cwnd"] != float64(q.Window)) {
				t.Errorf("alpha %v, cwnd %v, window %v", a, byName(q.Gauges)["cwnd"], q.Window)
			}
		}
	}
}

// TestHPCC_KeepsTheLinkAtEta: once the first burst has left, HPCC flows use η of the busiest
// link on their path, with next to no queue, whichever hop that link is.
func TestHPCC_KeepsTheLinkAtEta(t *testing.T) {
	for _, c := range []struct {
		name, generate, from, to string
		sw                       string
		port                     int
		hops                     float64
	}{
		{"the last link", "star: {hosts: 5, rate: 40Gbps, delay: 3us}", `"h[1-4]"`, "h5", "s1", 4, 1},
		{"a link between switches", "dumbbell: {left: 4, right: 4, rate: 40Gbps, delay: 3us, bottleneck: {rate: 40Gbps}}", `"h[1-4]"`, `"h[5-8]"`, "s1", 4, 2},
	} {
		for _, preset := range []string{"paper", "hpcc"} {
			f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(`
duration: 20ms
topology:
  kinds:
    host: {nic: {cc: {hpcc: {preset: %s}}}}
  generate: {%s}
workload:
  - {write: {from: %s, to: %s, size: 100KB, count: unlimited, depth: 4}}
`, preset, c.generate, c.from, c.to)))
			n, _ := f.Plan.Node(c.sw)
			port := f.Port(n, c.port)
			runTo(t, f, 5*units.Millisecond)
			before := port.Counters(f.Now())
			runTo(t, f, 20*units.Millisecond)
			now := port.Counters(f.Now())
			sent := float64(now.TxBytes-before.TxBytes) + 24*float64(now.TxPackets-before.TxPackets)
			mean, used := now.MeanQueue(before), sent*8/0.015/40e9
			t.Logf("%s, %s: queue %.0f B, at most %v since the start, %.4f of the link", c.name, preset, mean, now.MaxQueue, used)
			if mean > 3000 || used < 0.93 || used > 0.97 {
				t.Errorf("%s, %s: queue %.0f B, %.4f of the link", c.name, preset, mean, used)
			}
			pairs, err := f.QPsOf("")
			if err != nil {
				t.Fatal(err)
			}
			senders := 0
			for _, q := range pairs {
				if hops := byName(q.Gauges)["hops"]; hops == c.hops {
					senders++
					if u := byName(q.Gauges)["u"]; u < 0.8 || u > 1.2 || q.Rate >= q.LineRate {
						t.Errorf("%s, %s: U is %v, the rate %v", c.name, preset, u, q.Rate)
					}
				}
			}
			if senders < 4 {
				t.Errorf("%s, %s: %d queue pairs heard of %v hops", c.name, preset, senders, c.hops)
			}
		}
	}
}
