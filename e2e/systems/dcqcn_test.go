package systems

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
)

// dcqcnStar is hosts at a switch with the marking of Zhu et al., SIGCOMM 2015, Fig. 14.
const dcqcnStar = `
duration: 1s
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: {dcqcn: {preset: %s}}}}
    switch:
      buffer: {size: 12MB, alpha: 1}
      classes:
        cnp: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {}, mark: {red: {kmin: 5KB, kmax: 200KB, pmax: 1%%}}}
        default: {weight: 1}
  generate: {star: {hosts: %d, rate: 40Gbps, delay: 1us}}
workload:
%s`

// lineGoodput is the payload rate of 1024 B packets over 40 Gb/s, in Gb/s.
const lineGoodput = 40. * 1024 / 1106

// TestDCQCN_TwoFlowsConvergeToEqualShares: a flow has the link when another joins, as in the
// two-flow experiments of Zhu et al., SIGCOMM 2015, §5 (Fig. 10 to 13). With the paper's
// parameters both react to the queue that builds up before their first cuts by falling far
// below their share, and come back to it by additive increase: 40 Mb/s each 55 us, from 5 to
// 18 Gb/s in 20 ms. connectx cuts less and recovers sooner, but it increases by 5 Mb/s each
// 300 us, so the shares after the first milliseconds converge slowly.
func TestDCQCN_TwoFlowsConvergeToEqualShares(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, c := range []struct {
		preset     string
		full, even units.Time // since the second flow began: when the link is full again, and the shares are within 20%
		fairness   float64    // of both goodputs afterwards
	}{{"paper", 30 * ms, 5 * ms, 0.99}, {"connectx", 10 * ms, 5 * ms, 0.99}} {
		f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(dcqcnStar, c.preset, 3, `
  - {write: {name: first, from: h1, to: h3, size: 10MB, count: unlimited}}
  - {write: {name: second, from: h2, to: h3, size: 10MB, count: unlimited, at: 5ms}}
`)))
		runTo(t, f, 5*ms)
		var full, even units.Time // the ends of the first window that was full, and of the last that was not even
		var log strings.Builder
		var first, second float64
		last := 60 * ms
		if testing.Short() {
			last = 40 * ms
		}
		for at := ms; at <= last; at += ms {
			g := goodputs(t, f, 5*ms+at)
			if full == 0 && g["first"]+g["second"] > 0.95*lineGoodput {
				full = at
			}
			if math.Abs(g["first"]-g["second"]) > 0.2*(g["first"]+g["second"]) {
				even = at
			}
			if at > c.even {
				first, second = first+g["first"], second+g["second"]
			}
			fmt.Fprintf(&log, " %.1f/%.1f", g["first"], g["second"])
		}
		q := portNamed(t, f, "s1:h3")
		n, _ := pauseTotals(f)
		t.Logf("%s: the link is full after %v, shares are even after %v, then Jain %.4f; queue mean %.0f KB, max %.0f KB; Gb/s of each by ms:%s",
			c.preset, full, even, fairness.Jain(first, second), q.QueueMean/1e3, float64(q.QueueMax)/1e3, log.String())
		if full == 0 || full > c.full || even > c.even || fairness.Jain(first, second) < c.fairness {
			t.Errorf("%s: the link is full after %v, want %v; even shares after %v, want %v; Jain %.4f, want %.4f",
				c.preset, full, c.full, even, c.even, fairness.Jain(first, second), c.fairness)
		}
		// The first burst: two senders at the line rate until the first cuts.
		if q.QueueMax > units.MB || q.QueueMean > 100e3 || n > 0 || f.Accounts().Dropped > 0 {
			t.Errorf("%s: queue %v at most and %.0f on average, %d pauses", c.preset, q.QueueMax, q.QueueMean, n)
		}
	}
}

