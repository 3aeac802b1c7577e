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

// joined makes two queue pairs that are each other's peers and have real memory.
func joined(t testing.TB, recovery [2]func() Recovery, configure func(*Config)) (ends [2]*QP, target []byte, cqs [2][2]*count) {
	t.Helper()
	host := newHost()
	local := host.bytes(0, 1<<16, memory.LocalWrite)
	for i := range local {
		local[i] = byte(i>>8) + 1
	}
	target = host.bytes(0, 1<<16, open)
	for i := range ends {
		cqs[i] = [2]*count{{}, {}}
		c := Config{
			Number: uint32(i), Memory: host.view(uint32(i)), SendCQ: cqs[i][0], RecvCQ: cqs[i][1], Recovery: recovery[i],
			MaxSend: 8, MaxRecv: 8, MaxSGE: 1, SignalAll: true,
		}
		if configure != nil {
			configure(&c)
		}
		q, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for s := qp.Init; s <= qp.RTS; s++ {
			if err := q.Modify(s, Attr{Access: open, DestQP: uint32(1 - i), PathMTU: 256, Timeout: 8, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 1}); err != nil {
				t.Fatal(err)
			}
		}
		ends[i] = q
	}
	return ends, target, cqs
}

func paper() Recovery { return irnDefaults("", 0).New() }

// take returns the next packets of a queue pair, their payload copied.
func take(t testing.TB, q *QP, n int) (all []roce.Packet) {
	t.Helper()
	for range n {
		var p roce.Packet
		if !q.Next(0, &p) {
			t.Fatalf("packet %d of %d is missing", len(all), n)
		}
		all = append(all, p)
	}
	return all
}

// TestIRNRecovers follows the paper's §3.1 packet by packet.
func TestIRNRecovers(t *testing.T) {
	ends, target, cqs := joined(t, [2]func() Recovery{paper, paper}, nil)
	a, b := ends[0], ends[1]
	post := func(n uint32) {
		if err := a.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: n, LKey: localKey}}, RKey: targetKey}); err != nil {
			t.Fatal(err)
		}
	}
	post(6 * 256)
	if d := a.NextExpiry(); d != units.Never {
		t.Errorf("a timer runs until %v before something is sent", d)
	}
	sent := take(t, a, 2)
	if d := a.NextExpiry(); d != 100*units.Microsecond {
		t.Errorf("with two in flight the timer ends at %v", d)
	}
	sent = append(sent, take(t, a, 4)...)
	if d := a.NextExpiry(); d != 320*units.Microsecond {
		t.Errorf("with six in flight the timer ends at %v", d)
	}
	for i := range sent {
		if i != 0 && i != 3 {
			b.Receive(0, &sent[i], nil)
		}
	}
	if target[0] != 0 || target[256] != 2 || target[3*256] != 0 || target[5*256] != 6 {
		t.Error("payload is not placed at arrival")
	}
	nacks := take(t, b, 4)
	for i, want := range []uint32{1, 2, 4, 5} {
		n := &nacks[i]
		if n.BTH.Opcode != roce.IRN.WithOperation(roce.Nack) || n.BTH.PSN != 0 || n.Selective.PSN != want {
			t.Errorf("NACK %d: %v, PSN %d, kept %d", i, n.BTH.Opcode, n.BTH.PSN, n.Selective.PSN)
		}
	}
	post(2 * 256)
	var order []uint32
	next := func() { order = append(order, take(t, a, 1)[0].BTH.PSN) }
	a.Receive(0, &nacks[0], nil)
	next() // 0: the cumulative PSN
	next() // nothing else is known to be lost: 6, which is new
	a.Receive(0, &nacks[2], nil)
	next() // 2 has not been named yet
	a.Receive(0, &nacks[1], nil)
	a.Receive(0, &nacks[3], nil)
	next() // 3
	next() // 7
	if got, want := order, []uint32{0, 6, 2, 3, 7}; !equal(got, want) {
		t.Errorf("PSNs %v, want %v", got, want)
	}
	b.Receive(0, &sent[0], nil)
	b.Receive(0, &sent[3], nil)
	acks := take(t, b, 1)
	if p := &acks[0]; p.BTH.Opcode != roce.IRN.WithOperation(roce.Ack) || p.BTH.PSN != 5 || p.AETH.MSN != 1 {
		t.Errorf("acknowledged by %+v", p)
	}
	a.Receive(0, &acks[0], nil)
	if cqs[0][0].n != 1 || target[0] != 1 || target[3*256] != 4 {
		t.Errorf("%d completions", cqs[0][0].n)
	}
}

