package transport

import (
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// TestIRNResendsOldest: without selective acknowledgement a NACK makes one packet be sent again,
// and the next one when another is missing.
func TestIRNResendsOldest(t *testing.T) {
	s := irnDefaults("", 0).(*IRNSettings)
	s.Resend = ResendOldest
	ends, _, cqs := joined(t, [2]func() Recovery{s.New, s.New}, nil)
	a, b := ends[0], ends[1]
	post(t, a, SendWR{Op: Write, SGL: []memory.SGE{{Length: 6 * 256, LKey: localKey}}, RKey: targetKey})
	sent := take(t, a, 6)
	hand(b, 0, sent[1], sent[3], sent[5]) // 0, 2 and 4 are lost
	nacks := take(t, b, 3)
	hand(a, 0, nacks...)
	if again := take(t, a, 1)[0]; again.BTH.PSN != 0 || a.Offer().Kind != Nothing {
		t.Errorf("sent again: %d, and then %+v", again.BTH.PSN, a.Offer())
	} else {
		hand(b, 0, again)
	}
	nack := take(t, b, 1) // kept packets have been acknowledged up to 1
	hand(a, 0, nack...)
	if a.Offer().Kind != Nothing {
		t.Error("2 is sent again though nobody asks for it")
	}
	hand(b, 0, sent[5])
	hand(a, 0, take(t, b, 1)...)
	if again := take(t, a, 1)[0]; again.BTH.PSN != 2 {
		t.Errorf("sent again: %d", again.BTH.PSN)
	}
	for now := a.NextExpiry(); cqs[0][0].n == 0; now = a.NextExpiry() {
		a.DoDueWork(now)
		hand(b, now, take(t, a, 1)...)
		hand(a, now, take(t, b, 1)...)
	}
	if n := a.Counters().LocalAckTimeoutErr; n != 2 {
		t.Errorf("%d timeouts", n)
	}
}

// TestBitmaps: each of the paper's five bitmaps has a bit for each packet of the window, in words;
// kept packets are counted.
func TestBitmaps(t *testing.T) {
	for window, want := range map[int]int{FromPath: 128, 1: 32, 32: 32, 33: 64, 0: 1 << 14} {
		s := irnDefaults("", 0).(*IRNSettings)
		s.Window = window
		ends, _, _ := joined(t, [2]func() Recovery{s.New, NewGoBackN}, nil)
		if b := ends[0].Status().Bitmaps; b.Count != 5 || b.Bits != want || b.Bytes() != 5*want/8 || b.Kept != 0 {
			t.Errorf("window %d: %+v", window, b)
		}
		if b := ends[1].Status().Bitmaps; b != (Bitmaps{}) {
			t.Errorf("go-back-N: %+v", b)
		}
	}
	ends, _, _ := joined(t, [2]func() Recovery{paper, paper}, nil)
	post(t, ends[0], SendWR{Op: Write, SGL: []memory.SGE{{Length: 3 * 256, LKey: localKey}}, RKey: targetKey})
	hand(ends[1], 0, take(t, ends[0], 3)[1:]...)
	if b := ends[1].Status().Bitmaps; b.Kept != 2 {
		t.Errorf("%+v", b)
	}
	if s := ends[1].State(); s != qp.RTS {
		t.Error(s)
	}
}

// TestIRNResets: queue pairs that are reset while packets are under way in both directions, or
// kept, have no trace of them when they are used again.
func TestIRNResets(t *testing.T) {
	for stop := range 12 {
		ends, m, cqs := paired(t, 2)
		a, b := ends[0], ends[1]
		into := m[0].bytes(0, 1<<12, memory.LocalWrite)
		m[1].bytes(0, 1, 0)
		filled(m[1], 0, 1<<12, open)
		work := func() {
			post(t, a, SendWR{Op: Read, SGL: []memory.SGE{{Length: 3 * 256, LKey: localKey}}, RKey: targetKey})
			post(t, a, SendWR{Op: FetchAdd, SGL: []memory.SGE{{VA: 2048, Length: 8, LKey: localKey}}, RKey: targetKey, RemoteVA: 3840, Swap: 1})
			post(t, a, SendWR{Op: Write, SGL: []memory.SGE{{Length: 600, LKey: localKey}}, RKey: targetKey, RemoteVA: 3000})
		}
		work()
		var last []*QP
		for i := 0; i < stop; i++ { // each second packet is lost
			for _, q := range ends {
				if q.Offer().Kind != Nothing {
					p := take(t, q, 1)
					if last = append(last, q); len(last)%2 == 0 {
						hand(ends[1-q.Number()], 0, p...)
					}
				}
			}
		}
		for i, q := range ends {
			if err := q.Modify(qp.Reset, Attr{}); err != nil {
				t.Fatal(err)
			}
			if q.IsBusy() || q.NextExpiry() != units.Never || q.Status().Bitmaps.Kept > 0 {
				t.Fatalf("after %d: %+v", stop, q.Status())
			}
			for s := qp.Init; s <= qp.RTS; s++ {
				if err := q.Modify(s, Attr{
					Access: open, DestQP: uint32(1 - i), PathMTU: 512, RQPSN: PSN(3 + 90*i), SQPSN: PSN(93 - 90*i),
					Timeout: 8, RetryCount: 7, MaxRdAtomic: 2, MaxDestRdAtomic: 2,
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		clear(into)
		done := cqs[0][0].n
		work()
		for busy := true; busy; {
			busy = false
			for i, q := range ends {
				for q.Offer().Kind != Nothing {
					hand(ends[1-i], 0, take(t, q, 1)...)
					busy = true
				}
			}
		}
		if c := cqs[0][0]; c.n != done+3 || c.failed > 0 || into[0] != 1 || into[512] != 3 || a.IsBusy() || b.IsBusy() {
			t.Errorf("after %d: %+v, %d and %d came", stop, c, into[0], into[512])
		}
	}
}