// TestDCQCN_FlowsThatComeAndGoShareEqually is the check of DCQCN in Taheri et al., CoNEXT
// 2020, Fig. 19a, with steps of 50 ms instead of 1 s: as the number of flows at 40 Gb/s goes
// from one to four and back to one, they have equal shares: 40, 20, 13.3 and 10 Gb/s.
func TestDCQCN_FlowsThatComeAndGoShareEqually(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("350 ms at 40 Gb/s")
	}
	const step = 50 * ms
	var work strings.Builder
	for i := range 4 {
		// The last flow to join leaves first.
		fmt.Fprintf(&work, "  - {write: {from: h%d, to: h5, size: 100KB, count: unlimited, at: %v, for: %v}}\n", i+1, units.Time(i)*step, units.Time(7-2*i)*step)
	}
	f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(dcqcnStar, "paper", 5, work.String())))
	for i, n := range []int{1, 2, 3, 4, 3, 2, 1} {
		runTo(t, f, units.Time(i)*step+step*7/10)
		g := goodputs(t, f, units.Time(i+1)*step)
		var rates []float64
		sum := 0.
		for j := range n {
			rates = append(rates, g[fmt.Sprintf("h%d-h5", j+1)])
			sum += rates[j]
		}
		t.Logf("%d flows: %.2f Gb/s of %.2f, Jain %.4f", n, rates, lineGoodput, fairness.Jain(rates...))
		if sum < 0.96*lineGoodput || fairness.Jain(rates...) < 0.97 {
			t.Errorf("%d flows: %.2f Gb/s of %.2f, Jain %.4f", n, rates, lineGoodput, fairness.Jain(rates...))
		}
	}
}

// TestDCQCN_IncastsEndUpWithShortQueues: K senders to one, once they have recovered from their
// first burst, fill the link and keep a queue of the order of Kmax/2: 2 to 16 senders, 40
// Gb/s. Taheri et al., CoNEXT 2020, Fig. 11, see it vary around 100 KB for 10.
func TestDCQCN_IncastsEndUpWithShortQueues(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	senders := []int{2, 4, 10, 16}
	if testing.Short() {
		senders = senders[2:3]
	}
	for _, k := range senders {
		var from []string
		for i := range k {
			from = append(from, fmt.Sprintf("h%d", i+2))
		}
		f := fabric.New(fabrictest.Parse(t, fmt.Sprintf(dcqcnStar, "paper", k+1, fmt.Sprintf("  - {incast: {to: h1, from: [%s], size: 10MB, count: unlimited}}\n", strings.Join(from, ", ")))))
		runTo(t, f, 30*ms)
		before := f.Transfers()
		var queues []float64
		mean := 0.
		for at := 30*ms + 20*us; at <= 50*ms; at += 20 * us {
			runTo(t, f, at)
			q := float64(portNamed(t, f, "s1:h1").QueueBytes) / 1e3
			queues = append(queues, q)
			mean += q
		}
		mean /= float64(len(queues))
		slices.Sort(queues)
		var rates []float64
		sum := 0.
		for i, r := range f.Transfers() {
			rates = append(rates, 8e-9*float64(r.Received-before[i].Received)/0.02)
			sum += rates[i]
		}
		n, _ := pauseTotals(f)
		t.Logf("%d senders: %.2f Gb/s of %.2f, Jain %.4f; queue mean %.0f KB, p99 %.0f KB", k, sum, lineGoodput, fairness.Jain(rates...), mean, queues[len(queues)*99/100])
		if sum < 0.95*lineGoodput || fairness.Jain(rates...) < 0.95 || mean < 10 || mean > 110 || queues[len(queues)*99/100] > 300 || n > 0 || f.Accounts().Dropped > 0 {
			t.Errorf("%d senders: %.2f Gb/s, Jain %.4f, queue mean %.0f KB, %d pauses, %d drops", k, sum, fairness.Jain(rates...), mean, n, f.Accounts().Dropped)
		}
	}
}

// runPaperLab runs a lab of the DCQCN paper and returns the goodputs between from
// and until, and the number of pauses.
func runPaperLab(t *testing.T, file string, seed int, from, until units.Time, changes ...string) (g map[string]float64, n uint64) {
	t.Helper()
	f := fabric.New(fabrictest.ParseFile(t, "papers/dcqcn/labs/"+file, seed, changes...))
	runTo(t, f, from)
	g = goodputs(t, f, until)
	if d := f.Accounts().Dropped; d > 0 {
		t.Errorf("%s, seed %d: %d packets dropped", file, seed, d)
	}
	n, _ = pauseTotals(f)
	return g, n
}

// paperSeeds returns the runs of the paper's figures: each maps flows to paths differently.
func paperSeeds(n int) []int {
	if testing.Short() {
		n = 1
	}
	return []int{6, 1, 3, 4, 8, 9}[:n]
}

