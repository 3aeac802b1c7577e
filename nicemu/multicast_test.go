package nicemu

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// TestMulticastOnOneNIC: a packet that a queue pair sends to a group reaches the members on the
// same NIC, itself included unless it was made otherwise, and those of others once.
func TestMulticastOnOneNIC(t *testing.T) {
	for _, c := range []struct {
		name         string
		group        string
		joined, self bool // the sender has joined; it gets its own
		want         int  // of its own messages that the sender gets
	}{
		{"not joined", "239.1.2.3", false, true, 0},
		{"joined", "239.1.2.3", true, true, 2},
		{"joined, by IPv6", "ff0e::1", true, true, 2},
		{"joined, its own blocked", "239.1.2.3", true, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			sent := 0
			w.touch = func(int, *packet.Packet) bool { sent++; return true }
			a, b := w.host(0), w.host(1)
			gid := GID(addr(c.group))
			member := func(h *host, self bool) *QP {
				q, err := h.pd.CreateQP(QPConfig{
					Type: qp.UD, SendCQ: h.cq, RecvCQ: h.cq, BlockSelfMulticast: !self,
					Cap: qp.Cap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
				})
				if err == nil {
					err = q.Join(Join{QKey: 0x1234})
				}
				if err != nil {
					t.Fatal(err)
				}
				for i := range uint64(4) {
					recv(t, q, uint64(q.Number())<<8|i, h.mr.SGE(units.Bytes(i)*100, 100))
				}
				return q
			}
			attach := func(q *QP) {
				if err := q.AttachMcast(gid); err != nil {
					t.Fatal(err)
				}
			}
			x, y, z := member(a, c.self), member(a, false), member(b, false)
			attach(y)
			attach(z)
			if c.joined {
				attach(x)
			}
			all, err := a.pd.CreateAHTo(addr(c.group))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				post(t, x, transport.SendWR{Inline: fmt.Appendf(nil, "message %d", i), Path: all.Path(), DestQP: MulticastQPN, QKey: 0x1234})
			}
			w.run(units.Millisecond)
			got := func(list []cq.Completion, q *QP) (n int) {
				for _, done := range list {
					if done.Opcode == cq.Recv && done.Status == cq.Success && done.QP == q.Number() && done.SrcQP == x.Number() {
						n++
					}
				}
				return n
			}
			here, there := a.poll(), b.poll()
			if own, neighbour, other := got(here, x), got(here, y), got(there, z); own != c.want || neighbour != 2 || other != 2 {
				t.Errorf("of its 2 messages the sender gets %d, its neighbour %d, the other host %d", own, neighbour, other)
			}
			if text := string(a.buf[GRHLen:][:9]); text != "message 0" {
				t.Errorf("the neighbour has %q", text)
			}
			// The loop inside the NIC does not use its port.
			if k, _ := a.Counters(); sent != 2 || k.XmitMcast != 2 || k.XmitPackets != 2 || k.RcvPackets != 0 || w.pool.LivePackets() != 0 {
				t.Errorf("%d packets on the wire, %+v, %d not given back", sent, k, w.pool.LivePackets())
			}
		})
	}
}

// TestMulticast_FromOtherNICs: a queue pair that blocks its own packets gets those of another NIC's
// queue pair with the same number.
func TestMulticast_FromOtherNICs(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	gid := GID(addr("239.1.2.3"))
	var pair [2]*QP
	for i, h := range []*host{a, b} {
		q, err := h.pd.CreateQP(QPConfig{Type: qp.UD, SendCQ: h.cq, RecvCQ: h.cq, BlockSelfMulticast: true, Cap: qp.Cap{MaxSendWR: 1, MaxRecvWR: 1, MaxRecvSGE: 1, MaxInline: 8}})
		if err == nil {
			err = q.Join(Join{QKey: 0x1234})
		}
		if err == nil {
			err = q.AttachMcast(gid)
		}
		if err != nil {
			t.Fatal(err)
		}
		recv(t, q, 1, h.mr.SGE(0, 100))
		pair[i] = q
	}
	if pair[0].Number() != pair[1].Number() {
		t.Fatal("the queue pairs have different numbers, and the test tests nothing")
	}
	all, err := a.pd.CreateAHTo(addr("239.1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	post(t, pair[0], transport.SendWR{Inline: []byte("x"), Path: all.Path(), DestQP: MulticastQPN, QKey: 0x1234})
	w.run(units.Millisecond)
	if n := len(b.poll()); n != 1 {
		t.Errorf("%d completions at the other NIC", n)
	}
}
