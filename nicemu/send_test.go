package nicemu

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// fixed is a rate control with a rate and a window that do not change by
// themselves.
type fixed struct {
	cc.NopControl
	rate   units.Rate
	window units.Bytes
	acks   []cc.Ack
}

func (f *fixed) Rate() units.Rate              { return f.rate }
func (f *fixed) Window() units.Bytes           { return f.window }
func (f *fixed) OnAck(_ units.Time, a *cc.Ack) { f.acks = append(f.acks, *a) }
func (w *world) write(a, b *host, q *QP, n units.Bytes) {
	post(w.t, q, transport.SendWR{Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, n)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
}

// departures returns when packets of requests for a queue pair left.
func (w *world) departures(from int, number uint32) (at []units.Time) {
	for _, s := range w.log {
		if s.from == from && s.qp == number && roce.Opcode(s.opcode).Operation() != roce.Ack {
			at = append(at, s.at)
		}
	}
	return at
}

// TestPacing checks that packets are spaced by the rate, and follow its changes.
func TestPacing(t *testing.T) {
	f := &fixed{rate: 2500 * units.Mbps}
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return f }))
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 20*1024)
	first := packet.OnWire(14 + 20 + 8 + 12 + 16 + 1024 + 4)
	middle := packet.OnWire(14 + 20 + 8 + 12 + 1024 + 4)
	w.run(20 * units.Microsecond)
	f.rate = 5 * units.Gbps
	w.run(units.Second)
	at := w.departures(0, y.Number())
	if len(at) != 20 {
		t.Fatalf("%d packets left", len(at))
	}
	slow := 0
	for i := 1; i < len(at); i++ {
		size := middle
		if i == 1 {
			size = first
		}
		gap := at[i] - at[i-1]
		switch {
		case gap == (2500 * units.Mbps).TimeOf(size):
			slow++
		case gap != (5*units.Gbps).TimeOf(size) && at[i-1] > 20*units.Microsecond:
			t.Errorf("packet %d left %v behind the one before", i, gap)
		}
	}
	// 20 us have room for 5 gaps of 3.5 us; a packet that waits at the change still has the old
	// gap, since the NIC is not told of it.
	if slow != 6 {
		t.Errorf("%d gaps at the slow rate", slow)
	}
}

// TestIdleDoesNotSaveUp posts after a pause: the first two packets are also spaced by the rate.
func TestIdleDoesNotSaveUp(t *testing.T) {
	f := &fixed{rate: units.Gbps}
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return f }))
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	for range 2 {
		w.run(w.engine.Now() + units.Millisecond)
		w.log = nil
		w.write(a, b, x, 4096)
		w.run(w.engine.Now() + units.Millisecond)
		at := w.departures(0, y.Number())
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 8*units.Microsecond {
				t.Errorf("packet %d left %v behind the one before", i, gap)
			}
		}
	}
}

// TestWindow checks that data in flight stays within a window.
func TestWindow(t *testing.T) {
	f := &fixed{window: 4000}
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return f }), func(s *Settings, _ *Env) { s.AckEvery = 1 })
	w.delay = 100 * units.Microsecond
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 20*1024)
	w.run(90 * units.Microsecond)
	if n := len(w.departures(0, y.Number())); n != 3 {
		t.Errorf("%d packets left in the first round trip, want 3", n)
	}
	w.run(units.Second)
	if n := len(w.departures(0, y.Number())); n != 20 {
		t.Errorf("%d packets left", n)
	}
	last := f.acks[len(f.acks)-1]
	if last.Acked != 20*1024 || last.Sent != 20*1024 || last.RTT < 200*units.Microsecond || last.RTT > 210*units.Microsecond {
		t.Errorf("the last acknowledgement was %+v", last)
	}
}

// TestSharesAreOfBytes has queue pairs of different path MTUs on a full line.
func TestSharesAreOfBytes(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	var numbers []uint32
	for _, mtu := range []qp.MTU{qp.MTU256, qp.MTU512, qp.MTU1024, qp.MTU1024} {
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, mtu, false)
		numbers = append(numbers, y.Number())
		for range 60 {
			w.write(a, b, x, 60000)
		}
	}
	w.run(2 * units.Millisecond)
	bytes := map[uint32]units.Bytes{}
	var all units.Bytes
	for _, s := range w.log {
		if s.from == 0 {
			bytes[s.qp] += s.size
			all += s.size
		}
	}
	for _, n := range numbers {
		if share := float64(bytes[n]) / float64(all); share < 0.248 || share > 0.252 {
			t.Errorf("queue pair %d has %.4f of the bytes", n, share)
		}
	}
}