// TestPFC_IsUnfairAndDCQCNIsNot is Fig. 3 of Zhu et al., SIGCOMM 2015, and Fig. 8, which is
// the same with DCQCN.
func TestPFC_IsUnfairAndDCQCNIsNot(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	var minRate, maxRate float64 = math.Inf(1), 0
	for _, seed := range paperSeeds(6) {
		g, n := runPaperLab(t, "fig3.yaml", seed, 20*ms, 30*ms)
		far, fair := []float64{g["H1"], g["H2"], g["H3"]}, fairness.Jain(g["H1"], g["H2"], g["H3"], g["H4"])
		t.Logf("PFC, seed %d: %.1f and %.1f Gb/s, Jain %.3f", seed, far, g["H4"], fair)
		if slices.Max(far) > 1.02*g["H4"] || fair > 0.92 || n == 0 {
			t.Errorf("PFC, seed %d: H1 to H3 have %.1f and H4 %.1f Gb/s, Jain %.3f, %d pauses", seed, far, g["H4"], fair, n)
		}
		minRate, maxRate = min(minRate, g["H4"]), max(maxRate, g["H4"])
	}
	// T4's bottleneck has three input ports, or two if all others use the same one.
	if !testing.Short() && (math.Abs(minRate-lineGoodput/3) > 0.5 || math.Abs(maxRate-lineGoodput/2) > 0.5) {
		t.Errorf("H4 has %.1f to %.1f Gb/s", minRate, maxRate)
	}
	for _, seed := range paperSeeds(2) {
		g, n := runPaperLab(t, "fig8.yaml", seed, 30*ms, 50*ms)
		all := []float64{g["H1"], g["H2"], g["H3"], g["H4"]}
		t.Logf("DCQCN, seed %d: %.1f Gb/s, Jain %.3f", seed, all, fairness.Jain(all...))
		if fairness.Jain(all...) < 0.97 || all[0]+all[1]+all[2]+all[3] < 0.95*lineGoodput || n > 0 {
			t.Errorf("DCQCN, seed %d: %.1f Gb/s, Jain %.3f, %d pauses", seed, all, fairness.Jain(all...), n)
		}
	}
}

// TestPFC_SlowsAVictimAndDCQCNDoesNot is Fig. 4 of Zhu et al., SIGCOMM 2015, and Fig. 9, which
// is the same with DCQCN: median throughput of the victim with and without senders under T3.
func TestPFC_SlowsAVictimAndDCQCNDoesNot(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	victim := func(file string, seeds []int, from, until units.Time, changes ...string) float64 {
		var got []float64
		for _, seed := range seeds {
			g, n := runPaperLab(t, file, seed, from, until, changes...)
			got = append(got, g["victim"])
			if (n == 0) != (file == "fig9.yaml") {
				t.Errorf("%s: %d pauses", file, n)
			}
		}
		slices.Sort(got)
		t.Logf("%s: %.1f Gb/s", file, got)
		return got[len(got)/2]
	}
	none := []string{
		"  - {write: {name: H31, from: H31, to: R, size: 4MB, count: unlimited}}\n", "",
		"  - {write: {name: H32, from: H32, to: R, size: 4MB, count: unlimited}}\n", "",
	}
	seeds := paperSeeds(5)
	alone, beside := victim("fig4.yaml", seeds, 18*ms, 25*ms, none...), victim("fig4.yaml", seeds, 18*ms, 25*ms)
	seeds = paperSeeds(3)
	cured, curedBeside := victim("fig9.yaml", seeds, 30*ms, 36*ms, none...), victim("fig9.yaml", seeds, 30*ms, 36*ms)
	t.Logf("median: %.1f Gb/s, with senders under T3 %.1f; with DCQCN %.1f and %.1f", alone, beside, cured, curedBeside)
	if alone > 13 || beside > 0.8*alone {
		t.Errorf("with PFC the victim has %.1f Gb/s, and %.1f with senders under T3", alone, beside)
	}
	if cured < 17 || curedBeside < 0.95*cured {
		t.Errorf("with DCQCN the victim has %.1f Gb/s, and %.1f with senders under T3", cured, curedBeside)
	}
}
