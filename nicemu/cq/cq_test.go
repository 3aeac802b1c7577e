package cq

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

const us = units.Microsecond

func newCQ(t testing.TB, depth int, c *Channel, e Events) *CQ {
	t.Helper()
	q, err := New(depth, 1<<22, c, e)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// log is an Events that records the calls.
type log struct{ lines []string }

func (l *log) CQError(*CQ) { l.lines = append(l.lines, "cq error") }
func (l *log) QPFatal(qp uint32) {
	l.lines = append(l.lines, "qp fatal "+string(rune('0'+qp)))
}

// A queue behaves like a slice, with an event that is requested once.
func TestCQIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth := rapid.IntRange(1, 9).Draw(t, "depth")
		notified := 0
		ch := &Channel{Notify: func() { notified++ }}
		l := &log{}
		q, err := New(depth, 16, ch, l)
		if err != nil {
			t.Fatal(err)
		}
		q.AttachQP(3)
		var want []Completion
		var events, taken, wakes int
		armedAny, armedSolicited, dead := false, false, false
		id := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				id++
				c := Completion{ID: id, QP: rapid.Uint32Range(1, 3).Draw(t, "qp")}
				solicited := rapid.Bool().Draw(t, "solicited")
				if rapid.IntRange(0, 3).Draw(t, "bad") == 0 {
					c.Status = RetryExcErr
				}
				fits := len(want) < depth && !dead
				if got := q.Push(0, c, solicited); got != fits {
					t.Fatalf("pushed %v, want %v", got, fits)
				}
				if !fits {
					dead = true
					return
				}
				c.VendorErr = c.Status.VendorErr(false)
				want = append(want, c)
				if armedAny || armedSolicited && (solicited || c.Status != Success) {
					if events == 0 {
						wakes++
					}
					events++
					armedAny, armedSolicited = false, false
				}
			},
			"poll": func(t *rapid.T) {
				dst := make([]Completion, rapid.IntRange(0, 5).Draw(t, "n"))
				n, err := q.Poll(dst)
				k := min(len(dst), len(want))
				if diff := cmp.Diff(append([]Completion{}, want[:k]...), append([]Completion{}, dst[:n]...)); diff != "" {
					t.Fatal(diff)
				}
				if lost := dead && len(want) == 0 && len(dst) > 0; lost != errors.Is(err, ErrOverrun) {
					t.Fatalf("error is %v", err)
				}
				want = want[k:]
			},
			"arm":       func(*rapid.T) { q.Arm(false); armedAny = true },
			"solicited": func(*rapid.T) { q.Arm(true); armedSolicited = true },
			"get": func(t *rapid.T) {
				if got, ok := ch.Get(); ok != (events > 0) || ok && got != q {
					t.Fatalf("event: %v, want %d", ok, events)
				}
				if events > 0 {
					events--
					taken++
				}
			},
			"ack": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				if err := q.Ack(n); (err == nil) != (n <= taken) {
					t.Fatal(err)
				} else if err == nil {
					taken -= n
				}
			},
			"resize": func(t *rapid.T) {
				n := rapid.IntRange(0, 17).Draw(t, "n")
				err := q.Resize(n, 16)
				if ok := n >= 1 && n <= 16 && n >= len(want); ok != (err == nil) {
					t.Fatal(err)
				} else if ok {
					depth = n
				}
			},
			"discard": func(t *rapid.T) {
				qp := rapid.Uint32Range(1, 3).Draw(t, "qp")
				var kept []Completion
				for _, c := range want {
					if c.QP != qp {
						kept = append(kept, c)
					}
				}
				if n := q.DiscardQP(qp); n != len(want)-len(kept) {
					t.Fatalf("discarded %d", n)
				}
				want = kept
			},
			"": func(t *rapid.T) {
				if q.Len() != len(want) || q.Depth() != depth || ch.Len() != events || notified != wakes || q.Overrun() != dead {
					t.Fatalf("len %d depth %d events %d wakes %d, want %d %d %d %d", q.Len(), q.Depth(), ch.Len(), notified, len(want), depth, events, wakes)
				}
				if dead != (len(l.lines) == 2) {
					t.Fatalf("events %v", l.lines)
				}
			},
		})
	})
}

