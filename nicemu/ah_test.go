package nicemu

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// datagrams makes a UD queue pair in RTS.
func (h *host) datagrams() *QP {
	h.t.Helper()
	q := h.qp(qp.UD)
	if err := q.Join(Join{QKey: 0x1234}); err != nil {
		h.t.Fatal(err)
	}
	return q
}

func (h *host) handleTo(av qp.AV) *AH {
	h.t.Helper()
	av.Global, av.Port = true, 1
	ah, err := h.pd.CreateAH(av)
	if err != nil {
		h.t.Fatal(err)
	}
	return ah
}

// TestAHDestroyedUnderWay destroys an address handle with datagrams queued: the next of them fails,
// and a handle made since does not get them.
func TestAHDestroyedUnderWay(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newWorld(t, 3)
		a, b, c := w.host(0), w.host(1), w.host(2)
		x, y, z := a.datagrams(), b.datagrams(), c.datagrams()
		for i := range 10 {
			recv(t, y, uint64(i), b.mr.SGE(0, 2000))
			recv(t, z, uint64(i), c.mr.SGE(0, 2000))
		}
		ah := a.handleTo(qp.AV{DGID: GID(v4(1))})
		for i := range 5 {
			post(t, x, transport.SendWR{ID: uint64(i), SGL: []memory.SGE{a.mr.SGE(0, 1000)}, Path: ah.Path(), DestQP: y.Number(), QKey: 0x1234})
		}
		w.run(1500 * units.Nanosecond) // two have left
		if err := ah.Destroy(); err != nil {
			t.Fatal(err)
		}
		if again {
			a.handleTo(qp.AV{DGID: GID(v4(2))})
		}
		w.run(units.Millisecond)
		expect(t, "sender", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_SEND 0", "1 IBV_WC_SUCCESS IBV_WC_SEND 0", "2 IBV_WC_LOC_QP_OP_ERR", "3 IBV_WC_WR_FLUSH_ERR", "4 IBV_WC_WR_FLUSH_ERR")
		expect(t, "peer", b.poll(), "0 IBV_WC_SUCCESS IBV_WC_RECV 1040", "1 IBV_WC_SUCCESS IBV_WC_RECV 1040")
		expect(t, "bystander", c.poll())
		if x.State() != qp.SQE || w.pool.LivePackets() != 0 {
			t.Errorf("in state %v, %d packets were not given back", x.State(), w.pool.LivePackets())
		}
		// Back to work.
		if err := x.Modify(qp.Attr{State: qp.RTS}, qp.MaskState); err != nil {
			t.Fatal(err)
		}
		ah = a.handleTo(qp.AV{DGID: GID(v4(1))})
		post(t, x, transport.SendWR{ID: 9, SGL: []memory.SGE{a.mr.SGE(0, 1000)}, Path: ah.Path(), DestQP: y.Number(), QKey: 0x1234})
		w.run(2 * units.Millisecond)
		expect(t, "sender", a.poll(), "9 IBV_WC_SUCCESS IBV_WC_SEND 0")
	}
}

// TestSourcePorts checks UDP source ports against Linux's: from a flow label, from the numbers of
// connected queue pairs, and from the number of a UD queue pair.
func TestSourcePorts(t *testing.T) {
	w := newWorld(t, 2)
	var ports []uint16
	w.touch = func(_ int, p *packet.Packet) bool {
		ports = append(ports, p.SrcPort)
		if p.Hash != packet.FlowHash(packet.FoldAddress(p.RoCE.From), packet.FoldAddress(p.RoCE.To), p.Proto, p.SrcPort, p.DstPort) {
			t.Error("the hash is not of the addresses and ports")
		}
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.datagrams(), b.datagrams()
	for _, label := range []uint32{0, 0x12345} {
		post(t, x, transport.SendWR{Inline: []byte("x"), Path: a.handleTo(qp.AV{DGID: GID(v4(1)), FlowLabel: label}).Path(), DestQP: y.Number(), QKey: 0x1234})
		w.run(w.engine.Now() + units.Millisecond)
	}
	x, y = a.qp(qp.UC), b.qp(qp.UC)
	join(t, x, y, qp.MTU1024, false)
	post(t, x, transport.SendWR{Inline: []byte("x")})
	w.run(w.engine.Now() + units.Millisecond)
	number := uint32(17)
	want := []uint16{0xc000 + uint16(number*0x61c88647>>18), 0xc000 | (0x12345&0x3fff ^ 0x12345>>14), 0xc000 | 18*18}
	for i := range want {
		if i >= len(ports) || ports[i] != want[i] {
			t.Errorf("source ports are %v, want %v", ports, want)
			break
		}
	}
}

// TestDestroyLeavesNothingDue destroys queue pairs that wait for an answer: the run then ends.
func TestDestroyLeavesNothingDue(t *testing.T) {
	w := newWorld(t, 2)
	w.touch = func(int, *packet.Packet) bool { return false }
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 1000)
	w.run(units.Millisecond)
	if err := x.Destroy(); err != nil {
		t.Fatal(err)
	}
	fired := w.engine.FiredEvents()
	w.run(units.Second)
	if w.engine.FiredEvents() != fired || a.agenda.LiveTasks() != 0 || a.agenda.Len() != 0 {
		t.Errorf("%d events, %d tasks due, %d in the agenda", w.engine.FiredEvents()-fired, a.agenda.LiveTasks(), a.agenda.Len())
	}
}

// TestOthersAddresses: a packet to an address that the NIC does not have is not for its queue
// pairs, whatever number and key it has; a frame may have been flooded.
func TestOthersAddresses(t *testing.T) {
	w := newWorld(t, 2)
	w.touch = func(_ int, p *packet.Packet) bool {
		p.RoCE.Addresses = packet.NewAddresses(p.RoCE.From, v4(7))
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.datagrams(), b.datagrams()
	recv(t, y, 1, b.mr.SGE(0, 2000))
	ah := a.handleTo(qp.AV{DGID: GID(v4(1))})
	post(t, x, transport.SendWR{Inline: []byte("x"), Path: ah.Path(), DestQP: y.Number(), QKey: 0x1234})
	if err := a.Resolve(netip.AddrPortFrom(v4(1), 5), nil, func(Resolved) {}); err != nil {
		t.Fatal(err)
	}
	w.run(units.Millisecond)
	expect(t, "peer", b.poll())
	if k, _ := b.Counters(); k.WrongAddress != 2 || k.XmitPackets != 0 {
		t.Errorf("%d packets for others, %d answered", k.WrongAddress, k.XmitPackets)
	}
}
