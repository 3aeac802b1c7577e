package transport

import (
	"testing"
	"unsafe"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// count is a CQ that counts.
type count struct {
	n, failed int
	last      cq.Completion
}

func (c *count) CompleteRequest(w cq.Completion, _ bool) {
	c.n++
	c.last = w
	if w.Status != cq.Success {
		c.failed++
	}
}

// nopFeedback is a Feedback, so that round trips are measured.
type nopFeedback struct{ rtts int }

func (*nopFeedback) OnSent(units.Time, Sent) {}
func (*nopFeedback) OnLost(units.Time, Lost) {}
func (d *nopFeedback) OnAcked(_ units.Time, a Acked) {
	if a.RTT > 0 {
		d.rtts++
	}
}

// wire is two queue pairs that pass packets to each other, through a ring as long as a window would
// be.
type wire struct {
	now   units.Time
	ends  [2]*QP
	cqs   [2]count
	rings [2]queue.FIFO[roce.Packet]
	sent  int
	local [3]memory.SGE // for a message, for an atomic, for received data

	windows [2]uint32
	grh     [GRHLen]byte
}

func newWire(t testing.TB, service roce.Service, host *host) *wire {
	w := &wire{}
	var recovery func() Recovery
	if service == roce.IRN {
		service, recovery = roce.RC, paper
	}
	for i := range w.ends {
		w.windows[i] = host.window()
		q, err := New(Config{
			Service: service, Recovery: recovery, Number: uint32(i), Memory: host.view(uint32(i)), SendCQ: &w.cqs[i], RecvCQ: &count{},
			MaxSend: 64, MaxRecv: 64, MaxSGE: 4, MaxInline: 64, AckEvery: 8, Feedback: &nopFeedback{},
		})
		if err != nil {
			t.Fatal(err)
		}
		for s := qp.Init; s <= qp.RTS; s++ {
			if err := q.Modify(s, Attr{
				Access: open, DestQP: uint32(1 - i), PathMTU: 1024,
				MaxRdAtomic: 4, MaxDestRdAtomic: 4, Timeout: 14, RetryCount: 7, RNRRetry: 7,
			}); err != nil {
				t.Fatal(err)
			}
		}
		w.ends[i] = q
	}
	return w
}

// drain moves packets until there are none, at most 32 under way in each direction. It drops every
// lose-th packet; 0 means none.
func (w *wire) drain(lose int) {
	for busy := true; busy; {
		busy = false
		for i, q := range w.ends {
			in, out := &w.rings[i], &w.rings[1-i]
			w.now += 100 * units.Nanosecond
			if q.NextExpiry() <= w.now {
				q.DoDueWork(w.now)
			}
			for out.Len() < 32 && q.Offer().Kind != Nothing {
				p := out.PushReused()
				if !q.Next(w.now, p) {
					panic("nothing came of an offer")
				}
				busy = true
				if w.sent++; lose > 0 && w.sent%lose == 0 {
					out.DropLast(1)
				}
			}
			for in.Len() > 0 {
				q.Receive(w.now, in.First(), &w.grh)
				in.DropFirst()
				busy = true
			}
		}
		if !busy && min(w.ends[0].NextExpiry(), w.ends[1].NextExpiry()) != units.Never {
			w.now = min(w.ends[0].NextExpiry(), w.ends[1].NextExpiry())
			busy = true
		}
	}
}

// batch posts some of each operation of the service.
func (w *wire) batch(t testing.TB, length uint32) {
	w.local = [3]memory.SGE{{Length: length, LKey: localKey}, {Length: 8, LKey: localKey}, {Length: length + GRHLen, LKey: localKey}}
	local := &w.local
	for i, q := range w.ends {
		for op := Send; op <= LocalInvalidate; op++ {
			wr := SendWR{Op: op, Flags: Signaled, DestQP: uint32(1 - i), SGL: local[:1], RKey: targetKey}
			if op == SendInvalidate || q.config.Service != roce.RC && op.fetchesData() || q.config.Service == roce.UD && !op.isSend() {
				continue
			}
			if op.isLocal() {
				wr.SGL, wr.RKey = nil, w.windows[i]
				wr.Bind = memory.Binding{Window: w.windows[i], Tag: uint8(w.windows[i]), Region: targetKey, Length: 8}
			}
			if op.isAtomic() {
				wr.SGL = local[1:2]
			}
			if err := q.PostSend(&wr); err != nil {
				t.Fatal(op, err)
			}
			if op.isSend() || op == WriteImm {
				if err := q.PostRecv(&qp.RecvWR{SGL: local[2:]}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestPacketsDoNotAllocate(t *testing.T) {
	bytes := newHost()
	bytes.bytes(0, 1<<16, memory.LocalWrite)
	bytes.bytes(0, 1<<16, open|memory.MWBind)
	for _, c := range []struct {
		name    string
		service roce.Service
		memory  *host
		lose    int
		length  uint32
		chunk   units.Bytes
	}{
		{"RC", roce.RC, newSizes(), 0, 50_000, 0}, {"RC with loss", roce.RC, newSizes(), 97, 50_000, 0},
		{"RC with bytes", roce.RC, bytes, 0, 50_000, 0}, {"UC", roce.UC, newSizes(), 0, 50_000, 0},
		{"UD", roce.UD, newSizes(), 0, 1024, 0}, {"UD with bytes", roce.UD, bytes, 0, 1024, 0},
		{"IRN", roce.IRN, newSizes(), 0, 50_000, 0}, {"IRN with loss", roce.IRN, newSizes(), 97, 50_000, 0},
		{"IRN with bytes and loss", roce.IRN, bytes, 97, 50_000, 0},
		{"RC in chunks", roce.RC, bytes, 97, 50_000, 16 << 10}, {"UC in chunks", roce.UC, bytes, 0, 50_000, 16 << 10},
	} {
		w := newWire(t, c.service, c.memory)
		for _, q := range w.ends {
			if c.chunk > 0 {
				q.chunks = &chunks{size: c.chunk}
			}
		}
		batch := func() {
			w.batch(t, c.length)
			w.drain(c.lose)
		}
		for range 20 { // the kept state grows with the losses
			batch()
		}
		n := testing.AllocsPerRun(50, batch)
		if n > 0 {
			t.Errorf("%s: %v allocations for a batch", c.name, n)
		}
		if w.cqs[0].failed+w.cqs[1].failed > 0 || w.cqs[0].n != w.cqs[1].n || w.cqs[0].n == 0 {
			t.Errorf("%s: completions: %+v", c.name, w.cqs)
		}
		if d := w.ends[0].config.Feedback.(*nopFeedback); c.service == roce.RC && d.rtts == 0 {
			t.Errorf("%s: no round trip was measured", c.name)
		}
	}
}

// owned returns the size of a ring's array.
func owned[T any](r *queue.FIFO[T]) int {
	var zero T
	return r.Cap() * int(unsafe.Sizeof(zero))
}

// TestIdleQueuePairsAreSmall measures a queue pair that has had some messages of each kind and is
// idle again.
func TestIdleQueuePairsAreSmall(t *testing.T) {
	for _, s := range []roce.Service{roce.RC, roce.UC} {
		w := newWire(t, s, newSizes())
		q := w.ends[0]
		size := func() int {
			return int(unsafe.Sizeof(*q)) + int(unsafe.Sizeof(GoBackN{})) + owned(&q.req.queue) + owned(&q.receives) +
				owned(&q.resp.fetches) + len(q.req.stamps)*int(unsafe.Sizeof(stamp{})) + cap(q.resp.recv.SGL)*int(unsafe.Sizeof(memory.SGE{}))
		}
		fresh := size()
		for range 3 {
			if err := q.PostSend(&SendWR{Op: Write, SGL: []memory.SGE{{Length: 3000, LKey: localKey}}, RKey: targetKey}); err != nil {
				t.Fatal(err)
			}
			w.drain(0)
		}
		t.Logf("service %d: %d bytes, after messages %d", s, fresh, size())
		if size() > 1500 {
			t.Errorf("service %d: an idle queue pair takes %d bytes", s, size())
		}
	}
}

// BenchmarkPacket measures a data packet with its share of acknowledgements, from Offer at one end
// to Receive at the other.
func BenchmarkPacket(b *testing.B) {
	bytes := newHost()
	bytes.bytes(0, 1<<20, memory.LocalWrite)
	bytes.bytes(0, 1<<20, open)
	for _, c := range []struct {
		name    string
		service roce.Service
		memory  *host
		op      Op
		length  uint32
	}{
		{"RC/write-1MB", roce.RC, newSizes(), Write, 1 << 20},
		{"RC/write-1MB-bytes", roce.RC, bytes, Write, 1 << 20},
		{"RC/read-1MB", roce.RC, newSizes(), Read, 1 << 20},
		{"RC/write-1KB", roce.RC, newSizes(), Write, 1 << 10},
		{"IRN/write-1MB", roce.IRN, newSizes(), Write, 1 << 20},
		{"IRN/write-1MB-bytes", roce.IRN, bytes, Write, 1 << 20},
		{"IRN/write-1KB", roce.IRN, newSizes(), Write, 1 << 10},
		{"UC/write-1MB", roce.UC, newSizes(), Write, 1 << 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWire(b, c.service, c.memory)
			q := w.ends[0]
			packets := int(q.packetsFor(c.length))
			wr := SendWR{Op: c.op, SGL: []memory.SGE{{Length: c.length, LKey: localKey}}, RKey: targetKey}
			b.ReportAllocs()
			for i := 0; i < b.N; i += packets * 8 {
				for range 8 {
					if err := q.PostSend(&wr); err != nil {
						b.Fatal(err)
					}
				}
				w.drain(0)
			}
		})
	}
}
