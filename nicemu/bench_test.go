package nicemu

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// BenchmarkManyQueuePairs posts an 8-byte WRITE on one queue pair after another, sends it and polls
// its completion: with one queue pair, and with ten thousand that take turns, or of which one does
// all the work. Acknowledgement timers are armed and left behind all the time.
func BenchmarkManyQueuePairs(b *testing.B) {
	for _, c := range []struct{ n, busy int }{{1, 1}, {100, 100}, {10_000, 10_000}, {10_000, 1}} {
		n := c.n
		b.Run(fmt.Sprintf("%d/%d", n, c.busy), func(b *testing.B) {
			w := newWorld(b, 2, withDCQCN)
			x, y := w.host(0), w.host(1)
			small := qp.Cap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
			var qps []*QP
			for range n {
				var pair [2]*QP
				for i, h := range []*host{x, y} {
					q, err := h.pd.CreateQP(QPConfig{Type: qp.RC, SendCQ: h.cq, RecvCQ: h.cq, SignalAll: true, Cap: small})
					if err != nil {
						b.Fatal(err)
					}
					pair[i] = q
				}
				join(b, pair[0], pair[1], qp.MTU1024, false)
				qps = append(qps, pair[0])
			}
			for _, c := range w.ports {
				c.inFlight, c.due = make([]*packet.Packet, 0, 64), make([]units.Time, 0, 64)
			}
			wr := transport.SendWR{Op: transport.Write, SGL: []memory.SGE{x.mr.SGE(0, 8)}, RemoteVA: y.mr.Addr(0), RKey: y.mr.RKey()}
			var done [4]cq.Completion
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if err := qps[i%c.busy].PostSend(&wr); err != nil {
					b.Fatal(err)
				}
				w.run(w.engine.Now() + 10*units.Microsecond)
				if k, _ := x.cq.Poll(done[:]); k != 1 {
					b.Fatalf("%d completions", k)
				}
				for _, c := range w.ports {
					c.inFlight, c.due = c.inFlight[:0], c.due[:0]
				}
				w.log = w.log[:0]
			}
		})
	}
}
