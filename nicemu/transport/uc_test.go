package transport

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// newUnreliable makes a channel between two UC queue pairs, the second of which has room for 60
// messages of 2000 bytes.
func newUnreliable(t rapid.TB, seed uint64, f faults, chunk units.Bytes) (c *channel, a, b *agent) {
	c = &channel{random: rand.New(rand.NewPCG(seed, 0)), faults: f}
	var sides [2]*agent
	for i := range sides {
		s := &agent{host: newHost(), random: c.random}
		s.local = s.host.bytes(0, localSize, memory.LocalWrite)
		s.memory = s.host.view(0)
		q, err := New(Config{Service: roce.UC, Memory: s.memory, SendCQ: sends{s}, RecvCQ: recvs{s}, MaxSend: 20, MaxRecv: 200, MaxSGE: 3, ChunkSize: chunk})
		if err != nil {
			t.Fatal(err)
		}
		for state := qp.Init; state <= qp.RTS; state++ {
			if err := q.Modify(state, Attr{PathMTU: 256, RQPSN: roce.PSNMask - 5, SQPSN: roce.PSNMask - 5}); err != nil {
				t.Fatal(err)
			}
		}
		s.qp, sides[i], c.ends[i] = q, s, q
	}
	a, b = sides[0], sides[1]
	for i := range 60 {
		b.receives = append(b.receives, qp.RecvWR{ID: uint64(i), SGL: []memory.SGE{b.allocBuffer(2000)}})
		if err := b.qp.PostRecv(&b.receives[i]); err != nil {
			t.Fatal(err)
		}
	}
	return c, a, b
}

// sendNumbered sends a message whose immediate data is its number.
func (s *agent) sendNumbered(t rapid.TB, list []memory.SGE) {
	n := len(s.messages)
	wr := SendWR{ID: uint64(n), Op: SendImm, Imm: uint32(n), SGL: list, Flags: Signaled}
	s.messages = append(s.messages, s.bytesOf(list))
	if err := s.qp.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
}

// checkUnreliable runs the channel until the messages of a are sent, checks those that b has
// received, and returns their numbers.
func checkUnreliable(t rapid.TB, c *channel, a, b *agent) (numbers []int) {
	if !c.run(units.Second) {
		t.Fatal("it does not come to an end")
	}
	if len(a.sent) != len(a.messages) {
		t.Fatalf("%d completions of %d", len(a.sent), len(a.messages))
	}
	for _, r := range b.received {
		n := int(r.Imm)
		if r.Status != cq.Success {
			t.Fatalf("message %d was received as %+v", n, r)
		}
		if got := b.bytesOf(b.receives[r.ID].SGL)[:r.ByteLen]; !bytes.Equal(got, a.messages[n]) {
			t.Fatalf("message %d is not what was sent", n)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// TestUC_ReceivesWholeMessagesOnly sends numbered messages over a UC that loses, copies and
// reorders packets: those received are whole, and without reordering a subsequence of those sent.
func TestUC_ReceivesWholeMessagesOnly(t *testing.T) {
	lost := 0
	rapid.Check(t, func(t *rapid.T) {
		f := faults{drop: 0.1, budget: -1}
		disorder := rapid.Bool().Draw(t, "disorder")
		if disorder {
			f.copies, f.late = 0.1, 0.2
		}
		c, a, b := newUnreliable(t, rapid.Uint64().Draw(t, "seed"), f, rapid.SampledFrom([]units.Bytes{0, 300, 64 << 10}).Draw(t, "chunk"))
		for range rapid.IntRange(0, 20).Draw(t, "messages") {
			a.sendNumbered(t, a.allocParts(t, rapid.IntRange(0, 2000).Draw(t, "length")))
		}
		last := -1
		for _, n := range checkUnreliable(t, c, a, b) {
			if !disorder && n <= last {
				t.Fatalf("message %d was received behind message %d", n, last)
			}
			last = n
		}
		lost += len(a.messages) - len(b.received)
		if c.dropped == 0 && !disorder && len(b.received) != len(a.messages) {
			t.Fatalf("nothing was lost, and %d of %d were received", len(b.received), len(a.messages))
		}
	})
	t.Logf("%d messages were lost", lost)
}

// TestUC_LosesTheMessageOfALostPacketOnly loses each packet of three messages once.
func TestUC_LosesTheMessageOfALostPacketOnly(t *testing.T) {
	const messages, packets = 3, 3 // packets of each message
	for lost := range messages * packets {
		c, a, b := newUnreliable(t, 1, faults{}, 0)
		c.fate = func(n int) fate { return fate{lost: n == lost+1} }
		for range messages {
			a.sendNumbered(t, []memory.SGE{a.allocBuffer(256*(packets-1) + 1)})
		}
		var want []int
		for n := range messages {
			if n != lost/packets {
				want = append(want, n)
			}
		}
		if got := checkUnreliable(t, c, a, b); !slices.Equal(got, want) {
			t.Errorf("without packet %d: messages %v were received, want %v", lost, got, want)
		}
	}
}
