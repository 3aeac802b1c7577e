package ndp

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// failer is a test of package testing or rapid.
type failer interface {
	Fatalf(format string, args ...any)
}

// checkSender compares the sender's counters with its packets.
func checkSender(t failer, s *Sender) {
	flies, waits := 0, 0
	for k := s.una; k < s.nxt; k++ {
		switch s.slotOf(k).state {
		case inFlight:
			flies++
		case waiting:
			waits++
		}
	}
	if flies != s.flies || waits != s.waits || s.credit < 0 {
		t.Fatalf("%d packets fly and %d wait; the sender says %d and %d, with a credit of %d", flies, waits, s.flies, s.waits, s.credit)
	}
	if s.phase == Active && !s.CanSend() && s.NextTimer() == units.Never {
		t.Fatalf("the sender has nothing to wait for: %+v", s)
	}
	if int32(s.sent-s.pulled) < 0 {
		t.Fatalf("%d packets are pulled, %d sent", s.pulled, s.sent)
	}
}

// TestStream: whatever is lost, duplicated, reordered, trimmed and sent back, every byte
// arrives exactly once, in a bounded time, and both ends finish.
func TestStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.MTU = units.Bytes(rapid.SampledFrom([]int{576, 1500, 9000}).Draw(t, "mtu"))
		c.IPv6 = rapid.Bool().Draw(t, "v6")
		c.Paths = rapid.SampledFrom([]int{1, 2, 4, 256}).Draw(t, "paths")
		c.PathPenalty = rapid.Bool().Draw(t, "penalty")
		c.Retries = maxTries
		size := units.Bytes(rapid.IntRange(0, 300_000).Draw(t, "size"))
		chance := func(name string, maxPercent int) int { return rapid.IntRange(0, maxPercent).Draw(t, name) }
		lossy, doubled, late, cut, back := chance("loss", 30), chance("double", 30), chance("late", 50), chance("trim", 80), chance("back", 40)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		percent := func(p int) bool { return r.IntN(100) < p }
		bad := 3000 // limit of packets that meet a fault; otherwise a flow might never finish
		way := func(toReceiver bool, h *Header) []fate {
			one := func() fate {
				f := fate{delay: 5 * units.Microsecond}
				if percent(late) {
					f.delay += units.Time(r.IntN(3000)) * units.Microsecond
				}
				if toReceiver && bad > 0 {
					f.trimmed = percent(cut)
					f.returned = f.trimmed && percent(back)
				}
				return f
			}
			if bad--; bad > 0 && percent(lossy) {
				return nil
			}
			if percent(doubled) {
				return []fate{one(), one()}
			}
			return []fate{one()}
		}
		n := newNetwork(&c, Start{Service: 1, Connection: 0xffff_ffff, Size: size, Window: rapid.IntRange(1, 40).Draw(t, "window"), RTT: 10 * units.Microsecond, Rand: r}, way)
		n.peer.next = 0xffff_ffff
		count := int64(max(1, (size+c.FullPayload()-1)/c.FullPayload()))
		n.seen = func(toReceiver bool, h *Header, payload units.Bytes) {
			b := make([]byte, HeaderLen)
			var again Header
			if h.EncodeTo(b); again.Decode(b) != nil || again != *h {
				t.Fatalf("%+v is read as %+v", h, again)
			}
			if toReceiver && (int64(h.Seq) >= count || (h.Flags&FlagLast != 0) != (int64(h.Seq) == count-1) || payload > c.FullPayload()) {
				t.Fatalf("of %d packets this one is sent: %+v", count, h)
			}
			if int(h.Path) >= c.Paths {
				t.Fatalf("path %d of %d", h.Path, c.Paths)
			}
		}
		n.check = func() { checkSender(t, &n.sender) }
		const end = 100 * units.Second
		n.run(end)
		if n.sender.Phase() != Done || n.arrived != 1 || n.came != size || n.sender.AckedBytes() != size {
			t.Fatalf("the sender is in phase %d %s, all has come %d times, %v of %v, %v acknowledged", n.sender.Phase(), n.sender.Failure(), n.arrived, n.came, size, n.sender.AckedBytes())
		}
		if n.now >= end || n.sender.NextTimer() != units.Never || n.pacer.Len() > 0 {
			t.Fatalf("at %v something is left: timer %v, %d to be pulled", n.now, n.sender.NextTimer(), n.pacer.Len())
		}
	})
}
