package nicemu

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

func post(t rapid.TB, q *QP, wr transport.SendWR) {
	t.Helper()
	if err := q.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
}

func recv(t rapid.TB, q *QP, id uint64, list ...memory.SGE) {
	t.Helper()
	if err := q.PostRecv(&qp.RecvWR{ID: id, SGL: list}); err != nil {
		t.Fatal(err)
	}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

// expect compares completions with the expected ones: ID, opcode, status, length.
func expect(t *testing.T, what string, got []cq.Completion, want ...string) {
	t.Helper()
	var have []string
	for _, c := range got {
		s := fmt.Sprintf("%d %v", c.ID, c.Status)
		if c.Status == cq.Success {
			s += fmt.Sprintf(" %v %d", c.Opcode, c.ByteLen)
		}
		have = append(have, s)
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("%s: completions are\n%q, want\n%q", what, have, want)
	}
}

// TestEveryOperation sends each operation of RC over IPv4 and IPv6 and checks its effect on memory,
// with and without loss.
func TestEveryOperation(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprintf("ipv6=%v lossy=%v", six, lossy), func(t *testing.T) {
				w := newWorld(t, 2)
				// At random: loss in a strict rhythm can hit every retry.
				loss := sim.NewRand(1, "loss")
				w.touch = func(_ int, p *packet.Packet) bool { return !lossy || loss.Float64() > 0.09 }
				a, b := w.host(0), w.host(1)
				x, y := a.qp(qp.RC), b.qp(qp.RC)
				join(t, x, y, qp.MTU256, six)
				fill(a.buf[:5000], 1)
				fill(b.buf[20000:24000], 2)
				b.buf[30000] = 5

				recv(t, y, 100, b.mr.SGE(0, 3000), b.mr.SGE(8000, 3000))
				recv(t, y, 101)
				post(t, x, transport.SendWR{ID: 1, Op: transport.SendImm, Imm: 42, SGL: []memory.SGE{a.mr.SGE(0, 5000)}})
				post(t, x, transport.SendWR{ID: 2, Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 1000)}, RemoteVA: b.mr.Addr(40000), RKey: b.mr.RKey()})
				post(t, x, transport.SendWR{ID: 3, Op: transport.WriteImm, Imm: 43, Inline: []byte("inline"), RemoteVA: b.mr.Addr(50000), RKey: b.mr.RKey()})
				post(t, x, transport.SendWR{ID: 4, Op: transport.Read, SGL: []memory.SGE{a.mr.SGE(10000, 4000)}, RemoteVA: b.mr.Addr(20000), RKey: b.mr.RKey()})
				post(t, x, transport.SendWR{ID: 5, Op: transport.FetchAdd, Swap: 3, SGL: []memory.SGE{a.mr.SGE(16000, 8)}, RemoteVA: b.mr.Addr(30000), RKey: b.mr.RKey()})
				post(t, x, transport.SendWR{ID: 6, Op: transport.CompareSwap, Compare: 8, Swap: 99, SGL: []memory.SGE{a.mr.SGE(16008, 8)}, RemoteVA: b.mr.Addr(30000), RKey: b.mr.RKey()})
				w.run(units.Second)

				expect(t, "requester", a.poll(), "1 IBV_WC_SUCCESS IBV_WC_SEND 0", "2 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0", "3 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0",
					"4 IBV_WC_SUCCESS IBV_WC_RDMA_READ 4000", "5 IBV_WC_SUCCESS IBV_WC_FETCH_ADD 8", "6 IBV_WC_SUCCESS IBV_WC_COMP_SWAP 8")
				got := b.poll()
				expect(t, "responder", got, "100 IBV_WC_SUCCESS IBV_WC_RECV 5000", "101 IBV_WC_SUCCESS IBV_WC_RECV_RDMA_WITH_IMM 6")
				if got[0].Imm != 42 || got[1].Imm != 43 {
					t.Errorf("immediate data %d and %d", got[0].Imm, got[1].Imm)
				}
				for _, c := range []struct {
					what string
					x, y []byte
				}{
					{"SEND, first element", a.buf[:3000], b.buf[:3000]},
					{"SEND, second element", a.buf[3000:5000], b.buf[8000:10000]},
					{"WRITE", a.buf[:1000], b.buf[40000:41000]},
					{"WRITE with immediate, inline", []byte("inline"), b.buf[50000:50006]},
					{"READ", b.buf[20000:24000], a.buf[10000:14000]},
					{"atomics", []byte{5, 0, 0, 0, 0, 0, 0, 0, 8, 0}, a.buf[16000:16010]},
					{"what atomics leave", []byte{99, 0}, b.buf[30000:30002]},
				} {
					if !bytes.Equal(c.x, c.y) {
						t.Errorf("%s: bytes differ", c.what)
					}
				}
				counters, _ := x.Counters()
				if lossy == (counters.Retransmitted == 0) {
					t.Errorf("%d packets were sent again", counters.Retransmitted)
				}
				if live := w.pool.LivePackets(); live != 0 {
					t.Errorf("%d packets were not given back", live)
				}
			})
		}
	}
}

