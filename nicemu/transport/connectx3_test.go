package transport

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// noted is a ConnectX3 that records when it went back because of an RNR NAK, which does not
// indicate a loss.
type noted struct {
	ConnectX3
	unready bool
}

func (n *noted) OnRefusal(w Window, why Refusal, seen PSN) bool {
	back := n.ConnectX3.OnRefusal(w, why, seen)
	if back {
		n.unready = why == NakRNR
	}
	return back
}

func (n *noted) OnExpiry(w Window) {
	n.ConnectX3.OnExpiry(w)
	n.unready = false
}

type notedSettings struct{ ConnectX3Settings }

func (s *notedSettings) New() Recovery {
	return &noted{ConnectX3: *s.ConnectX3Settings.New().(*ConnectX3)}
}

// withWindow returns settings with a window.
func withWindow(n int) *notedSettings { return &notedSettings{ConnectX3Settings{Window: n}} }

// watchVerbs checks a pair's retransmissions against the rule: once a loss is known a retransmitted
// packet belongs to the oldest unacknowledged verb, until everything that had been sent by then has
// been sent again. It counts these packets, and those that other verbs waited for.
func watchVerbs(t rapid.TB, p *pair) (again, waited *int) {
	again, waited = new(int), new(int)
	newest := [2]PSN{p.sides[0].qp.req.next, p.sides[1].qp.req.next}
	p.channel.each = func(from int, packet *roce.Packet) {
		q := p.sides[from].qp
		if isResponse(packet.BTH.Opcode.Operation()) {
			return
		}
		x := q.req.sender.(*noted)
		psn := psnOf(packet)
		old := psn.Before(newest[from])
		newest[from] = laterPSN(newest[from], q.req.next)
		if !old {
			x.unready = false
			if x.serial {
				// New packets leave before all is sent again only as the rest of the verb.
				if !psn.Before(q.endOf(q.req.una)) {
					t.Fatalf("%s begins a verb by PSN %d while it resends up to %d", p.sides[from].name, psn, x.until)
				}
			}
			return
		}
		*again++
		if x.unready && !x.serial {
			return
		}
		if !psn.Before(q.endOf(q.req.una)) {
			t.Fatalf("%s resends PSN %d while the verb of %d is not acknowledged", p.sides[from].name, psn, q.req.una)
		}
		if x.serial {
			*waited++
		}
	}
	return again, waited
}

// TestConnectX3_ResendsOneVerbAtATime loses the first packet of several verbs: the verbs after the
// lost one wait for each other.
func TestConnectX3_ResendsOneVerbAtATime(t *testing.T) {
	p := newBusyPair(t, withWindow(0).New)
	again, waited := watchVerbs(t, p)
	p.channel.fate = func(n int) fate { return fate{lost: n == 1} }
	if !p.channel.run(units.Second) {
		t.Fatal("it does not come to an end")
	}
	if *again == 0 || *waited == 0 {
		t.Errorf("%d packets were sent again, after %d of which others waited", *again, *waited)
	}
	for _, s := range p.sides {
		s.checkWhole(t)
	}
}

// TestConnectX3_CompletesEverythingOnceAndInOrder is
// TestGoBackN_CompletesEverythingOnceAndInOrder for ConnectX3.
func TestConnectX3_CompletesEverythingOnceAndInOrder(t *testing.T) {
	again, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pair := newPairWith(t, faults{
			drop: 0.05, copies: 0.05, budget: 5, // each may cost one of seven retries
			late: rapid.SampledFrom([]float64{0, 0.05, 0.5}).Draw(t, "late"),
		}, withWindow(rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, "window")))
		a, w := watchVerbs(t, pair)
		if !pair.channel.run(units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			s.checkWhole(t)
			if x := s.qp.req.sender.(*noted); x.serial {
				t.Fatalf("%s still resends verbs: %+v", s.name, x)
			}
		}
		again, waited = again+*a, waited+*w
	})
	t.Logf("%d packets were sent again, after %d of which others waited", again, waited)
}

// TestConnectX3_CompletionsAreTrueAlsoIfItGivesUp is
// TestGoBackN_CompletionsAreTrueAlsoIfItGivesUp for ConnectX3.
func TestConnectX3_CompletionsAreTrueAlsoIfItGivesUp(t *testing.T) {
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		loss := rapid.SampledFrom([]float64{0.02, 0.2, 0.5}).Draw(t, "loss")
		pair := newPairWith(t, faults{drop: loss, copies: 0.1, late: 0.3, budget: -1}, withWindow(0))
		watchVerbs(t, pair)
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

// TestConnectX3_FailedWorkRequestHasItsStatus is
// TestGoBackN_FailedWorkRequestHasItsStatus for ConnectX3.
func TestConnectX3_FailedWorkRequestHasItsStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pair := newPairWith(t, faults{copies: 0.1, budget: 3}, withWindow(0))
		s := pair.sides[0]
		bad := s.work[min(rapid.IntRange(0, 20).Draw(t, "bad"), len(s.work)):]
		want := s.spoil(t, bad)
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		if want == cq.Success {
			s.checkWhole(t)
			return
		}
		s.checkFailed(t, want)
		if peer := s.peer; peer.failed() {
			peer.checkFailed(t, cq.RetryExcErr, cq.WRFlushErr)
		} else {
			peer.checkWhole(t)
		}
	})
}
