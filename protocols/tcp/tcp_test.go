package tcp

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestSize limits the memory of a flow of a few windows at both ends, without its control,
// to 2 KB.
func TestSize(t *testing.T) {
	sender, receiver, ring := unsafe.Sizeof(Sender{}), unsafe.Sizeof(Receiver{}), firstRing*unsafe.Sizeof(record{})
	t.Logf("sender %d bytes, receiver %d, %d segments %d", sender, receiver, firstRing, ring)
	if all := sender + receiver + ring; all > 2048 {
		t.Errorf("a flow takes %d bytes", all)
	}
}

// TestCheck: each setting has its limits, and errors name them.
func TestCheck(t *testing.T) {
	c := Default()
	if err := c.Check(); err != nil {
		t.Errorf("the default: %v", err)
	}
	c = Config{MTU: 100, Window: 10, InitialRTO: 0, MinRTO: -1, MaxRTO: -2, Retries: 0, AckEvery: 0, QuickAcks: -1, DelayedAck: -1}
	err := c.Check()
	for _, key := range []string{"mtu", "receive-window", "initial-rto", "min-rto", "max-rto", "retries", "ack-every", "quick-acks", "delayed-ack"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("nothing about %s in %v", key, err)
		}
	}
}

// TestSteadyStateDoesNotAllocate: once its ring is large enough, a flow allocates nothing.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	step := exchange()
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n > 0 {
		t.Errorf("a segment and its acknowledgement allocate %v times", n)
	}
}

func BenchmarkSegment(b *testing.B) {
	step := exchange()
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

// exchange returns a function that sends the next segment and returns its acknowledgement.
func exchange() func() {
	c := Default()
	var s Sender
	var r Receiver
	var g, a Segment
	s.Reset(&c, &fixed{window: 100 * c.FullPayload(), minWindow: c.FullPayload()}, cc.Traits{NeedsDelivery: true}, 1, 1<<50)
	r.Reset(&c, 2)
	s.Open(0)
	now := units.Time(0)
	return func() {
		now += units.Microsecond
		if s.NextDeparture() <= now && s.Next(now, &g) {
			r.Receive(now, &g)
		}
		if r.Next(now, &a) {
			s.Receive(now, &a)
		}
		if now >= min(s.NextTimer(), r.NextTimer()) {
			s.OnTimer(now)
			r.OnTimer(now)
		}
	}
}

// TestReset: a reset ends a connection at either end, one with a wrong sequence number at
// neither.
func TestReset(t *testing.T) {
	n := &network{way: always(units.Millisecond)}
	c := Default()
	n.start(&c, &fixed{window: 10 * c.FullPayload(), minWindow: c.FullPayload()}, cc.Traits{}, 1<<40)
	n.run(20 * units.Millisecond)
	n.sender.Receive(n.now, &Segment{Flags: RST, Seq: n.sender.peer + 1})
	n.receiver.Receive(n.now, &Segment{Flags: RST, Seq: n.receiver.irs})
	if n.sender.Phase() != Established || n.receiver.Phase() != Established {
		t.Fatal("a reset that does not fit has ended a connection")
	}
	n.sender.Receive(n.now, &Segment{Flags: RST, Seq: n.sender.peer})
	n.receiver.Receive(n.now, &Segment{Flags: RST, Seq: n.receiver.irs + 1 + uint32(n.receiver.next)})
	if n.sender.Phase() != Failed || n.receiver.Phase() != Failed || !strings.Contains(n.sender.Failure(), "reset") {
		t.Error("a reset has not ended the connection")
	}
}

// TestAnswer: an old SYN does not open a connection.
func TestAnswer(t *testing.T) {
	var r Receiver
	c := Default()
	r.Reset(&c, 77)
	r.Receive(0, &Segment{Flags: SYN, Seq: 5, Timestamps: true, TSVal: 3})
	var g Segment
	if !r.Next(0, &g) || g.Flags != SYN|ACK || g.Ack != 6 {
		t.Fatalf("a SYN is answered by %+v", g)
	}
	// Data of the old connection has another acknowledgement.
	r.Receive(1, &Segment{Flags: ACK, Seq: 6, Ack: 1000, Payload: 10})
	if r.Phase() != Opening {
		t.Fatal("data of an old connection is taken")
	}
	a, ok := AnswerUnknown(&g)
	if !ok || a.Flags != RST {
		t.Fatalf("an answer to a SYN that nobody sent is answered by %+v", a)
	}
	if r.Receive(2, &a); r.Phase() != Failed || r.NextTimer() != units.Never {
		t.Errorf("after a reset the receiver is in phase %d", r.Phase())
	}
	for _, g := range []Segment{{Flags: RST}, {Flags: ACK}, {Flags: SYN}} {
		if a, ok := AnswerUnknown(&g); ok {
			t.Errorf("%v is answered by %v", g.Flags, a.Flags)
		}
	}
}

// TestRefuse: data of an unknown connection is reset.
func TestRefuse(t *testing.T) {
	for _, g := range []Segment{{Flags: RST | ACK, Payload: 1}, {Flags: SYN}, {Flags: ACK}} {
		if a, ok := AnswerClosed(&g); ok {
			t.Errorf("%v is refused by %v", g.Flags, a.Flags)
		}
	}
	n := &network{way: always(units.Millisecond)}
	c := Default()
	n.start(&c, &fixed{window: 10 * c.FullPayload(), minWindow: c.FullPayload()}, cc.Traits{}, 1<<40)
	n.run(20 * units.Millisecond)
	a, ok := AnswerClosed(&Segment{Flags: ACK, Seq: 1, Ack: n.sender.peer, Payload: 1})
	if n.sender.Receive(n.now, &a); !ok || n.sender.Phase() != Failed {
		t.Errorf("a sender that is refused by %v is in phase %d", a.Flags, n.sender.Phase())
	}
}

// TestGivesUp: after the last retry of the timeout the connection has failed.
func TestGivesUp(t *testing.T) {
	c := Default()
	c.Retries = 3
	sent := 0
	n := &network{}
	n.way = func(toReceiver bool, _ *Segment) []units.Time {
		if sent++; sent > 4 {
			return nil
		}
		return []units.Time{units.Millisecond}
	}
	n.start(&c, &fixed{window: 10 * c.FullPayload(), minWindow: c.FullPayload()}, cc.Traits{}, 1<<20)
	n.run(1000 * units.Second)
	if n.sender.Phase() != Failed || n.sender.Counters().Timeouts != 3 || n.sender.NextTimer() != units.Never {
		t.Errorf("phase %d after %d timeouts", n.sender.Phase(), n.sender.Counters().Timeouts)
	}
}
