package cq

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// TestLatency: each entry arrives after its latency and after all entries before it; those of a
// destroyed queue pair vanish; entries made by software arrive at once.
func TestLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SampledFrom([]units.Time{0, 1, us, 7 * us})
		l := Latency{Entry: some.Draw(t, "entry"), Data: some.Draw(t, "data")}
		q, err := New(1<<10, 1<<10, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.SetLatency(l)
		type due struct {
			id uint64
			qp uint32
			at units.Time
		}
		var coming []due
		var here, got []uint64
		var now units.Time
		id := uint64(0)
		come := func() {
			for len(coming) > 0 && coming[0].at <= now {
				here = append(here, coming[0].id)
				coming = coming[1:]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				id++
				c := Completion{ID: id, QP: rapid.Uint32Range(1, 2).Draw(t, "qp"), ByteLen: rapid.Uint32Range(0, 1).Draw(t, "bytes")}
				at := now + l.Entry
				if rapid.IntRange(0, 3).Draw(t, "failed") == 0 {
					c.Status = WRFlushErr
				} else if c.ByteLen > 0 {
					at += l.Data
				}
				if n := len(coming); n > 0 {
					at = max(at, coming[n-1].at)
				}
				coming = append(coming, due{id, c.QP, at})
				q.Push(now, c, false)
				come()
			},
			"deliver": func(*rapid.T) {
				id++
				here = append(here, id)
				q.DeliverEntry(now, Completion{ID: id, QP: 3}, false)
			},
			"pass": func(t *rapid.T) {
				now += some.Draw(t, "time")
				q.ReleaseDue(now)
				come()
			},
			"end": func(t *rapid.T) {
				var batch [1 << 10]Completion // another test checks when they can be polled
				n, _ := q.Poll(batch[:])
				for i := range n {
					got = append(got, batch[i].ID)
				}
				before := len(coming)
				coming = slices.DeleteFunc(coming, func(d due) bool { return d.qp == 1 })
				if n := q.DiscardQP(1); n != before-len(coming) {
					t.Fatalf("%d entries vanish, not %d", n, before-len(coming))
				}
			},
			"": func(t *rapid.T) {
				if q.EntriesInPipe() != len(coming) || q.Len() != len(here)-len(got) {
					t.Fatalf("%d under way and %d here, not %d and %d", q.EntriesInPipe(), q.Len(), len(coming), len(here)-len(got))
				}
				if len(coming) > 0 && q.NextExpiry() != coming[0].at || len(coming) == 0 && q.NextExpiry() != units.Never {
					t.Fatalf("the next comes at %v", q.NextExpiry())
				}
			},
		})
		now += units.Second
		q.ReleaseDue(now)
		come()
		var batch [1 << 10]Completion
		n, _ := q.Poll(batch[:])
		for i := range n {
			got = append(got, batch[i].ID)
		}
		if !slices.Equal(got, here) {
			t.Fatalf("came %v, want %v", got, here)
		}
	})
}