// TestDatagrams sends to a host and to a group, and checks the GRH.
func TestDatagrams(t *testing.T) {
	w := newWorld(t, 3)
	a, b, c := w.host(0), w.host(1), w.host(2)
	x, y, z := a.qp(qp.UD), b.qp(qp.UD), c.qp(qp.UD)
	for _, q := range []*QP{x, y, z} {
		if err := q.Join(Join{QKey: 0x1234}); err != nil {
			t.Fatal(err)
		}
	}
	group := GID(addr("239.1.2.3"))
	for _, q := range []*QP{y, z} {
		if err := q.AttachMcast(group); err != nil {
			t.Fatal(err)
		}
	}
	fill(a.buf[:500], 9)
	for i, h := range []*host{b, c} {
		for k := range 3 {
			recv(t, []*QP{y, z}[i], uint64(k), h.mr.SGE(units.Bytes(k)*1000, 600))
		}
	}
	handle := func(to qp.GID, index uint8) *AH {
		h, err := a.pd.CreateAH(qp.AV{Global: true, Port: 1, DGID: to, SGIDIndex: index, TrafficClass: 0x68})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	list := []memory.SGE{a.mr.SGE(0, 500)}
	post(t, x, transport.SendWR{ID: 1, SGL: list, Path: handle(GID(v4(1)), 0).Path(), DestQP: y.Number(), QKey: 0x1234})
	post(t, x, transport.SendWR{ID: 2, SGL: list, Path: handle(GID(v6(1)), 1).Path(), DestQP: y.Number(), QKey: 0x1234})
	post(t, x, transport.SendWR{ID: 3, SGL: list, Path: handle(GID(v4(1)), 0).Path(), DestQP: y.Number(), QKey: 0x9999})
	post(t, x, transport.SendWR{ID: 4, SGL: list, Path: handle(group, 0).Path(), DestQP: MulticastQPN, QKey: 0x1234})
	w.run(units.Millisecond)
	expect(t, "b", b.poll(), "0 IBV_WC_SUCCESS IBV_WC_RECV 540", "1 IBV_WC_SUCCESS IBV_WC_RECV 540", "2 IBV_WC_SUCCESS IBV_WC_RECV 540")
	expect(t, "c", c.poll(), "0 IBV_WC_SUCCESS IBV_WC_RECV 540")
	if !bytes.Equal(b.buf[40:540], a.buf[:500]) || !bytes.Equal(c.buf[40:540], a.buf[:500]) {
		t.Error("bytes differ")
	}
	// An IPv4 header in the last 20 bytes: version, DSCP 26, length, DF, UDP.
	if g := b.buf[20:40]; g[0] != 0x45 || g[1] != 0x68 || int(g[2])<<8|int(g[3]) != 20+8+12+8+500+4 || g[6] != 0x40 || g[9] != 17 || wire.IPv4Checksum(g) != 0 {
		t.Errorf("GRH of IPv4 is % x", g)
	}
	if g := b.buf[1000:1040]; g[0]>>4 != 6 || int(g[4])<<8|int(g[5]) != 8+12+8+500+4 || g[6] != 17 || !bytes.Equal(g[8:24], v6(0).AsSlice()) {
		t.Errorf("GRH of IPv6 is % x", g)
	}
	if _, k := b.Counters(); k.QKeyViolations != 1 {
		t.Errorf("%d Q_Key violations, want 1", k.QKeyViolations)
	}
	if err := y.Destroy(); err == nil {
		t.Error("a queue pair of a group was destroyed")
	}
}

// TestLoopback sends to the NIC itself.
func TestLoopback(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	x, y := a.qp(qp.RC), a.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	fill(a.buf[:10000], 3)
	post(t, x, transport.SendWR{ID: 1, Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 10000)}, RemoteVA: a.mr.Addr(20000), RKey: a.mr.RKey()})
	w.run(units.Second)
	expect(t, "loopback", a.poll(), "1 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
	if !bytes.Equal(a.buf[:10000], a.buf[20000:30000]) {
		t.Error("bytes differ")
	}
	if len(w.log) != 0 || w.pool.LivePackets() != 0 {
		t.Errorf("%d packets left the NIC, %d were not given back", len(w.log), w.pool.LivePackets())
	}
}

