package tcp

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// stream is what a receiver should have, given the segments that arrived.
type stream struct {
	came []bool // by byte, with the FIN
	next units.Bytes
}

func (m *stream) take(from, to units.Bytes) {
	for ; from < to; from++ {
		m.came[from] = true
	}
	for m.next < units.Bytes(len(m.came)) && m.came[m.next] {
		m.next++
	}
}

// TestStream: whatever is lost, duplicated and out of order, each byte is delivered once
// and in order, the counts at both ends are right, and both ends finish.
func TestStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.MTU = units.Bytes(rapid.SampledFrom([]int{576, 1500, 9000}).Draw(t, "mtu"))
		c.Timestamps = rapid.Bool().Draw(t, "timestamps")
		c.TailProbes = rapid.Bool().Draw(t, "tail")
		c.IPv6 = rapid.Bool().Draw(t, "v6")
		c.ECN = ECN(rapid.IntRange(0, 2).Draw(t, "ecn"))
		c.Window = max(2*c.MTU, units.Bytes(rapid.SampledFrom([]int{20_000, 65_535, 1 << 20}).Draw(t, "window")))
		c.AckEvery = rapid.IntRange(1, 4).Draw(t, "every")
		c.QuickAcks = rapid.IntRange(0, 3).Draw(t, "quick")
		c.MinRTO = units.Time(rapid.IntRange(0, 200).Draw(t, "rto")) * units.Millisecond
		c.Retries = maxTries
		size := units.Bytes(rapid.IntRange(0, 60_000).Draw(t, "size"))
		lossy := rapid.IntRange(0, 40).Draw(t, "loss")
		doubled := rapid.IntRange(0, 30).Draw(t, "double")
		late := rapid.IntRange(0, 60).Draw(t, "late")
		marked := rapid.IntRange(0, 50).Draw(t, "marked")
		r := random(rapid.Uint64().Draw(t, "seed"))

		n := &network{}
		model := &stream{came: make([]bool, size+1)}
		percent := func(p int) bool { return r.IntN(100) < p }
		delay := func() units.Time {
			d := 100 * units.Microsecond
			if percent(late) {
				d += units.Time(r.IntN(1000)) * units.Microsecond
			}
			return d
		}
		left, syns := 3000, 5 // how many may be lost: a SYN is only retransmitted six times
		n.way = func(toReceiver bool, g *Segment) []units.Time {
			if toReceiver && g.ECT && percent(marked) {
				g.CE = true
			}
			if g.Flags&SYN != 0 {
				syns--
			}
			if left--; left > 0 && percent(lossy) && (syns > 0 || g.Flags&SYN == 0) {
				return nil
			}
			if percent(doubled) {
				return []units.Time{delay(), delay()}
			}
			return []units.Time{delay()}
		}
		n.check = func() {
			checkSender(t, &n.sender)
			if n.receiver.next != model.next {
				t.Fatalf("the receiver has %d in order of %d", n.receiver.next, model.next)
			}
			at := n.receiver.next
			for _, x := range n.receiver.ahead {
				if x.from <= at || x.to <= x.from {
					t.Fatalf("ahead of %d there are %v", n.receiver.next, n.receiver.ahead)
				}
				at = x.to
			}
		}
		n.seen = func(toReceiver bool, g *Segment) {
			if toReceiver && g.Flags&SYN == 0 && n.sender.Phase() == Established && g.Payload > 0 {
				from := n.sender.offsetOf(g.Seq)
				if from < 0 || from+units.Bytes(g.Payload) > size {
					t.Fatalf("%d bytes are sent from %d, of %d", g.Payload, from, size)
				}
				if from+units.Bytes(g.Payload) > n.sender.right {
					t.Fatal("beyond the receiver's window")
				}
			}
			if !toReceiver && g.BlockCount > maxBlocks {
				t.Fatal("too many blocks")
			}
		}
		n.got = func(g *Segment) {
			if p := n.receiver.Phase(); g.Flags&SYN != 0 || p != Opening && p != Established && p != Closing {
				return
			}
			from := n.receiver.offsetOf(g.Seq)
			to := from + units.Bytes(g.Payload)
			if g.Flags&FIN != 0 {
				to++
			}
			model.take(from, to)
		}
		full := c.FullPayload()
		control := &fixed{window: full * units.Bytes(rapid.IntRange(1, 40).Draw(t, "cwnd")), minWindow: full}
		if rapid.Bool().Draw(t, "paced") {
			control.rate = 100 * units.Mbps
		}
		n.start(&c, control, cc.Traits{NeedsDelivery: rapid.Bool().Draw(t, "delivery"), KeepsWindow: rapid.Bool().Draw(t, "keeps")}, size)
		n.run(100_000 * units.Second)
		if n.sender.Phase() != Done || n.receiver.Phase() != Done && n.receiver.Phase() != Failed {
			t.Fatalf("the sender is in phase %d %s, the receiver in %d", n.sender.Phase(), n.sender.Failure(), n.receiver.Phase())
		}
		if n.receiver.ReceivedBytes() != size || n.sender.AckedBytes() != size || !n.receiver.IsComplete() {
			t.Fatalf("%d bytes were received of %d, %d acknowledged", n.receiver.ReceivedBytes(), size, n.sender.AckedBytes())
		}
		if n.sender.NextTimer() != units.Never || n.receiver.NextTimer() != units.Never {
			t.Fatal("a timer is left")
		}
	})
}
