package transport

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// drawIRN draws settings of IRN.
func drawIRN(t *rapid.T) *IRNSettings {
	s := irnDefaults("", 0).(*IRNSettings)
	s.Window = rapid.SampledFrom([]int{1, 2, 7, 110, 0}).Draw(t, "window")
	s.Reordering = rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "reordering")
	s.Placement = rapid.SampledFrom([]string{PlaceArrival, PlaceOrdered}).Draw(t, "placement")
	s.Timeouts = rapid.SampledFrom([]string{PaperTimeouts, PaperTimeouts, LocalTimeouts}).Draw(t, "timeouts")
	s.Resend = rapid.SampledFrom([]string{ResendLost, ResendLost, ResendOldest}).Draw(t, "resend")
	return s
}

// TestIRN_CompletesEverythingOnceAndInOrder: over a channel that loses, copies, delays and reorders
// at will, everything completes once and in order; when a completion says that data has arrived, no
// byte of it and of earlier data is older; in the end memory is that of a sequential machine.
func TestIRN_CompletesEverythingOnceAndInOrder(t *testing.T) {
	resent := uint64(0)
	rapid.Check(t, func(t *rapid.T) { resent += exactlyOnce(t) })
	t.Logf("%d packets were sent again", resent)
}

func exactlyOnce(t *rapid.T) (resent uint64) {
	settings := drawIRN(t)
	drop := rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.2}).Draw(t, "drop")
	if settings.Timeouts == LocalTimeouts {
		drop = min(drop, 0.01) // there are few losses until it gives up
	}
	pair := newPairWith(t, faults{
		drop: drop, copies: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "copies"), budget: -1,
		late: rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "late"),
	}, settings)
	for _, s := range pair.sides {
		s.watch = func() { s.checkNotOlder(t) }
	}
	if !pair.channel.run(units.Second) {
		t.Fatal("it does not come to an end")
	}
	for _, s := range pair.sides {
		s.checkWhole(t)
		resent += s.qp.Retransmitted()
		if n := s.qp.resp.buffer.n; n > 0 {
			t.Fatalf("%s: %d packets are still kept", s.name, n)
		}
	}
	return resent
}

// TestIRN_CompletionsAreTrueAlsoIfItGivesUp is TestGoBackN_CompletionsAreTrueAlsoIfItGivesUp with
// placement in order, so that memory after an error is a sequential machine's.
func TestIRN_CompletionsAreTrueAlsoIfItGivesUp(t *testing.T) {
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		settings := drawIRN(t)
		settings.Placement = PlaceOrdered
		loss := rapid.SampledFrom([]float64{0.2, 0.6, 0.9}).Draw(t, "loss")
		pair := newPairWith(t, faults{drop: loss, copies: 0.1, late: 0.3, budget: -1}, settings)
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			if s.qp.State() == qp.Err {
				failed++
				s.checkFailed(t, cq.RetryExcErr)
			} else {
				s.checkWhole(t)
			}
		}
	})
	t.Logf("%d queue pairs gave up", failed)
}

// TestIRN_FailedWorkRequestHasItsStatus is TestGoBackN_FailedWorkRequestHasItsStatus, with loss and
// reordering.
func TestIRN_FailedWorkRequestHasItsStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawIRN(t)
		settings.Placement = PlaceOrdered
		f := faults{copies: 0.1, drop: 0.02, budget: 3, late: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "late")}
		pair := newPairWith(t, f, settings)
		s := pair.sides[0]
		bad := s.work[min(rapid.IntRange(0, 20).Draw(t, "bad"), len(s.work)):]
		want := []cq.Status{s.spoil(t, bad), cq.RetryExcErr} // the refusal may be lost
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		if want[0] == cq.Success {
			s.checkWhole(t)
			return
		}
		s.checkFailed(t, want...)
		if peer := s.peer; peer.failed() {
			peer.checkFailed(t, cq.RetryExcErr, cq.WRFlushErr)
		} else {
			peer.checkWhole(t)
		}
	})
}

// checkNotOlder checks that memory at the peer is no older than the completions say: each byte is
// as the last completed work request left it, or newer.
func (s *agent) checkNotOlder(t rapid.TB) {
	done := 0
	for _, c := range s.sent {
		if c.Status == cq.Success {
			done = max(done, int(c.ID)+1)
		}
	}
	received := len(s.peer.received)
	for i, messages := 0, 0; i < len(s.work) && messages < received; i++ {
		if s.work[i].Op.isSend() || s.work[i].Op == WriteImm {
			messages++
		}
		if messages == received {
			done = max(done, i+1)
		}
	}
	if bytes.Equal(s.peer.target, s.models[done]) {
		return // the usual case, checked fast
	}
	for at, b := range s.peer.target {
		k := done
		for k < len(s.models) && s.models[k][at] != b {
			k++
		}
		if k == len(s.models) {
			t.Fatalf("%s: byte %d is %d: older than work request %d, which has completed", s.peer.name, at, b, done-1)
		}
	}
}