func equal(a, b []uint32) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestIRNLimitsFlight tests BDP-FC, and no limit.
func TestIRNLimitsFlight(t *testing.T) {
	for window, want := range map[int]int{4: 4, 0: 32} {
		s := irnDefaults("", 0).(*IRNSettings)
		s.Window = window
		ends, _, _ := joined(t, [2]func() Recovery{s.New, s.New}, nil)
		if err := ends[0].PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 32 * 256, LKey: localKey}}, RKey: targetKey}); err != nil {
			t.Fatal(err)
		}
		take(t, ends[0], want)
		if o := ends[0].Offer(); o.Kind != Nothing {
			t.Errorf("with a window of %d, %d in flight: %+v", window, want, o)
		}
	}
}

// TestIRNKeepsOrderBehindInvalidate: a WRITE that overtakes a SEND that invalidates its key is not
// placed, and is refused in its turn.
func TestIRNKeepsOrderBehindInvalidate(t *testing.T) {
	ends, target, cqs := joined(t, [2]func() Recovery{paper, paper}, nil)
	a, b := ends[0], ends[1]
	if err := b.PostRecv(&qp.RecvWR{}); err != nil {
		t.Fatal(err)
	}
	for _, wr := range []SendWR{
		{Op: SendInvalidate, RKey: targetKey},
		{Op: Write, SGL: []memory.SGE{{Length: 256, LKey: localKey}}, RKey: targetKey},
	} {
		if err := a.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
	}
	sent := take(t, a, 2)
	if !sent[1].BTH.MigReq {
		t.Error("it does not ask to be placed in order")
	}
	b.Receive(0, &sent[1], nil)
	if !bytes.Equal(target[:256], make([]byte, 256)) {
		t.Error("it is placed at arrival")
	}
	b.Receive(0, &sent[0], nil)
	if !bytes.Equal(target[:256], make([]byte, 256)) || b.State() != qp.Err || cqs[1][1].n != 1 {
		t.Errorf("it is placed; the queue pair is in %v with %d completions", b.State(), cqs[1][1].n)
	}
}

// TestIRNAndGoBackNRefuse: a queue pair learns at the first packet that its peer uses the other
// recovery.
func TestIRNAndGoBackNRefuse(t *testing.T) {
	for _, pair := range [][2]func() Recovery{{paper, NewGoBackN}, {NewGoBackN, paper}} {
		ends, target, cqs := joined(t, pair, nil)
		a, b := ends[0], ends[1]
		if err := a.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 256, LKey: localKey}}, RKey: targetKey}); err != nil {
			t.Fatal(err)
		}
		b.Receive(0, &take(t, a, 1)[0], nil)
		a.Receive(0, &take(t, b, 1)[0], nil)
		if target[0] != 0 || b.State() != qp.Err || a.State() != qp.Err || cqs[0][0].last.Status != cq.RemInvReqErr {
			t.Errorf("target %d, states %v and %v, %+v", target[0], a.State(), b.State(), cqs[0][0].last)
		}
	}
}

// TestIRNHoldsForSharedQueues: the request of a shared queue that a SEND gets is not known before
// its turn.
func TestIRNHoldsForSharedQueues(t *testing.T) {
	shared := &oneByOne{}
	ends, target, cqs := joined(t, [2]func() Recovery{paper, paper}, func(c *Config) { c.Shared = shared })
	a, b := ends[0], ends[1]
	for range 2 {
		if err := a.PostSend(&SendWR{Op: Send, SGL: []memory.SGE{{Length: 300, LKey: localKey}}}); err != nil {
			t.Fatal(err)
		}
	}
	sent := take(t, a, 4)
	for _, i := range []int{3, 1, 2} {
		b.Receive(0, &sent[i], nil)
	}
	if shared.taken != 0 || target[0] != 0 {
		t.Errorf("%d requests are taken", shared.taken)
	}
	b.Receive(0, &sent[0], nil)
	if shared.taken != 2 || cqs[1][1].n != 2 || target[0] != 1 || target[256] != 2 || target[1024] != 1 || target[1024+256] != 2 {
		t.Errorf("%d requests are taken, %d completed", shared.taken, cqs[1][1].n)
	}
}

// oneByOne is a shared receive queue whose requests follow each other, a kilobyte apart.
type oneByOne struct{ taken int }

func (o *oneByOne) TakeRequest(wr *qp.RecvWR) bool {
	wr.SGL = append(wr.SGL[:0], memory.SGE{VA: uint64(o.taken) << 10, Length: 1 << 10, LKey: targetKey})
	o.taken++
	return true
}

