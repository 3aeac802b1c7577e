package transport

import (
	"bytes"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// paired makes two queue pairs with IRN that may READ, and a host's memory for each.
func paired(t testing.TB, reads uint8) (ends [2]*QP, memories [2]*host, cqs [2][2]*count) {
	t.Helper()
	for i := range ends {
		memories[i] = newHost()
		cqs[i] = [2]*count{{}, {}}
		q, err := New(Config{
			Number: uint32(i), Memory: memories[i].view(uint32(i)), SendCQ: cqs[i][0], RecvCQ: cqs[i][1], Recovery: paper,
			MaxSend: 8, MaxRecv: 8, MaxSGE: 2, SignalAll: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		for s := qp.Init; s <= qp.RTS; s++ {
			if err := q.Modify(s, Attr{
				Access: open, DestQP: uint32(1 - i), PathMTU: 256, RQPSN: PSN(7 + 10*(1-i)), SQPSN: PSN(7 + 10*i),
				Timeout: 8, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: reads, MaxDestRdAtomic: reads,
			}); err != nil {
				t.Fatal(err)
			}
		}
		ends[i] = q
	}
	return ends, memories, cqs
}

// filled registers memory with bytes that count its packets.
func filled(h *host, va uint64, n int, rights memory.Access) []byte {
	b := h.bytes(va, n, rights)
	for i := range b {
		b[i] = byte(i>>8) + 1
	}
	return b
}

func post(t testing.TB, q *QP, wr SendWR) {
	t.Helper()
	if err := q.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
}

func hand(q *QP, now units.Time, packets ...roce.Packet) {
	for i := range packets {
		q.Receive(now, &packets[i], nil)
	}
}

// TestIRNReadsAreAcknowledged: responses have their own PSNs, are placed on arrival and
// acknowledged by the requester; the responder resends missing ones, and has a timer.
func TestIRNReadsAreAcknowledged(t *testing.T) {
	ends, m, cqs := paired(t, 2)
	a, b := ends[0], ends[1]
	into := m[0].bytes(0, 1<<12, memory.LocalWrite)
	m[1].bytes(0, 1, 0)
	filled(m[1], 0, 1<<12, open)
	post(t, a, SendWR{Op: Write, RKey: targetKey, RemoteVA: 2048})
	post(t, a, SendWR{Op: Read, SGL: []memory.SGE{{Length: 5 * 256, LKey: localKey}}, RKey: targetKey})
	post(t, a, SendWR{Op: FetchAdd, SGL: []memory.SGE{{VA: 2048, Length: 8, LKey: localKey}}, RKey: targetKey, RemoteVA: 2048, Swap: 1})
	post(t, a, SendWR{Op: Write, RKey: targetKey, RemoteVA: 2048})
	requests := take(t, a, 4)
	for i, psn := range []uint32{7, 8, 9, 10} {
		if requests[i].BTH.PSN != psn {
			t.Errorf("request %d has PSN %d", i, requests[i].BTH.PSN)
		}
	}
	if requests[1].Selective.PSN != 7 || requests[2].Selective.PSN != 12 || !requests[3].BTH.MigReq || requests[1].BTH.MigReq {
		t.Errorf("responses are to begin with %d and %d", requests[1].Selective.PSN, requests[2].Selective.PSN)
	}
	hand(b, 0, requests[1], requests[2], requests[0], requests[3])
	answers := take(t, b, 7)
	if o := answers[0].BTH; o.Opcode != roce.IRN.WithOperation(roce.Ack) || o.PSN != 10 {
		t.Errorf("requests are acknowledged by %+v", o)
	}
	for i, psn := range []uint32{7, 8, 9, 10, 11, 12} {
		if answers[i+1].BTH.PSN != psn {
			t.Errorf("response %d has PSN %d", i, answers[i+1].BTH.PSN)
		}
	}
	if d := b.NextExpiry(); d != 320*units.Microsecond {
		t.Errorf("with six responses in flight the timer ends at %v", d)
	}
	hand(a, 0, answers[0], answers[1])
	if cqs[0][0].n != 1 || a.NextExpiry() == units.Never {
		t.Errorf("%d completions, deadline %v", cqs[0][0].n, a.NextExpiry())
	}
	acks := take(t, a, 1)
	hand(a, 0, answers[3], answers[6])
	if into[512] != 3 || into[2048] != 9 || cqs[0][0].n != 1 {
		t.Errorf("not placed at arrival, or %d completions", cqs[0][0].n)
	}
	acks = append(acks, take(t, a, 2)...)
	for i, want := range [][2]uint32{{8, 7}, {8, 9}, {8, 12}} {
		p := &acks[i]
		if p.BTH.Opcode != roce.IRN.WithOperation(roce.ReadAck) || p.BTH.PSN != want[0] || p.Selective.PSN != want[1] {
			t.Errorf("response acknowledged by %v %d, %d", p.BTH.Opcode, p.BTH.PSN, p.Selective.PSN)
		}
	}
	hand(b, 0, acks...)
	again := take(t, b, 3)
	for i, psn := range []uint32{8, 10, 11} {
		if again[i].BTH.PSN != psn {
			t.Errorf("sent again: %d", again[i].BTH.PSN)
		}
	}
	if b.Offer().Kind != Nothing || b.Counters().Retransmitted != 3 {
		t.Error("more is sent again")
	}
	hand(a, 0, again...)
	if c := cqs[0][0]; c.n != 4 || c.failed > 0 || into[1024] != 5 {
		t.Errorf("%+v", c)
	}
	hand(b, 0, take(t, a, 1)...)
	if b.IsBusy() || b.NextExpiry() != units.Never || a.NextExpiry() != units.Never {
		t.Error("it does not come to rest")
	}
}

// TestIRNReadsGiveUp: if responses are not acknowledged the responder gives up, and if none arrive
// the requester does.
func TestIRNReadsGiveUp(t *testing.T) {
	ends, m, cqs := paired(t, 2)
	a, b := ends[0], ends[1]
	m[0].bytes(0, 1<<12, memory.LocalWrite)
	m[1].bytes(0, 1, 0)
	m[1].bytes(0, 1<<12, open)
	post(t, a, SendWR{Op: Read, SGL: []memory.SGE{{Length: 512, LKey: localKey}}, RKey: targetKey})
	hand(b, 0, take(t, a, 1)...)
	hand(a, 0, take(t, b, 1)...)
	limit := 8 * AckTimeout(8)
	var p roce.Packet
	for now := units.Time(0); b.IsBusy(); {
		for b.Next(now, &p) {
		}
		if now = b.NextExpiry(); now > limit+units.Millisecond {
			t.Fatalf("it goes on until %v", now)
		}
		b.DoDueWork(now)
	}
	if b.State() != qp.RTS || b.NextExpiry() != units.Never {
		t.Errorf("the responder is in %v", b.State())
	}
	if d := a.NextExpiry(); d != limit {
		t.Errorf("the requester gives up at %v, want %v", d, limit)
	}
	a.DoDueWork(a.NextExpiry())
	if a.State() != qp.Err || cqs[0][0].last.Status != cq.RetryExcErr {
		t.Errorf("%v, %+v", a.State(), cqs[0][0].last)
	}
}

// TestIRNRefusesBehindResponses: a request is refused when all earlier responses have arrived; so
// is a READ whose memory goes while it is answered.
func TestIRNRefusesBehindResponses(t *testing.T) {
	for _, gone := range []bool{false, true} {
		ends, m, cqs := paired(t, 4)
		a, b := ends[0], ends[1]
		m[0].bytes(0, 1<<12, memory.LocalWrite)
		m[1].bytes(0, 1, 0)
		m[1].bytes(0, 1<<12, open)
		other := m[1].add(0, 1<<12, open, &memory.Bytes{Data: make([]byte, 1<<12)})
		read := SendWR{Op: Read, SGL: []memory.SGE{{Length: 512, LKey: localKey}}, RKey: targetKey}
		post(t, a, read)
		read.RKey = other
		post(t, a, read)
		if !gone {
			post(t, a, SendWR{Op: Write, RKey: 99, SGL: []memory.SGE{{Length: 1, LKey: localKey}}})
		}
		for a.Offer().Kind != Nothing {
			hand(b, 0, take(t, a, 1)...)
		}
		hand(a, 0, take(t, b, 3)...) // an ACK, the first READ
		acks := take(t, a, 1)
		if gone {
			if err := m[1].table.Deregister(m[1].regions[other]); err != nil {
				t.Fatal(err)
			}
		} else {
			if b.State() != qp.RTS {
				t.Error("refused in front of responses")
			}
			hand(a, 0, take(t, b, 2)...)
			acks = append(acks, take(t, a, 1)...)
		}
		var p roce.Packet
		if b.Next(0, &p) {
			t.Errorf("a %v in front of the acknowledgement", p.BTH.Opcode)
		}
		hand(b, 0, acks...)
		if b.State() != qp.Err {
			t.Fatalf("the responder is in %v", b.State())
		}
		hand(a, 0, take(t, b, 1)...)
		want, done := cq.RemAccessErr, 2
		if gone {
			done = 1
		}
		if c := cqs[0][0]; c.n != done+1 || c.failed != 1 || c.last.Status != want || a.State() != qp.Err {
			t.Errorf("memory gone %v: %+v, %v", gone, c, a.State())
		}
	}
}

// TestIRNReadsIntoOneBuffer: when both have completed the buffer has the second one's data, however
// packets overtake each other.
func TestIRNReadsIntoOneBuffer(t *testing.T) {
	ends, m, cqs := paired(t, 4)
	a, b := ends[0], ends[1]
	into := m[0].bytes(0, 1<<12, memory.LocalWrite)
	alias := m[0].add(1<<20, 1<<12, memory.LocalWrite, &memory.Bytes{Base: 1 << 20, Data: into})
	m[0].regions[alias] = nil
	m[1].bytes(0, 1, 0)
	filled(m[1], 0, 1<<12, open)
	post(t, a, SendWR{Op: Read, SGL: []memory.SGE{{Length: 512, LKey: localKey}}, RKey: targetKey})
	post(t, a, SendWR{Op: Read, SGL: []memory.SGE{{Length: 512, LKey: localKey}}, RKey: targetKey, RemoteVA: 1024})
	hand(b, 0, take(t, a, 2)...)
	p := take(t, b, 5)
	hand(a, 0, p[0], p[3], p[4], p[2], p[1])
	if cqs[0][0].n != 2 || into[0] != 5 || into[256] != 6 {
		t.Errorf("%d completions, %d and %d", cqs[0][0].n, into[0], into[256])
	}
}

// TestIRNKeepsNewerBytes: a retransmitted message does not overwrite the bytes of a newer one,
// whatever verb and whatever key they came by: regions that share memory, a window, a receive
// buffer.
func TestIRNKeepsNewerBytes(t *testing.T) {
	const size = 768 // of a message: three packets
	type message struct {
		op  Op
		key int // 0 the target, 1 another region of the same bytes, 2 a window on them
	}
	for _, c := range [][2]message{
		{{Write, 0}, {Write, 0}}, {{Write, 0}, {Write, 1}}, {{Write, 1}, {Write, 0}}, {{Write, 2}, {Write, 0}},
		{{Send, 0}, {Write, 0}}, {{Send, 0}, {Write, 2}}, {{Write, 1}, {Send, 0}}, {{Send, 0}, {Send, 0}},
	} {
		for _, order := range [][]int{{3, 4, 5, 0, 1, 2}, {5, 1, 4, 2, 3, 0}, {4, 0, 2, 5, 1, 3}, {0, 3, 2, 5, 4, 1}} {
			for _, shift := range []uint64{0, 100, 300} {
				ends, m, cqs := paired(t, 0)
				a, b := ends[0], ends[1]
				from := m[0].bytes(0, 1<<12, memory.LocalWrite)
				for i := range from {
					from[i] = byte(1 + i/size)
				}
				backing := &memory.Bytes{Data: make([]byte, 1<<12)}
				keys := [3]uint32{m[1].add(0, 1<<12, open|memory.MWBind, backing), 0, 0}
				r, err := m[1].table.Register(memory.Registration{PD: m[1].pd, Addr: 0, IOVA: 1 << 30, Length: 1 << 12, Access: open | memory.LocalWrite, Backing: backing})
				if err != nil {
					t.Fatal(err)
				}
				keys[1] = r.RKey()
				window := m[1].window()
				bound, f := m[1].view(1).BindWindow(memory.Binding{Window: window, Tag: uint8(window) + 1, Region: keys[0], Length: 1 << 12, Access: open | memory.ZeroBased})
				if f != memory.OK {
					t.Fatal(f)
				}
				keys[2] = bound
				va := [3]uint64{0, 1 << 30, 0}
				want := make([]byte, 1<<12)
				for i, x := range c {
					at := uint64(i) * shift
					wr := SendWR{Op: x.op, SGL: []memory.SGE{{VA: uint64(i * size), Length: size, LKey: localKey}}, RKey: keys[x.key], RemoteVA: va[x.key] + at}
					if x.op == Send {
						if err := b.PostRecv(&qp.RecvWR{SGL: []memory.SGE{{VA: at, Length: 333, LKey: keys[0]}, {VA: at + 333, Length: size, LKey: keys[0]}}}); err != nil {
							t.Fatal(err)
						}
					}
					post(t, a, wr)
					copy(want[at:], from[i*size:][:size])
				}
				sent := take(t, a, 6)
				for _, i := range order {
					hand(b, 0, sent[i])
				}
				if b.Expected() != 13 || cqs[1][1].failed > 0 || !bytes.Equal(backing.Data, want) {
					t.Fatalf("%v, %v behind each other, shifted by %d: %d expected, wrong bytes", c, order, shift, b.Expected())
				}
			}
		}
	}
}

// TestIRNEchoesMarks: a mark echoed in a NACK is reported with the next progress.
func TestIRNEchoesMarks(t *testing.T) {
	seen := &marks{}
	ends, _, _ := joined(t, [2]func() Recovery{paper, paper}, func(c *Config) { c.Feedback = seen })
	a, b := ends[0], ends[1]
	post(t, a, SendWR{Op: Write, SGL: []memory.SGE{{Length: 3 * 256, LKey: localKey}}, RKey: targetKey})
	sent := take(t, a, 3)
	hand(b, 0, sent[1])
	nack := take(t, b, 1)
	nack[0].BTH.BECN = true
	hand(a, 0, nack...)
	hand(b, 0, sent[0], sent[2])
	hand(a, 0, take(t, b, 1)...)
	if len(seen.acked) != 1 || !seen.acked[0] {
		t.Errorf("told %v", seen.acked)
	}
}

// marks records the marks reported to a rate control.
type marks struct {
	nopFeedback
	acked []bool
}

func (m *marks) OnAcked(_ units.Time, a Acked) { m.acked = append(m.acked, a.Marked) }
