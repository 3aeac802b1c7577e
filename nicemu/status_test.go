package nicemu

import (
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

func counter(t *testing.T, d *Device, name string) (v uint64) {
	t.Helper()
	found := false
	d.EachCounter(func(n string, x uint64) {
		if n == name {
			v, found = x, true
		}
	})
	if !found {
		t.Fatalf("there is no counter %s", name)
	}
	return v
}

// TestStatus follows a queue pair from RESET through a lost acknowledgement and a
// receiver that is not ready.
func TestStatus(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	a, b := w.host(0), w.host(1)
	qa, qb := a.qp(qp.RC), b.qp(qp.RC)
	if s := qa.Status(); s.Remote.IsValid() || s.AckDeadline != units.Never || s.RNRDeadline != units.Never || s.Gauges != nil || s.Posted != 0 || s.Rate != 0 {
		t.Errorf("in RESET: %+v", s)
	}
	join(t, qa, qb, qp.MTU1024, false)
	s := qa.Status()
	if s.Local != v4(0) || s.Remote != v4(1) || s.Window != (transport.Window{Una: 7, Next: 7}) || s.Expected != 7 || s.Rate != lineRate || s.Retries != 7 || s.TOS&3 != 2 {
		t.Errorf("in RTS: %+v", s)
	}
	if len(s.Gauges) != 1 || s.Gauges[0].Value != 0 || qa.IsLimited() {
		t.Errorf("DCQCN at the start: %+v", s.Gauges)
	}

	// A SEND without a posted receive, and a READ after it.
	post(t, qa, transport.SendWR{ID: 1, Op: transport.Send, SGL: []memory.SGE{a.mr.SGE(0, 3000)}})
	post(t, qa, transport.SendWR{ID: 2, Op: transport.Read, SGL: []memory.SGE{a.mr.SGE(0, 2000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	if s := qa.Status(); s.Posted != 2 || s.InFlight != 1024 || s.AckDeadline == units.Never {
		t.Errorf("posted: %+v", s)
	}
	w.run(w.engine.Now() + 20*units.Microsecond)
	if s := qa.Status(); s.Posted != 2 || s.Window != (transport.Window{Una: 7, Next: 12}) || s.InFlight != 3000 || s.Fetching != 1 ||
		s.RNRDeadline == units.Never || s.AckDeadline != units.Never {
		t.Errorf("with an RNR NAK: %+v", s)
	}
	recv(t, qb, 9, b.mr.SGE(0, 4000))
	recv(t, qb, 10, b.mr.SGE(0, 4000))
	if s := qb.Status(); s.Receives != 2 || s.Expected != 7 {
		t.Errorf("with receives: %+v", s)
	}
	// Nothing gets through any more.
	w.touch = func(from int, _ *packet.Packet) bool { return from != 0 }
	w.run(w.engine.Now() + units.Millisecond)
	if s := qa.Status(); s.RNRDeadline != units.Never || s.AckDeadline <= w.engine.Now() || s.Retries != 7 {
		t.Errorf("with the ACK timer: %+v", s)
	}
	w.run(qa.Status().AckDeadline)
	if s := qa.Status(); s.Retries != 6 {
		t.Errorf("after a timeout: %+v", s)
	}
	w.touch = nil
	w.run(w.engine.Now() + 40*units.Millisecond)
	if s := qa.Status(); s.Posted != 0 || s.Window != (transport.Window{Una: 12, Next: 12}) || s.InFlight != 0 || s.Fetching != 0 || s.Retries != 7 || s.AckDeadline != units.Never {
		t.Errorf("done: %+v", s)
	}
	if s := qb.Status(); s.Receives != 1 || s.Expected != 12 || s.MSN != 2 || s.Replying != 0 {
		t.Errorf("done, the peer: %+v", s)
	}

	// A CNP limits the rate.
	p := w.pool.NewRoCE()
	p.RoCE.BTH, p.RoCE.Addresses = roce.CNPHeader(qa.Number()), packet.NewAddresses(v4(1), v4(0))
	a.ReceivePacket(w.engine.Now(), p)
	if s := qa.Status(); len(s.Gauges) != 5 || s.Gauges[0].Value != 1 || s.Rate != lineRate*17/20 || s.Gauges[1].Value != float64(s.Rate) || !qa.IsLimited() {
		t.Errorf("after a CNP: %+v, %+v", s, s.Gauges)
	}
}

// TestInUse counts what is made and what is destroyed.
func TestInUse(t *testing.T) {
	w := newWorld(t, 1)
	h := w.host(0)
	q := h.qp(qp.UD)
	if u := h.InUse(); u != (InUse{QueuePairs: 1, CompletionQueues: 1, ProtectionDomains: 1, MemoryRegions: 1}) {
		t.Errorf("%+v", u)
	}
	if h.QP(q.Number()) != q || h.QP(1) != nil || len(h.QPs()) != 1 {
		t.Errorf("queue pairs %v", h.QPs())
	}
	if err := q.Destroy(); err != nil {
		t.Fatal(err)
	}
	if u := h.InUse(); u.QueuePairs != 0 || len(h.QPs()) != 0 {
		t.Errorf("%+v", u)
	}
}

// TestNothingIsUncounted: packets that a queue pair's state does not take, and those to groups, are
// counted as such.
func TestNothingIsUncounted(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	qa, qb := a.qp(qp.UC), b.qp(qp.UC)
	join(t, qa, qb, qp.MTU1024, false)
	post(t, qa, transport.SendWR{Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 3000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	if err := qb.Modify(qp.Attr{State: qp.Err}, qp.MaskState); err != nil {
		t.Fatal(err)
	}
	w.run(units.Millisecond)
	if n := counter(t, b.Device, "rx_wrong_state"); n != 3 {
		t.Errorf("%d packets for a queue pair in ERR, want 3", n)
	}
	p := w.pool.NewRoCE()
	p.Dst, p.Size = 0x01005e000001, 100
	p.RoCE.BTH = roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly), PKey: roce.DefaultPKey, DestQP: MulticastQPN}
	p.RoCE.Addresses = packet.NewAddresses(v4(0), addr("224.0.0.1"))
	b.ReceivePacket(units.Millisecond, p)
	for name, want := range map[string]uint64{"unicast_rcv_packets": 3, "multicast_rcv_packets": 1, "port_rcv_packets": 4, "unicast_xmit_packets": 0} {
		if n := counter(t, b.Device, name); n != want {
			t.Errorf("%s is %d, want %d", name, n, want)
		}
	}
}
