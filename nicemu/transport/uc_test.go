package transport

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// TestUnreliableMessagesAreWhole sends numbered messages over a UC and checks the received
// messages: they are whole, and without reordering a subsequence of those sent.
func TestUnreliableMessagesAreWhole(t *testing.T) {
	lost := 0
	rapid.Check(t, func(t *rapid.T) {
		f := faults{drop: 0.1, budget: -1}
		disorder := rapid.Bool().Draw(t, "disorder")
		if disorder {
			f.copies, f.late = 0.1, 0.2
		}
		c := &channel{random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), faults: f}
		chunk := rapid.SampledFrom([]units.Bytes{0, 300, 64 << 10}).Draw(t, "chunk")
		var sides [2]*agent
		for i := range sides {
			s := &agent{host: newHost()}
			s.local = s.host.bytes(0, localSize, memory.LocalWrite)
			s.memory = s.host.view(0)
			for j := range s.local {
				s.local[j] = byte(c.random.Uint32())
			}
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
		a, b := sides[0], sides[1]
		for i := range rapid.IntRange(0, 20).Draw(t, "messages") {
			wr := SendWR{ID: uint64(i), Op: SendImm, Imm: uint32(i), SGL: a.take(t, rapid.IntRange(0, 2000).Draw(t, "length")), Flags: Signaled}
			a.messages = append(a.messages, a.bytesOf(wr.SGL))
			if err := a.qp.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 60 {
			b.receives = append(b.receives, qp.RecvWR{ID: uint64(i), SGL: b.take(t, 2000)})
			if err := b.qp.PostRecv(&b.receives[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !c.run(units.Second) {
			t.Fatal("it does not come to an end")
		}
		if len(a.sent) != len(a.messages) {
			t.Fatalf("%d completions of %d", len(a.sent), len(a.messages))
		}
		last := -1
		for _, r := range b.received {
			n := int(r.Imm)
			if r.Status != cq.Success || !disorder && n <= last {
				t.Fatalf("%+v was received behind message %d", r, last)
			}
			last = n
			if got := b.bytesOf(b.receives[r.ID].SGL)[:r.ByteLen]; !bytes.Equal(got, a.messages[n]) {
				t.Fatalf("message %d is not what was sent", n)
			}
		}
		lost += len(a.messages) - len(b.received)
		if c.dropped == 0 && !disorder && len(b.received) != len(a.messages) {
			t.Fatalf("nothing was lost, and %d of %d were received", len(b.received), len(a.messages))
		}
	})
	if lost == 0 {
		t.Error("no message was ever lost: the channel is too good to show anything")
	}
}
