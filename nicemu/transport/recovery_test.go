package transport

import (
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// capped is go-back-N with a limit of packets in flight and a shorter timeout while few are:
// further decisions of a recovery in addition to retransmission.
type capped struct {
	GoBackN
	limit uint32
}

func (c *capped) Next(w Window) (PSN, bool) {
	psn, ok := c.GoBackN.Next(w)
	return psn, ok && (psn != w.Next || w.Len() < c.limit)
}

func (c *capped) ExpiryTime(w Window, local units.Time) units.Time {
	if w.Len() < 3 {
		return local / 4
	}
	return local
}

func TestRecoveryDecidesWhatIsSentAndWhen(t *testing.T) {
	q, err := New(Config{
		Memory: sizes(), SendCQ: &count{}, RecvCQ: &count{}, MaxSend: 1, MaxSGE: 1,
		Recovery: func() Recovery { return &capped{limit: 4} },
	})
	if err != nil {
		t.Fatal(err)
	}
	for s := qp.Init; s <= qp.RTS; s++ {
		if err := q.Modify(s, Attr{PathMTU: 256, Timeout: 8, RetryCount: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 2560, LKey: localKey}}}); err != nil {
		t.Fatal(err)
	}
	var p roce.Packet
	for i := range uint32(4) {
		want := AckTimeout(8)
		if i > 0 && i < 3 {
			want /= 4
		}
		if got := q.NextExpiry(); i == 0 && got != units.Never || i > 0 && got != want {
			t.Errorf("with %d in flight the timer ends at %v, want %v", i, got, want)
		}
		if !q.Next(0, &p) || p.BTH.PSN != i {
			t.Fatalf("packet %d: %+v", i, p)
		}
	}
	if o := q.Offer(); o.Kind != Nothing {
		t.Errorf("beyond its limit it offers %+v", o)
	}
	q.DoDueWork(AckTimeout(8))
	if !q.Next(AckTimeout(8), &p) || p.BTH.PSN != 0 {
		t.Errorf("after the timeout: %+v", p)
	}
}
