package systems

import (
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// row holds what scripts/experiments/incast.yaml measures in a run.
type row struct {
	dropped, retransmitted, timeouts, pauses, marked, cnps uint64

	mean, max    float64 // of the queue to h11, in KB
	goodput      float64 // of the incast, Gb/s
	fair         float64 // Jain's index of the senders' goodputs
	last         float64 // completion, ms
	victim, late float64 // Gb/s
}

func incastRow(t *testing.T, file string, changes ...string) row {
	t.Helper()
	f, err := fabric.NewParallel(fabrictest.ParseFile(t, file, 1, changes...), 1)
	if err != nil {
		t.Fatal(err)
	}
	runTo(t, f, units.Never)
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 {
		t.Errorf("accounts: %+v", a)
	}
	sums, q := workload.SumTransfers(f.Transfers()), portNamed(t, f, "s2:h11")
	r := row{
		dropped: f.Accounts().Dropped, retransmitted: sums.Retransmitted, timeouts: sums.Timeouts, marked: f.Accounts().Marked, cnps: sums.CNPs,
		mean: q.QueueMean / 1e3, max: float64(q.QueueMax) / 1e3,
	}
	r.pauses, _ = pauseTotals(f)
	var rates []float64
	for _, x := range f.Transfers() {
		switch rate := float64(x.Goodput) / 1e9; x.Transfer {
		case "victim":
			r.victim = rate
		case "late-victim":
			r.late = rate
		default:
			rates = append(rates, rate)
			r.last = max(r.last, x.CompletionMax/1e3)
		}
		if x.Completed != 1 || x.Received != x.Payload {
			t.Errorf("%+v", x)
		}
	}
	r.fair, r.goodput = fairness.Jain(rates...), 8*80e6/1e9/(r.last/1e3)
	t.Logf("%s %v: %+v", file, changes, r)
	return r
}

// TestIncastLabs_ShowWhatPFCAndDCQCNDo checks what the three labs of an incast are there to
// show: without PFC the senders lose packets and send them again. With PFC nothing is lost,
// but flows unrelated to the incast suffer. DCQCN ends the pauses and so this harm, except to
// flows that were there during the first burst. On a separate path a victim gets 37 Gb/s.
func TestIncastLabs_ShowWhatPFCAndDCQCNDo(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	lossy := incastRow(t, "scripts/labs/incast-lossy.yaml")
	// All eight send at the same instants and lose equally.
	if lossy.dropped < 10_000 || lossy.retransmitted < 10_000 || lossy.pauses > 0 ||
		lossy.goodput > 25 || lossy.fair < 0.99 || lossy.victim < 36 || lossy.late < 36 {
		t.Errorf("without PFC: %+v", lossy)
	}
	pfc := incastRow(t, "scripts/labs/incast-pfc.yaml")
	if pfc.dropped+pfc.retransmitted+pfc.timeouts > 0 || pfc.pauses < 1000 || pfc.goodput < 36 || pfc.fair < 0.999 ||
		pfc.victim > 6 || pfc.late > 8 {
		t.Errorf("with PFC: %+v", pfc)
	}
	cured := incastRow(t, "scripts/labs/incast-dcqcn.yaml")
	if cured.dropped+cured.retransmitted+cured.timeouts > 0 || cured.pauses == 0 || cured.pauses > pfc.pauses/50 || cured.marked == 0 || cured.cnps == 0 ||
		cured.mean > pfc.mean/10 || cured.fair < 0.98 || cured.goodput < 25 || cured.victim > 10 || cured.late < 36 {
		t.Errorf("with DCQCN: %+v", cured)
	}
	// Zhu et al., SIGCOMM 2015, §4: thresholds at which marking comes first.
	apart := incastRow(t, "scripts/labs/incast-dcqcn.yaml", "buffer: broadcom", "buffer: {preset: broadcom, alpha: 1}")
	if apart.dropped+apart.retransmitted+apart.timeouts+apart.pauses > 0 || apart.fair < 0.98 || apart.victim < 36 || apart.late < 36 {
		t.Errorf("with DCQCN, and PFC at a higher threshold: %+v", apart)
	}
}