// TestClasses sends with two address vectors of different DSCPs: each goes to its lane, and a
// paused one does not hold up the other.
func TestClasses(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	plain, lossless := [2]*QP{a.qp(qp.RC), b.qp(qp.RC)}, [2]*QP{a.qp(qp.RC), b.qp(qp.RC)}
	for _, c := range []struct {
		qps  [2]*QP
		dscp uint8
	}{{plain, 0}, {lossless, 26}} {
		for i, q := range c.qps {
			if err := q.Join(Join{Local: v4(i), Remote: v4(1 - i), RemoteQPN: c.qps[1-i].Number(), Access: memory.RemoteWrite, DSCP: c.dscp}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.ports[0].paused[3] = true
	w.write(a, b, lossless[0], 10000)
	w.write(a, b, plain[0], 10000)
	w.run(units.Millisecond)
	expect(t, "while class 3 is paused", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
	if n := len(w.departures(0, lossless[1].Number())); n != 0 {
		t.Errorf("%d packets left in a paused class", n)
	}
	w.ports[0].paused[3] = false
	w.ports[0].start(w.engine.Now())
	w.run(2 * units.Millisecond)
	expect(t, "after it", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
	for _, s := range w.log {
		if want := s.qp == lossless[0].Number() || s.qp == lossless[1].Number(); want != (s.prio == 3) {
			t.Fatalf("a packet for queue pair %d went out by class %d", s.qp, s.prio)
		}
	}
}

// TestAckClass: acknowledgements, NAKs and responses of atomics leave with their DSCP, in their
// class, all other packets with that of the data. While either class is paused, the other goes on,
// and nothing of the paused one leaves.
func TestAckClass(t *testing.T) {
	w := newWorld(t, 2, withAckClass)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	write := func(q *QP, from, to *host) {
		post(t, q, transport.SendWR{Op: transport.Write, SGL: []memory.SGE{from.mr.SGE(0, 50000)}, RemoteVA: to.mr.Addr(0), RKey: to.mr.RKey()})
	}
	packets := func() (acks, data int) {
		t.Helper()
		for _, s := range w.log {
			prio, tos := uint8(0), uint8(0)
			if o := roce.Opcode(s.opcode).Operation(); o == roce.Ack || o == roce.AtomicAck {
				prio, tos = 3, 26<<2
			}
			if s.prio != prio || s.tos != tos {
				t.Errorf("%v by class %d with ToS %#x, want %d, %#x", roce.Opcode(s.opcode), s.prio, s.tos, prio, tos)
			}
			if s.from == 1 && prio == 3 {
				acks++
			} else if s.from == 1 {
				data++
			}
		}
		w.log = nil
		return acks, data
	}
	// The peer's own data is paused, but its acknowledgements are not.
	w.ports[1].paused[0] = true
	write(x, a, b)
	write(y, b, a)
	w.run(200 * units.Microsecond)
	expect(t, "while data is paused", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
	if acks, data := packets(); acks == 0 || data != 0 {
		t.Errorf("%d acknowledgements and %d other packets while data is paused", acks, data)
	}
	// The other way round: data passes a waiting acknowledgement.
	w.ports[1].paused[0], w.ports[1].paused[3] = false, true
	write(x, a, b)
	w.ports[1].start(w.engine.Now())
	w.run(400 * units.Microsecond)
	expect(t, "while acknowledgements are paused", b.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
	expect(t, "while acknowledgements are paused", a.poll())
	if acks, data := packets(); acks != 0 || data != 49 || !y.urgent {
		t.Errorf("%d acknowledgements and %d other packets while those are paused; urgent %v", acks, data, y.urgent)
	}
	// A READ's response stays behind it, since responses leave in order of PSNs.
	post(t, x, transport.SendWR{ID: 1, Op: transport.Read, SGL: []memory.SGE{a.mr.SGE(0, 1000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	w.run(500 * units.Microsecond)
	expect(t, "a READ behind it", a.poll())
	w.ports[1].paused[3] = false
	w.ports[1].start(w.engine.Now())
	w.run(600 * units.Microsecond)
	expect(t, "after it", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0", "1 IBV_WC_SUCCESS IBV_WC_RDMA_READ 1000")
	// Responses of atomics are acknowledgements; a destroyed queue pair leaves no trace.
	post(t, x, transport.SendWR{ID: 2, Op: transport.FetchAdd, SGL: []memory.SGE{a.mr.SGE(0, 8)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey(), Swap: 1})
	w.run(700 * units.Microsecond)
	expect(t, "an atomic", a.poll(), "2 IBV_WC_SUCCESS IBV_WC_FETCH_ADD 8")
	if acks, data := packets(); acks != 2 || data != 1 {
		t.Errorf("%d acknowledgements and %d other packets of the READ and the atomic", acks, data)
	}
	w.ports[1].paused[3] = true
	write(x, a, b)
	w.run(900 * units.Microsecond)
	if err := y.Destroy(); err != nil {
		t.Fatal(err)
	}
	if l := &b.lanes[3]; l.urgent.Len() > 0 || l.fed != 0 {
		t.Errorf("the lane of a queue pair that is destroyed has %v to send", l.fed)
	}
	b.soundLanes(t)
}

// TestMarksBecomeCNPs marks every packet of a WRITE and of a READ: CNPs go to the sender of the
// data, at most every 4 us, in their class, and slow it down.
func TestMarksBecomeCNPs(t *testing.T) {
	for _, op := range []transport.Op{transport.Write, transport.Read} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWorld(t, 2, withDCQCN)
			w.touch = func(_ int, p *packet.Packet) bool {
				if p.Size > 1000 && !p.MarkCE() {
					t.Fatal("a packet is not ECN-capable")
				}
				return true
			}
			a, b := w.host(0), w.host(1)
			x, y := a.qp(qp.RC), b.qp(qp.RC)
			join(t, x, y, qp.MTU1024, false)
			post(t, x, transport.SendWR{Op: op, SGL: []memory.SGE{a.mr.SGE(0, 60000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
			w.run(20 * units.Microsecond)
			from, to := a, b
			slowed := x
			if op == transport.Read {
				from, to, slowed = b, a, y
			}
			if r, _ := slowed.Rate(); r >= lineRate {
				t.Errorf("the rate is still %v", r)
			}
			w.run(units.Second)
			var last units.Time
			n := 0
			for _, s := range w.log {
				if roce.Opcode(s.opcode) != roce.NotifyCongestion {
					continue
				}
				if s.prio != 6 || s.from != to.index(w) || s.tos != 48<<2|wire.ECT0 {
					t.Errorf("a CNP of NIC %d by class %d, ToS %#x", s.from, s.prio, s.tos)
				}
				if n > 0 && s.at-last < 4*units.Microsecond {
					t.Errorf("a CNP %v behind the one before", s.at-last)
				}
				n++
				last = s.at
			}
			sender, _ := from.Counters()
			receiver, _ := to.Counters()
			if n < 10 || sender.RPCNPHandled != uint64(n) || receiver.NPCNPSent != uint64(n) || receiver.NPECNMarked < 58 {
				t.Errorf("%d CNPs; handled %d, sent %d, marked %d", n, sender.RPCNPHandled, receiver.NPCNPSent, receiver.NPECNMarked)
			}
		})
	}
}

func (h *host) index(w *world) int {
	for i, c := range w.ports {
		if c.device == h.Device {
			return i
		}
	}
	return -1
}

// TestNoControlNoECN: without rate control packets are not ECN-capable and marks
// are not answered.
func TestNoControlNoECN(t *testing.T) {
	w := newWorld(t, 2)
	w.touch = func(_ int, p *packet.Packet) bool {
		if p.ECN() != wire.NotECT {
			t.Fatal("a packet is ECN-capable")
		}
		p.TOS |= wire.CE
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 60000)
	w.run(units.Second)
	if c, _ := b.Counters(); c.NPCNPSent != 0 || c.NPECNMarked == 0 {
		t.Errorf("%d CNPs for %d marks", c.NPCNPSent, c.NPECNMarked)
	}
}

// TestLostCNPIsForNobody sends CNPs for no queue pair.
func TestLostCNPIsForNobody(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	p := b.makeCNP(y)
	p.RoCE.BTH.DestQP = 0x777
	a.ReceivePacket(0, p)
	p = b.makeCNP(y)
	p.RoCE.Addresses = packet.NewAddresses(v4(5), p.RoCE.To)
	a.ReceivePacket(0, p)
	if c, _ := a.Counters(); c.RPCNPIgnored != 2 || c.RPCNPHandled != 0 {
		t.Errorf("ignored %d, handled %d", c.RPCNPIgnored, c.RPCNPHandled)
	}
}

// TestPacketsDoNotAllocate runs a WRITE with real bytes under DCQCN.
func TestPacketsDoNotAllocate(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	for _, c := range w.ports {
		c.inFlight, c.due = make([]*packet.Packet, 0, 1<<20), make([]units.Time, 0, 1<<20)
	}
	w.log = make([]sent, 0, 1<<20)
	run := func() {
		w.write(a, b, x, 60000)
		w.run(w.engine.Now() + units.Millisecond)
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 1 { // the list of the work request
		t.Errorf("a WRITE of 59 packets allocates %v times", n)
	}
	a.poll()
}

// TestIdleQueuePairIsSmall adds up the memory of a queue pair.
func TestIdleQueuePairIsSmall(t *testing.T) {
	w := newWorld(t, 1, withDCQCN)
	a := w.host(0)
	const n = 1000
	before := heap()
	for range n {
		q := a.qp(qp.RC)
		if err := q.Join(Join{Local: v4(0), Remote: v4(0), RemoteQPN: q.Number(), Access: memory.RemoteWrite}); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / n
	t.Logf("an idle queue pair in RTS takes %d B, of which its struct %d", each, unsafe.Sizeof(QP{}))
	if each > 2048 {
		t.Errorf("an idle queue pair takes %d B", each)
	}
	if fmt.Sprint(a.numbers.allQPs()[n-1].State()) != "RTS" {
		t.Error("not in RTS")
	}
}