// Events of several queues arrive in order, whatever is taken in between.
func TestChannelKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ch Channel
		var queues []*CQ
		for range 4 {
			q, _ := New(1000, 1000, &ch, nil)
			queues = append(queues, q)
		}
		var want []*CQ
		t.Repeat(map[string]func(*rapid.T){
			"event": func(t *rapid.T) {
				q := rapid.SampledFrom(queues).Draw(t, "queue")
				q.Arm(false)
				q.Push(0, Completion{}, false)
				q.DiscardQP(0)
				want = append(want, q)
			},
			"get": func(t *rapid.T) {
				if q, ok := ch.Get(); ok {
					if q != want[0] {
						t.Fatal("out of order")
					}
					_ = q.Ack(1)
					want = want[1:]
				}
			},
			"replace": func(t *rapid.T) {
				i := rapid.IntRange(0, 3).Draw(t, "queue")
				if err := queues[i].Destroy(); err != nil {
					t.Fatal(err)
				}
				var kept []*CQ
				for _, q := range want {
					if q != queues[i] {
						kept = append(kept, q)
					}
				}
				want = kept
				queues[i], _ = New(1000, 1000, &ch, nil)
			},
			"": func(t *rapid.T) {
				if ch.Len() != len(want) {
					t.Fatalf("%d events, want %d", ch.Len(), len(want))
				}
			},
		})
	})
}

// A ring that never runs empty wraps around correctly, whatever its size.
func TestRingGoesRound(t *testing.T) {
	for depth := 2; depth < 12; depth++ {
		for keep := 1; keep < depth; keep++ {
			q := newCQ(t, depth, nil, nil)
			var in, out uint64
			dst := make([]Completion, depth)
			for range 50 {
				for q.Len() < depth {
					in++
					q.Push(0, Completion{ID: in}, false)
				}
				n, err := q.Poll(dst[:depth-keep])
				if n != depth-keep || err != nil {
					t.Fatalf("polled %d %v, want %d", n, err, depth-keep)
				}
				for _, c := range dst[:n] {
					if out++; c.ID != out {
						t.Fatalf("depth %d, keep %d: %d, want %d", depth, keep, c.ID, out)
					}
				}
			}
		}
	}
}

// A channel that never runs empty does not grow.
func TestChannelDoesNotGrow(t *testing.T) {
	var ch Channel
	q := newCQ(t, 4, &ch, nil)
	for i := range 10000 {
		q.Arm(false)
		q.Push(0, Completion{}, false)
		q.DiscardQP(0)
		if i > 2 {
			ch.Get()
		}
	}
	if ch.Len() != 3 || ch.events.Cap() > 16 {
		t.Errorf("%d events in room for %d", ch.Len(), ch.events.Cap())
	}
}

// leaver detaches queue pairs as soon as they get an event.
type leaver struct {
	q    *CQ
	told []uint32
}

func (l *leaver) CQError(q *CQ) { l.q = q }
func (l *leaver) QPFatal(qp uint32) {
	l.told = append(l.told, qp)
	l.q.DetachQP(qp)
}

