package nicemu

import (
	"errors"
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// TestNumbers makes and destroys queue pairs: a number rests for long before it is reused, and
// numbers do not grow without end.
func TestNumbers(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	kept := a.qp(qp.RC)
	last := map[uint32]int{kept.Number(): 0}
	highest := uint32(0)
	for i := range 10_000 {
		q := a.qp(qp.RC)
		if before, ok := last[q.Number()]; ok && i-before <= restBefore {
			t.Fatalf("number %d came again after %d others", q.Number(), i-before)
		}
		last[q.Number()] = i
		highest = max(highest, q.Number())
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	if highest > firstNumber+restBefore+2 || len(a.numbers.allQPs()) != 1 || a.numbers.findQP(kept.Number()) != kept {
		t.Errorf("numbers went up to %d, %d are in use", highest, len(a.numbers.allQPs()))
	}
	full := numbers{slots: make([]*QP, qp.MaxNumber-firstNumber+1)}
	if n, ok := full.nextNumber(); ok {
		t.Errorf("all numbers are in use, and the next is %d", n)
	}
	full.freed = append(full.freed, 99)
	if n, ok := full.nextNumber(); !ok || n != 99 {
		t.Errorf("of all numbers one is free, and the next is %d", n)
	}
}

// TestAVChangesWhileDrained moves a queue pair to another class and another IP version while an
// acknowledgement and a CNP wait in paused classes.
func TestAVChangesWhileDrained(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	w.touch = func(_ int, p *packet.Packet) bool {
		p.MarkCE()
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	port := w.ports[1]
	port.paused[0], port.paused[6] = true, true
	w.write(a, b, x, 1000)
	w.run(20 * units.Microsecond)
	if !y.urgent || !y.notified {
		t.Fatal("nothing waits")
	}
	av := qp.AV{Global: true, Port: 1, DGID: GID(v6(0)), SGIDIndex: 1, TrafficClass: 26 << 2}
	for _, c := range []struct {
		attr qp.Attr
		mask qp.Mask
	}{
		{qp.Attr{State: qp.SQD}, qp.MaskState},
		{qp.Attr{State: qp.SQD, AV: av}, qp.MaskState | qp.MaskAV},
		{qp.Attr{State: qp.RTS}, qp.MaskState},
	} {
		if err := y.Modify(c.attr, c.mask); err != nil {
			t.Fatal(err)
		}
	}
	w.run(40 * units.Microsecond)
	list := w.departuresOf(1)
	if len(list) != 1 || list[0].prio != 3 || roce.Opcode(list[0].opcode) != roce.RC.WithOperation(roce.Ack) || list[0].size != 14+40+8+12+4+4 {
		t.Errorf("what left is %+v", list)
	}
	port.paused[0], port.paused[6] = false, false
	port.start(w.engine.Now())
	w.run(60 * units.Microsecond)
	if n := len(w.departuresOf(1)); n != 1 {
		t.Errorf("%d packets left in all", n)
	}
}

// TestAckWaitsInAPausedClass: packets held up in a paused class do not keep other queue pairs from
// sending, and are correct when they leave: one acknowledgement for all.
func TestAckWaitsInAPausedClass(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.ports[1].paused[0] = true
	for range 5 {
		w.write(a, b, x, 1000)
	}
	w.run(100 * units.Microsecond)
	w.ports[1].paused[0] = false
	w.ports[1].start(w.engine.Now())
	w.run(200 * units.Microsecond)
	if n := len(w.departuresOf(1)); n != 1 || len(a.poll()) != 5 {
		t.Errorf("%d acknowledgements left", n)
	}
}

// TestMarksOnTheDead: a queue pair in the error state answers no marks.
func TestMarksOnTheDead(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	w.touch = func(_ int, p *packet.Packet) bool {
		p.TOS |= wire.CE
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	if err := y.Modify(qp.Attr{State: qp.Err}, qp.MaskState); err != nil {
		t.Fatal(err)
	}
	post(t, x, transport.SendWR{Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 5000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
	w.run(units.Second)
	if c, _ := b.Counters(); c.NPCNPSent != 0 || c.NPECNMarked == 0 {
		t.Errorf("%d CNPs for %d marks", c.NPCNPSent, c.NPECNMarked)
	}
	expect(t, "requester", a.poll(), "0 IBV_WC_RETRY_EXC_ERR")
}

// TestOverrun_EndsTheReceiver: a message that overruns the completion queue of its receiver ends the
// queue pair, even if nothing else is to come.
func TestOverrun_EndsTheReceiver(t *testing.T) {
	w := newWorld(t, 2)
	client, b := w.host(0), w.host(1)
	small, err := b.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := b.pd.CreateQP(QPConfig{Type: RC, SendCQ: b.cq, RecvCQ: small, Cap: QPCap{MaxRecvWR: 4, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	x := client.qp(RC)
	join(t, x, q, qp.MTU1024, false)
	for range 2 {
		if err := errors.Join(q.PostRecv(&RecvWR{}), x.PostSend(&SendWR{Op: OpSend})); err != nil {
			t.Fatal(err)
		}
	}
	w.run(units.Millisecond)
	if q.State() != StateErr {
		t.Errorf("it is in %v", q.State())
	}
}
