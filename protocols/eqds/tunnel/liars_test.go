package tunnel

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// among runs honest senders and one that lies at the same host: tell is called for it at
// regular intervals. It returns what each got in 20 ms.
func among(t *testing.T, honest int, every units.Time, tell func(liar *source)) (got []units.Bytes, w *world) {
	w = newWorld(t, testConfig(RTS), nil, honest+1)
	liar := w.senders[honest]
	for _, s := range w.senders[:honest] {
		s.push(6000, testMTU)
	}
	var again func()
	again = func() {
		tell(liar)
		w.at(w.now+every, again)
	}
	w.at(0, again)
	w.run(20 * units.Millisecond)
	for _, s := range w.senders {
		got = append(got, s.bytes)
	}
	return got, w
}

// fair checks that each honest sender has its share of the link, one of parts.
func fair(t *testing.T, got []units.Bytes, parts int, slack float64) {
	t.Helper()
	line := 0.99 * float64(testLine) / 8 * 0.02 * 1514 / 1538
	for i, n := range got {
		if share := line / float64(parts); float64(n) < share*(1-slack) || float64(n) > share*(1+slack)+float64(20*testMTU) {
			t.Errorf("sender %d got %v of %v", i, n, units.Bytes(share))
		}
	}
}

// TestFalseDemand: a sender that asks for credit and sends nothing takes, in the long run,
// nothing from others, and none of them waits longer than for an honest one.
func TestFalseDemand(t *testing.T) {
	for _, greedy := range []uint16{10, 30000} {
		seq := eqds.Epoch(3).First()
		got, w := among(t, 4, 20*us, func(liar *source) {
			h := eqds.Data{Flags: eqds.FlagSYN | eqds.FlagRTS, Next: eqds.NextNothing, Seq: seq, Target: liar.receiver.entry.PullNumber() + greedy, Sender: 4}
			liar.fly(h, load{}, RequestLen)
		})
		fair(t, got[:4], 4, 0.01)
		k := w.senders[4].receiver.Receipts()
		if k.Holds == 0 || k.Pulls > 200 {
			t.Errorf("asking for %d: %d PULLs, %d holds", greedy, k.Pulls, k.Holds)
		}
	}
}

// TestFloodOfRequests: RTS at the line rate are answered at most twice in a timeout, and bring
// no more credit than others have.
func TestFloodOfRequests(t *testing.T) {
	answers := 0
	seq := eqds.Epoch(3).First()
	var w *world
	got, w := among(t, 4, us/10, func(liar *source) {
		h := eqds.Data{Flags: eqds.FlagSYN | eqds.FlagRTS, Next: eqds.NextNothing, Seq: seq, Target: liar.receiver.entry.PullNumber() + 10, Sender: 4}
		if a := liar.receiver.ReceiveData(liar.now, &h, load{}, RequestLen, false); a.Send {
			answers++
		}
		liar.settleHost()
	})
	fair(t, got[:4], 4, 0.01)
	k := w.senders[4].receiver.Receipts()
	if maxAnswers := int(20 * units.Millisecond / (w.config.RTO / 2)); answers > maxAnswers+1 || k.Requests < 190_000 || k.Requests-k.Ignored != uint64(answers) {
		t.Errorf("%d answers to %d requests, want at most %d", answers, k.Requests, maxAnswers)
	}
}

// TestReplayedEpochs: a sender that starts over all the time, with every epoch and a full
// demand, gets neither windows nor credit for it.
func TestReplayedEpochs(t *testing.T) {
	epoch, n := eqds.Epoch(0), uint16(0)
	got, w := among(t, 4, us, func(liar *source) {
		if n++; n%5 == 0 {
			epoch = epoch.Next()
		}
		h := eqds.Data{Flags: eqds.FlagSYN, Next: eqds.NextIPv4, Seq: epoch.First() + n%5, Target: n % 13, Sender: 4}
		liar.arrive(&h, load{4, 0}, testMTU, false)
	})
	fair(t, got[:4], 5, 0.3)
	liar := w.senders[4]
	came, fifth := units.Bytes(len(liar.delivered))*testMTU, got[0]
	if came > fifth+3*w.config.Window || liar.receiver.Receipts().Refused == 0 {
		t.Errorf("the liar brought %v in %d incarnations, others %v", came, liar.receiver.Receipts().Opened, fifth)
	}
}

// TestOverdrawn: a sender that sends at the line rate, whatever its credit, delivers no more
// than its share.
func TestOverdrawn(t *testing.T) {
	first := eqds.Epoch(9).First()
	seq := first
	got, w := among(t, 4, testLine.TimeOf(testMTU), func(liar *source) {
		h := eqds.Data{Next: eqds.NextIPv4, Seq: seq, Target: liar.receiver.entry.PullNumber() + 10, Sender: 4}
		if seq == first {
			h.Flags |= eqds.FlagSYN
		}
		if a := liar.receiver.ReceiveData(liar.now, &h, load{4, 0}, testMTU, false); a.Kept {
			seq++
		}
		liar.settleHost()
	})
	fair(t, got[:4], 5, 0.01)
	liar := w.senders[4]
	if came := units.Bytes(len(liar.delivered)) * testMTU; came > got[0]+3*w.config.Window {
		t.Errorf("the liar brought %v, others %v", came, got[0])
	}
}

// TestLyingReceiver: a receiver that gives more than was asked for, acknowledges what was never
// sent, or makes its sender start over all the time, is not sent more than a window in a
// timeout.
func TestLyingReceiver(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		w := newWorld(t, testConfig(b), nil, 1)
		s := w.senders[0]
		sent := units.Bytes(0)
		w.data = func(_ *source, h *eqds.Data, size units.Bytes) []trip {
			if !h.IsRTS() {
				sent += size
			}
			return nil
		}
		r := rand.New(rand.NewPCG(1, 2))
		flags := []eqds.Flags{eqds.FlagRST, eqds.FlagSYN, eqds.FlagSYN | eqds.FlagPULL, eqds.FlagSYN | eqds.FlagACK, eqds.FlagSYN | eqds.FlagNACK | eqds.FlagPULL}
		var lie func()
		lie = func() {
			c := eqds.Control{Flags: eqds.FlagControl | flags[r.IntN(len(flags))], Ack: uint16(r.Uint32()), Pull: uint16(r.Uint32())}
			if r.IntN(2) == 0 {
				c.Ack = s.sender.nxt + uint16(r.IntN(3)) // a good guess
			}
			s.sender.ReceiveControl(w.now, &c)
			s.send()
			w.at(w.now+us, lie)
		}
		s.push(5000, testMTU)
		w.at(0, lie)
		w.run(50 * units.Millisecond)
		// One window is asked for while another is not.
		if maxSent := 2 * w.config.Window * units.Bytes(50*units.Millisecond/w.config.RTO+1); sent > maxSent {
			t.Errorf("%v: %v are sent to a liar, want at most %v", b, sent, maxSent)
		}
	}
}
