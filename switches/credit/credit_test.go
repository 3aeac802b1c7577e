package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

const us = units.Microsecond

// TestTranscript: a buffer of 39 blocks, packets of five, and updates of nine.
func TestTranscript(t *testing.T) {
	c := &Config{Buffer: 2500, Update: 625}
	s, r := NewSender(c), NewReceiver(c)
	for i := range 7 {
		if !s.HasCreditFor(314) {
			t.Fatalf("no credit for packet %d", i)
		}
		s.SpendCredit(314)
		r.CountReceived(314)
		r.RecordWaiting(314)
	}
	if s.HasCreditFor(314) || !s.HasCreditFor(4*64) || s.HasCreditFor(4*64+1) {
		t.Fatal("35 of 39 blocks are used: there is credit for four")
	}
	s.Wait(10*us, true)
	if r.FreePacket(314); r.UpdateIsDue() {
		t.Fatal("it tells of five blocks, and 9 are an update")
	}
	if r.FreePacket(314); !r.UpdateIsDue() {
		t.Fatal("it does not tell of ten blocks")
	}
	if got := r.CreditUpdate(); got != 49 {
		t.Fatalf("FCCL is %d: 35 have come, and of 39 the buffer holds 25", got)
	}
	s.ApplyLimit(49)
	s.Wait(12*us, false)
	if !s.HasCreditFor(14*64) || s.HasCreditFor(14*64+1) {
		t.Fatal("credit for 14 blocks was expected")
	}
	want := Spent{Buffer: 39 * Block, Available: 14 * Block, Time: 2 * us, Waits: 1, Updates: 1}
	if diff := cmp.Diff(want, s.Statistics(20*us)); diff != "" {
		t.Errorf("sender (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Given{Buffer: 39 * Block, Held: 25 * Block, Peak: 35 * Block, Updates: 1}, r.Statistics()); diff != "" {
		t.Errorf("receiver (-want +got):\n%s", diff)
	}
}

// TestLostData: lost data takes its credit away until the receiver learns how much was
// sent; copies that a link makes give credit until then.
func TestLostData(t *testing.T) {
	c := &Config{Buffer: 640, Update: 64}
	s, r := NewSender(c), NewReceiver(c)
	s.SpendCredit(64)
	s.SpendCredit(128) // lost
	r.CountReceived(64)
	s.ApplyLimit(r.CreditUpdate())
	if s.HasCreditFor(9 * 64) {
		t.Error("credit of lost blocks is there before anybody knows")
	}
	r.ApplySent(s.SentBlocks())
	s.ApplyLimit(r.CreditUpdate())
	if !s.AllReturned() || r.Statistics().Lost != 2 {
		t.Errorf("settled %v, %+v", s.AllReturned(), r.Statistics())
	}
	s.SpendCredit(64)
	r.CountReceived(64)
	r.CountReceived(64)
	r.ApplySent(s.SentBlocks())
	s.ApplyLimit(r.CreditUpdate())
	if !s.AllReturned() || r.Statistics().Surplus != 1 {
		t.Errorf("settled %v, %+v", s.AllReturned(), r.Statistics())
	}
}

// TestLongPacket: a packet that is longer than the whole buffer leaves when all of it is
// free.
func TestLongPacket(t *testing.T) {
	c := &Config{Buffer: 640, Update: 64}
	s, r := NewSender(c), NewReceiver(c)
	if !s.HasCreditFor(9000) {
		t.Fatal("it would wait for ever")
	}
	s.SpendCredit(9000)
	r.CountReceived(9000)
	r.RecordWaiting(9000)
	if s.ApplyLimit(r.CreditUpdate()); s.HasCreditFor(1) {
		t.Error("there is credit beside it")
	}
	r.FreePacket(9000)
	if s.ApplyLimit(r.CreditUpdate()); !s.AllReturned() {
		t.Error("not all credit is back")
	}
}

// TestWait: waiting until the line is free is not waiting for credit.
func TestWait(t *testing.T) {
	s := NewSender(&Config{Buffer: 64})
	s.Wait(10*us, true)
	if x := s.Statistics(9 * us); x.Waiting || x.Waits != 0 || x.Time != 0 {
		t.Errorf("it waits before the line is free: %+v", x)
	}
	s.Wait(9*us, false)
	if x := s.Statistics(20 * us); x.Waits != 0 || x.Time != 0 {
		t.Errorf("credit came in time: %+v", x)
	}
	s.Wait(30*us, true)
	if since, waits := s.WaitingSince(); !waits || since != 30*us {
		t.Errorf("%v, %v", since, waits)
	}
	if x := s.Statistics(33 * us); !x.Waiting || x.Waits != 1 || x.Time != 3*us {
		t.Errorf("%+v", x)
	}
}

// TestModel: with a link that loses data and updates in either direction and delivers late
// copies of updates, the receiver never holds more than its buffer. Once the link works
// again, one exchange of updates restores all credit, wherever the counters have wrapped.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{
			Buffer: units.Bytes(rapid.IntRange(64, 20_000).Draw(t, "buffer")),
			Update: units.Bytes(rapid.IntRange(0, 5000).Draw(t, "update")),
		}
		s, r := NewSender(c), NewReceiver(c)
		start := Counter(rapid.Uint16().Draw(t, "start"))
		s.sent, s.limit, r.received, r.told = s.sent+start, s.limit+start, r.received+start, r.told+start

		type message struct {
			size units.Bytes // of data; 0 means an update
			says Counter
		}
		var there, back, lateThere, lateBack []message
		var held []units.Bytes
		var holds Counter
		arrive := func(m message) {
			if m.size == 0 {
				r.ApplySent(m.says)
				return
			}
			r.CountReceived(m.size)
			r.RecordWaiting(m.size)
			held = append(held, m.size)
			if holds += BlocksOf(m.size); holds > wholeBlocks(c.Buffer) {
				t.Fatalf("%d blocks are held in a buffer of %d", holds, wholeBlocks(c.Buffer))
			}
		}
		free := func() {
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			n := held[i]
			held = append(held[:i], held[i+1:]...)
			holds -= BlocksOf(n)
			if r.FreePacket(n); r.UpdateIsDue() {
				back = append(back, message{says: r.CreditUpdate()})
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				if n := units.Bytes(rapid.IntRange(1, int(wholeBlocks(c.Buffer)*64)).Draw(t, "size")); s.HasCreditFor(n) {
					s.SpendCredit(n)
					there = append(there, message{size: n})
				}
			case 3:
				there = append(there, message{says: s.SentBlocks()})
			case 4:
				back = append(back, message{says: r.CreditUpdate()})
			case 5, 6:
				if len(there) > 0 {
					m := there[0]
					there = there[1:]
					switch rapid.IntRange(0, 3).Draw(t, "fate") {
					case 0: // lost
					case 1:
						if m.size == 0 {
							lateThere = append(lateThere, m)
						}
						fallthrough
					default:
						arrive(m)
					}
				}
			case 7:
				if len(back) > 0 {
					m := back[0]
					back = back[1:]
					switch rapid.IntRange(0, 3).Draw(t, "fate") {
					case 0: // lost
					case 1:
						lateBack = append(lateBack, m)
						fallthrough
					default:
						s.ApplyLimit(m.says)
					}
				}
			case 8:
				if len(held) > 0 {
					free()
				}
			case 9:
				if len(lateThere) > 0 {
					arrive(lateThere[0])
					lateThere = lateThere[1:]
				}
				if len(lateBack) > 0 {
					s.ApplyLimit(lateBack[0].says)
					lateBack = lateBack[1:]
				}
			}
		}
		for _, m := range there {
			arrive(m)
		}
		for len(held) > 0 {
			free()
		}
		r.ApplySent(s.SentBlocks())
		s.ApplyLimit(r.CreditUpdate())
		if !s.AllReturned() || !s.HasCreditFor(c.Buffer) {
			t.Fatalf("not all credit is back: %+v %+v", s, r)
		}
	})
}