// TestForeignPackets sends packets that a queue pair must not take.
func TestForeignPackets(t *testing.T) {
	for name, change := range map[string]func(p *packet.Packet){
		"rx_wrong_address": func(p *packet.Packet) { p.RoCE.Addresses = packet.NewAddresses(v4(7), p.RoCE.To) },
		"bad_pkey_cntr":    func(p *packet.Packet) { p.RoCE.BTH.PKey = 0x7ffe },
		"rx_no_qp":         func(p *packet.Packet) { p.RoCE.BTH.DestQP = 0x999 },
		"rx_trimmed":       func(p *packet.Packet) { p.Trimmed = true },
		"service":          func(p *packet.Packet) { p.RoCE.BTH.Opcode = roce.UC.WithOperation(roce.WriteOnly) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			first := true
			w.touch = func(_ int, p *packet.Packet) bool {
				if first {
					change(p)
					first = false
				}
				return true
			}
			a, b := w.host(0), w.host(1)
			x, y := a.qp(qp.RC), b.qp(qp.RC)
			join(t, x, y, qp.MTU1024, false)
			post(t, x, transport.SendWR{ID: 1, Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 8)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
			w.run(15 * units.Millisecond) // not yet the ACK timeout of 16.8 ms
			expect(t, "before the timeout", a.poll())
			if name == "service" {
				name = "rx_no_qp"
			}
			found := false
			b.EachCounter(func(n string, v uint64) { found = found || n == name && v == 1 })
			if !found {
				t.Errorf("%s is not 1", name)
			}
			w.run(units.Second)
			expect(t, "after it", a.poll(), "1 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
		})
	}
}

// TestErrorsReachBothSides has a peer without rights: statuses, states, events.
func TestErrorsReachBothSides(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	list := []memory.SGE{a.mr.SGE(0, 8)}
	post(t, x, transport.SendWR{ID: 1, Op: transport.Write, SGL: list, RemoteVA: b.mr.Addr(1 << 20), RKey: b.mr.RKey()})
	post(t, x, transport.SendWR{ID: 2, Op: transport.Write, SGL: list, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	w.run(units.Second)
	expect(t, "requester", a.poll(), "1 IBV_WC_REM_ACCESS_ERR", "2 IBV_WC_WR_FLUSH_ERR")
	if x.State() != qp.Err || y.State() != qp.Err {
		t.Errorf("states are %v and %v", x.State(), y.State())
	}
	var kinds []qp.Event
	for e, ok := b.NextEvent(); ok; e, ok = b.NextEvent() {
		kinds = append(kinds, e.Kind)
	}
	if fmt.Sprint(kinds) != "[IBV_EVENT_QP_ACCESS_ERR]" {
		t.Errorf("events are %v", kinds)
	}
	// Recover through RESET.
	for _, q := range []*QP{x, y} {
		if err := q.Modify(qp.Attr{State: qp.Reset}, qp.MaskState); err != nil {
			t.Fatal(err)
		}
	}
	join(t, x, y, qp.MTU1024, false)
	post(t, x, transport.SendWR{ID: 3, Op: transport.Write, SGL: list, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	w.run(2 * units.Second)
	expect(t, "after RESET", a.poll(), "3 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
}

// TestOverrunFailsQueuePairs fills a completion queue that is too short.
func TestOverrunFailsQueuePairs(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	short, err := a.CreateCQ(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := a.cq
	a.cq = short
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	a.cq = long
	join(t, x, y, qp.MTU1024, false)
	for i := range 5 {
		post(t, x, transport.SendWR{ID: uint64(i), Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 8)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	}
	w.run(units.Second)
	if x.State() != qp.Err {
		t.Errorf("the queue pair is in %v", x.State())
	}
	var kinds []qp.Event
	for e, ok := a.NextEvent(); ok; e, ok = a.NextEvent() {
		kinds = append(kinds, e.Kind)
	}
	if fmt.Sprint(kinds) != "[IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL]" {
		t.Errorf("events are %v", kinds)
	}
}

// TestDestroyUnderWay destroys queue pairs with packets under way, which then find no queue pair.
func TestDestroyUnderWay(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	post(t, x, transport.SendWR{ID: 1, Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 60000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	w.run(10 * units.Microsecond)
	for _, q := range []*QP{x, y} {
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
		if err := q.Destroy(); err == nil {
			t.Error("a queue pair was destroyed twice")
		}
	}
	w.run(units.Second)
	if c, _ := b.Counters(); c.NoQP == 0 {
		t.Error("no packet came late")
	}
	if w.pool.LivePackets() != 0 {
		t.Errorf("%d packets were not given back", w.pool.LivePackets())
	}
	if z := a.qp(qp.RC); z.Number() == x.Number() {
		t.Error("the number was used again at once")
	}
}

// TestDatagramWithoutItsHandle destroys an address handle while datagrams posted with it wait: they
// fail, whatever takes the handle's place.
func TestDatagramWithoutItsHandle(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newWorld(t, 2)
		a, b := w.host(0), w.host(1)
		x, y := a.qp(qp.UD), b.qp(qp.UD)
		for _, q := range []*QP{x, y} {
			if err := q.Join(Join{QKey: 1}); err != nil {
				t.Fatal(err)
			}
		}
		h, err := a.pd.CreateAHTo(v4(1))
		if err != nil {
			t.Fatal(err)
		}
		w.ports[0].paused[0] = true
		for id := range uint64(2) {
			recv(t, y, id, b.mr.SGE(0, 100))
			post(t, x, transport.SendWR{ID: id, SGL: []memory.SGE{a.mr.SGE(0, 10)}, Path: h.Path(), DestQP: y.Number(), QKey: 1})
		}
		if err := h.Destroy(); err != nil {
			t.Fatal(err)
		}
		if again {
			if _, err := a.pd.CreateAHTo(v4(1)); err != nil {
				t.Fatal(err)
			}
		}
		w.ports[0].paused[0] = false
		w.ports[0].start(w.engine.Now())
		w.run(units.Millisecond)
		expect(t, "sender", a.poll(), "0 IBV_WC_LOC_QP_OP_ERR", "1 IBV_WC_WR_FLUSH_ERR")
		expect(t, "receiver", b.poll())
		if x.State() != qp.SQE || len(w.log) != 0 || w.pool.LivePackets() != 0 {
			t.Errorf("the queue pair is in %v, %d packets were sent, %d are live", x.State(), len(w.log), w.pool.LivePackets())
		}
	}
}

// The port is DOWN while its link is, with an event for each change; events that nobody takes do
// not pile up.
func TestSetLink_ChangesThePortAndRaisesEvents(t *testing.T) {
	w := newWorld(t, 1)
	d := w.host(0).Device
	told := 0
	d.NotifyEvents(func() { told++ })
	d.SetLink(true)
	if _, ok := d.NextEvent(); ok || !d.QueryPort().Active {
		t.Error("a link that stays up raises an event, or its port is DOWN")
	}
	d.SetLink(false)
	d.SetLink(false)
	if e, ok := d.NextEvent(); !ok || e.Kind != EventPortErr || e.Port != 1 || told != 1 || d.QueryPort().Active {
		t.Errorf("link down: event %+v, %v; %d notifications, port %+v", e, ok, told, d.QueryPort())
	}
	if _, ok := d.NextEvent(); ok {
		t.Error("a second event")
	}
	for range 100 {
		d.SetLink(true)
		d.SetLink(false)
	}
	d.SetLink(true)
	var kinds []EventKind
	for e, ok := d.NextEvent(); ok; e, ok = d.NextEvent() {
		kinds = append(kinds, e.Kind)
	}
	if fmt.Sprint(kinds) != fmt.Sprint([]EventKind{EventPortErr, EventPortActive}) || !d.QueryPort().Active {
		t.Errorf("after many changes the events are %v", kinds)
	}
}
