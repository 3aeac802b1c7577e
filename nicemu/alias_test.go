package nicemu

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestAliases: two queue pairs that know each other only by reserved numbers exchange data; the
// Finder is asked once for an unassigned number; the connection continues on another queue pair at
// the same PSNs, which treats late packets as duplicates.
func TestAliases(t *testing.T) {
	const here, there = 0x800001, 0xc00001
	w := newWorld(t, 2)
	x, y := w.host(0), w.host(1)
	var unmatched []UnmatchedPacket
	var taker *QP
	find := func(_ units.Time, s UnmatchedPacket) *QP {
		unmatched = append(unmatched, s)
		if taker != nil {
			y.AddAlias(there, taker)
		}
		return taker
	}
	if err := x.ReserveNumbers(0x800000, nil); err != nil {
		t.Fatal(err)
	}
	if err := y.ReserveNumbers(0x800000, find); err != nil {
		t.Fatal(err)
	}
	if err := y.ReserveNumbers(0x900000, find); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("reserved twice: %v", err)
	}
	if err := w.ports[0].device.ReserveNumbers(firstNumber-1, nil); err == nil {
		t.Error("numbers that queue pairs have are reserved")
	}
	a, b, c := x.qp(qp.RC), y.qp(qp.RC), y.qp(qp.RC)
	x.AddAlias(here, a)
	if err := a.Join(Join{Remote: v4(1), RemoteQPN: there, FlowLabel: 5, Access: 0}); err != nil {
		t.Fatal(err)
	}
	var again *packet.Packet
	w.touch = func(from int, p *packet.Packet) bool {
		if from == 0 && again == nil {
			again = w.pool.ClonePacket(p)
		}
		return true
	}
	write := func() []cq.Completion {
		wr := transport.SendWR{Op: transport.Write, SGL: []SGE{x.mr.SGE(0, 3000)}, RemoteVA: y.mr.Addr(0), RKey: y.mr.RKey()}
		if err := a.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + units.Millisecond)
		return x.poll()
	}
	if done := write(); len(done) > 0 || y.counters.NoQP == 0 {
		t.Fatalf("without anybody who takes the packets: %v, %d dropped", done, y.counters.NoQP)
	}
	if s := unmatched[0]; s != (UnmatchedPacket{there, v4(0), v4(1), roce.RC.WithOperation(roce.WriteFirst), 0, 0xc005}) {
		t.Errorf("%+v", s)
	}
	join := func(q *QP, expected uint32) {
		j := Join{Remote: v4(0), RemoteQPN: here, RemotePSN: expected, Access: RemoteWrite}
		if err := q.Join(j); err != nil {
			t.Fatal(err)
		}
		taker, unmatched = q, nil
	}
	join(b, 0)
	w.run(w.engine.Now() + 20*units.Millisecond) // the ACK timeout
	if done := x.poll(); len(done) != 1 || done[0].Status != Success || len(unmatched) != 1 {
		t.Fatalf("%v, asked %d times", done, len(unmatched))
	}
	_, expected := b.PSNs()
	if next, _ := a.PSNs(); next != 3 || expected != 3 || !b.IsQuiet() || !a.IsQuiet() {
		t.Fatalf("PSN %d is next and %d expected, want 3", next, expected)
	}
	y.AddAlias(there, nil)
	join(c, expected)
	// The new queue pair acknowledges a late packet that it has not seen before.
	w.log = nil
	y.ReceivePacket(w.engine.Now(), again)
	w.run(w.engine.Now() + units.Millisecond)
	if slices.IndexFunc(w.log, func(s sent) bool { return s.opcode == uint8(roce.RC.WithOperation(roce.Ack)) && s.qp == here }) < 0 || c.engine.Payload() > 0 {
		t.Errorf("a late duplicate: %v, %d bytes taken", w.log, c.engine.Payload())
	}
	if done := write(); len(done) != 1 || done[0].Status != Success || c.engine.Payload() != 3000 {
		t.Errorf("behind the change: %v, %d bytes taken", done, c.engine.Payload())
	}
	if acked, _, resent := a.Progress(); acked != 6000 || resent == 0 {
		t.Errorf("%d bytes acknowledged, %d packets again", acked, resent)
	}
}