// TestIRNIsPatient: no number of timeouts ends a connection, but the time does that a queue pair
// with go-back-N would try.
func TestIRNIsPatient(t *testing.T) {
	ends, _, cqs := joined(t, [2]func() Recovery{paper, paper}, nil)
	a := ends[0]
	if err := a.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 256, LKey: localKey}}, RKey: targetKey}); err != nil {
		t.Fatal(err)
	}
	var p roce.Packet
	var now units.Time
	for a.State() != qp.Err {
		for a.Next(now, &p) {
		}
		now = a.NextExpiry()
		if now == units.Never {
			t.Fatal("no timer runs")
		}
		a.DoDueWork(now)
	}
	if limit := 8 * AckTimeout(8); now < limit || now > limit+100*units.Microsecond || cqs[0][0].last.Status != cq.RetryExcErr {
		t.Errorf("it gives up at %v with %+v, want %v", now, cqs[0][0].last, limit)
	}
}

// TestGoBackNWithLimit: the packet that fills the window asks for an answer, which opens
// it, so no timer has to expire.
func TestGoBackNWithLimit(t *testing.T) {
	s := &GoBackNSettings{Window: 4}
	ends, _, cqs := joined(t, [2]func() Recovery{s.New, s.New}, nil)
	a, b := ends[0], ends[1]
	if err := a.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 10 * 256, LKey: localKey}}, RKey: targetKey}); err != nil {
		t.Fatal(err)
	}
	for cqs[0][0].n == 0 {
		sent := 0
		for a.Offer().Kind != Nothing {
			p := take(t, a, 1)[0]
			b.Receive(0, &p, nil)
			sent++
		}
		if sent == 0 || sent > 4 {
			t.Fatalf("%d packets in flight", sent)
		}
		for b.Offer().Kind != Nothing {
			p := take(t, b, 1)[0]
			a.Receive(0, &p, nil)
		}
	}
}

// TestIRNResendsATail: when all of a window's last packets are lost, no NACK names any of them. A
// timeout makes the newest be sent again after the oldest, and its NACK reports all.
func TestIRNResendsATail(t *testing.T) {
	ends, _, cqs := joined(t, [2]func() Recovery{paper, paper}, nil)
	a, b := ends[0], ends[1]
	post(t, a, SendWR{Op: Write, SGL: []memory.SGE{{Length: 9 * 256, LKey: localKey}}, RKey: targetKey})
	sent := take(t, a, 9)
	hand(b, 0, sent[0])
	hand(a, 0, take(t, b, 1)...) // all others are lost
	now := a.NextExpiry()
	a.DoDueWork(now)
	again := func(want ...uint32) {
		t.Helper()
		for _, p := range take(t, a, len(want)) {
			if p.BTH.PSN != want[0] {
				t.Fatalf("sent again: %d, want %d", p.BTH.PSN, want[0])
			}
			want = want[1:]
			hand(b, now, p)
		}
		if o := a.Offer(); o.Kind != Nothing {
			t.Fatalf("then %+v", o)
		}
	}
	again(1, 8)
	hand(a, now, take(t, b, 1)...) // the NACK, which acknowledges 1 as well
	again(2, 3, 4, 5, 6, 7)
	for cqs[0][0].n == 0 {
		hand(a, now, take(t, b, 1)...)
	}
	if n := a.Counters().LocalAckTimeoutErr; n != 1 {
		t.Errorf("%d timeouts", n)
	}
}

// TestIRNReordering: a packet less than the reordering distance before the newest counts as late
// and not as lost, until a timeout has shown that it is not under way.
func TestIRNReordering(t *testing.T) {
	patient := func() Recovery {
		s := irnDefaults("", 0).(*IRNSettings)
		s.Reordering = 4
		return s.New()
	}
	ends, _, cqs := joined(t, [2]func() Recovery{patient, patient}, nil)
	a, b := ends[0], ends[1]
	post(t, a, SendWR{Op: Write, SGL: []memory.SGE{{Length: 9 * 256, LKey: localKey}}, RKey: targetKey})
	sent := take(t, a, 9)
	for _, k := range []int{0, 2, 4, 6, 8} { // 1, 3, 5 and 7 are lost
		hand(b, 0, sent[k])
	}
	hand(a, 0, take(t, b, 4)...) // the first NACK acknowledges 0 as well
	for _, p := range take(t, a, 2) {
		if p.BTH.PSN != 1 && p.BTH.PSN != 3 {
			t.Errorf("%d is sent again, which may be late", p.BTH.PSN)
		}
	}
	if o := a.Offer(); o.Kind != Nothing {
		t.Fatalf("then %+v", o)
	}
	now := a.NextExpiry() // both are lost again
	a.DoDueWork(now)
	for _, want := range []uint32{1, 3, 5, 7} {
		p := take(t, a, 1)[0]
		if p.BTH.PSN != want {
			t.Fatalf("sent again: %d, want %d", p.BTH.PSN, want)
		}
		hand(b, now, p)
	}
	for cqs[0][0].n == 0 {
		hand(a, now, take(t, b, 1)...)
	}
	if n := a.Counters().LocalAckTimeoutErr; n != 1 {
		t.Errorf("%d timeouts", n)
	}
}