func TestQueuePairsLeaveDuringOverrun(t *testing.T) {
	l := &leaver{}
	q := newCQ(t, 1, nil, l)
	for qp := range uint32(3) {
		q.AttachQP(qp)
	}
	q.Push(0, Completion{}, false)
	q.Push(0, Completion{}, false)
	if diff := cmp.Diff([]uint32{0, 1, 2}, l.told); diff != "" {
		t.Error(diff)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestSolicitedDoesNotWeakenAny(t *testing.T) {
	var ch Channel
	q := newCQ(t, 8, &ch, nil)
	q.Push(0, Completion{}, false)
	q.Arm(false)
	q.Arm(true)
	if ch.Len() != 0 {
		t.Error("an entry that was there made an event")
	}
	q.Push(0, Completion{}, false)
	q.Push(0, Completion{}, true)
	if ch.Len() != 1 {
		t.Errorf("%d events, want 1", ch.Len())
	}
}

func TestOverrunTellsEveryQueuePair(t *testing.T) {
	l := &log{}
	q := newCQ(t, 1, nil, l)
	for _, qp := range []uint32{5, 2, 5, 7} {
		q.AttachQP(qp)
	}
	q.DetachQP(7)
	q.DetachQP(5)
	for range 3 {
		q.Push(0, Completion{ID: 1}, false)
	}
	want := []string{"cq error", "qp fatal 5", "qp fatal 2"}
	if diff := cmp.Diff(want, l.lines); diff != "" {
		t.Error(diff)
	}
	var dst [2]Completion
	if n, err := q.Poll(dst[:]); n != 1 || err != nil || dst[0].ID != 1 {
		t.Errorf("polled %d %v", n, err)
	}
	if _, err := q.Poll(dst[:]); err != ErrOverrun {
		t.Errorf("error is %v", err)
	}
}

func TestModeration(t *testing.T) {
	var ch Channel
	q := newCQ(t, 100, &ch, nil)
	if err := q.Moderate(Moderation{Count: 3, Period: 10 * us}); err != nil {
		t.Fatal(err)
	}
	q.Arm(false)
	for i := range 3 {
		if ch.Len() != 0 {
			t.Fatalf("an event after %d", i)
		}
		q.Push(units.Time(i)*us, Completion{}, false)
	}
	if ch.Len() != 1 || q.NextExpiry() != units.Never {
		t.Fatalf("%d events after 3, deadline %v", ch.Len(), q.NextExpiry())
	}
	q.Push(20*us, Completion{}, false)
	if q.NextExpiry() != units.Never {
		t.Error("a deadline, but not armed")
	}
	q.Arm(true)
	q.Push(20*us, Completion{}, false)
	q.Push(21*us, Completion{}, true)
	if q.NextExpiry() != 31*us {
		t.Errorf("deadline %v, want 31us", q.NextExpiry())
	}
	q.ReleaseDue(30 * us)
	if ch.Len() != 1 {
		t.Error("an event before its time")
	}
	q.ReleaseDue(31 * us)
	if ch.Len() != 2 || q.NextExpiry() != units.Never {
		t.Errorf("%d events, deadline %v", ch.Len(), q.NextExpiry())
	}
	for _, m := range []Moderation{{Count: 2}, {Period: -1}, {Period: MaxPeriod + 1}} {
		if err := q.Moderate(m); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

func TestDestroy(t *testing.T) {
	var ch Channel
	q, other := newCQ(t, 4, &ch, nil), newCQ(t, 4, &ch, nil)
	if err := ch.Destroy(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("channel in use: %v", err)
	}
	event := func(q *CQ) { q.Arm(false); q.Push(0, Completion{}, false) }
	event(q)
	event(other)
	event(q)
	ch.Get()
	q.AttachQP(1)
	if err := q.Destroy(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("with a queue pair: %v", err)
	}
	q.DetachQP(1)
	if err := q.Destroy(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("with an event not acknowledged: %v", err)
	}
	if err := q.Ack(2); err == nil {
		t.Error("more were acknowledged than taken")
	}
	if err := q.Ack(1); err != nil {
		t.Error(err)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
	if got, ok := ch.Get(); !ok || got != other || ch.Len() != 0 {
		t.Error("the events of the destroyed queue are still there")
	}
	_ = other.Ack(1)
	if other.Destroy() != nil || ch.Destroy() != nil {
		t.Error("not destroyed")
	}
	if q.Push(0, Completion{}, false) {
		t.Error("a destroyed queue took an entry")
	}
}

func TestDepthLimits(t *testing.T) {
	for _, depth := range []int{-1, 0, 17} {
		if _, err := New(depth, 16, nil, nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Success.String(), "IBV_WC_SUCCESS"},
		{RNRRetryExcErr.String(), "IBV_WC_RNR_RETRY_EXC_ERR"},
		{TMRndvIncomplete.String(), "IBV_WC_TM_RNDV_INCOMPLETE"},
		{Status(24).String(), "Status(24)"},
		{LocalInv.String(), "IBV_WC_LOCAL_INV"},
		{RecvImm.String(), "IBV_WC_RECV_RDMA_WITH_IMM"},
		{Opcode(7).String(), "Opcode(7)"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if RNRRetryExcErr != 13 || GeneralErr != 21 || TMRndvIncomplete != 23 {
		t.Error("not the values of ibv_wc_status")
	}
}

func TestSmall(t *testing.T) {
	if n := unsafe.Sizeof(Completion{}); n > 48 {
		t.Errorf("a completion has %d bytes", n)
	}
	if n := unsafe.Sizeof(CQ{}); n > 176 {
		t.Errorf("an idle queue has %d bytes", n)
	}
	if q := newCQ(t, 1<<22, nil, nil); len(q.ring) != 0 {
		t.Error("an idle queue has a ring")
	}
}

func TestNoAllocations(t *testing.T) {
	ch := &Channel{}
	q := newCQ(t, 64, ch, nil)
	dst := make([]Completion, 16)
	step := func() { pushPoll(q, ch, dst) }
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func pushPoll(q *CQ, ch *Channel, dst []Completion) {
	q.Arm(false)
	for range len(dst) {
		q.Push(0, Completion{ID: 1}, false)
	}
	_, _ = q.Poll(dst)
	if e, ok := ch.Get(); ok {
		_ = e.Ack(1)
	}
}

// BenchmarkPushPoll pushes 16 entries and polls them at once, with an event.
func BenchmarkPushPoll(b *testing.B) {
	ch := &Channel{}
	q := newCQ(b, 64, ch, nil)
	dst := make([]Completion, 16)
	b.ReportAllocs()
	for b.Loop() {
		pushPoll(q, ch, dst)
	}
}

// TestErrOfCompletion finds the status in the error.
func TestErrOfCompletion(t *testing.T) {
	good, bad := Completion{ID: 3}, Completion{ID: 3, QP: 17, Status: RetryExcErr}
	if err := good.Err(); err != nil {
		t.Error(err)
	}
	err := bad.Err()
	if want := "IBV_WC_RETRY_EXC_ERR: work request 3 of queue pair 17"; !errors.Is(err, RetryExcErr) || errors.Is(err, WRFlushErr) || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}

// shelf is a sink with room for some entries.
type shelf struct {
	room           int
	entries        []Completion
	marks          []bool // which were solicited, or errors
	any, solicited bool
	events         int
	left           bool
}

func (s *shelf) PutEntry(c Completion, solicited bool) bool {
	if len(s.entries) == s.room {
		return false
	}
	s.entries = append(s.entries, c)
	s.marks = append(s.marks, solicited)
	return true
}

func (s *shelf) EventRequest() (any, solicited bool) {
	any, solicited = s.any, s.solicited
	s.any, s.solicited = false, false
	return any, solicited
}

func (s *shelf) SignalEvent() { s.events++ }

func (s *shelf) HasEntries(bool) bool { return s.left }

// TestSink: entries and events go to the sink, as it has requested; when it is full the queue has
// overrun.
func TestSink(t *testing.T) {
	s := &shelf{room: 5}
	q, err := NewSink(5, 10, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		any, solicited bool // requested
		is             bool // solicited
		status         Status
		events         int
	}{
		{events: 0},
		{any: true, events: 1},
		{solicited: true, events: 1},
		{is: true, events: 2}, // the earlier request holds
		{solicited: true, status: LocLenErr, events: 3},
	} {
		s.any, s.solicited = c.any, c.solicited
		if !q.Push(0, Completion{ID: uint64(i), Status: c.status}, c.is) || s.events != c.events {
			t.Errorf("entry %d: %d events, not %d", i, s.events, c.events)
		}
	}
	if want := []bool{false, false, false, true, true}; !slices.Equal(s.marks, want) {
		t.Errorf("solicited are %v, not %v", s.marks, want)
	}
	// Requests that come too late for the last entry.
	for i, c := range []struct {
		any, solicited, left bool
		events               int
	}{
		{left: true, events: 3},
		{any: true, events: 3}, // it has polled
		{left: true, events: 4},
		{solicited: true, left: true, events: 5},
	} {
		s.any, s.solicited, s.left = c.any, c.solicited, c.left
		q.RecheckEntries(0)
		if q.NextExpiry() < units.Never {
			q.ReleaseDue(q.NextExpiry() - 1)
			q.ReleaseDue(q.NextExpiry())
		}
		if s.events != c.events || q.NextExpiry() != units.Never {
			t.Errorf("missed %d: %d events, not %d; something is due at %v", i, s.events, c.events, q.NextExpiry())
		}
	}
	if len(s.entries) != 5 || q.Len() != 0 {
		t.Errorf("the sink has %d entries, the queue %d", len(s.entries), q.Len())
	}
	if q.Push(0, Completion{}, false) || !q.Overrun() {
		t.Error("a full sink takes entries")
	}
	if err := q.Moderate(Moderation{Count: 2, Period: 10}); err != nil {
		t.Fatal(err)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
}
