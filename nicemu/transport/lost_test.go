package transport

import (
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// recoveries are the loss recoveries, by name. IRN comes with each way to place packets.
var recoveries = map[string]func() Recovery{
	"go-back-n":    NewGoBackN,
	"connectx-3":   withWindow(0).New,
	"irn":          paper,
	"irn in order": irnInOrder,
}

func irnInOrder() Recovery {
	s := irnDefaults("", 0).(*IRNSettings)
	s.Placement = PlaceOrdered
	return s.New()
}

// addRequest appends a work request for n bytes to the work of s.
func (s *agent) addRequest(op Op, va, n int) {
	wr := SendWR{ID: uint64(len(s.work)), Op: op, Flags: Signaled, RemoteVA: uint64(va), RKey: targetKey, Imm: uint32(va), Swap: 1, SGL: []memory.SGE{s.allocBuffer(n)}}
	if op.isWrite() {
		wr.Flags |= Fence
	}
	var room []memory.SGE
	if op.isSend() {
		room = []memory.SGE{s.peer.allocBuffer(n)}
	}
	s.addWork(wr, room)
}

// newBusyPair makes a pair whose sides have each kind of work for the other, in messages of one
// packet and of several.
func newBusyPair(t testing.TB, recovery func() Recovery) *pair {
	t.Helper()
	p := newAgents(1, faults{}, 16<<10)
	for i := range p.sides {
		p.connect(t, i, Config{Recovery: recovery}, Delays{}, Attr{PathMTU: 256, MaxRdAtomic: 2, MaxDestRdAtomic: 2})
	}
	for _, s := range p.sides {
		s.addRequest(Write, 0, 600)
		s.addRequest(Write, 100, 100)
		s.addRequest(Send, 0, 700)
		s.addRequest(Read, 0, 600)
		s.addRequest(WriteImm, 1000, 10)
		s.addRequest(FetchAdd, 0, 8)
		s.addRequest(SendImm, 0, 40)
		s.addRequest(CompareSwap, 8, 8)
		s.addRequest(Write, 50, 1000)
	}
	return p
}

// TestLossRecovery_CompletesEverythingWhicheverPacketIsLost loses each packet of an exchange once:
// everything completes once and in order, and what was lost is sent again.
func TestLossRecovery_CompletesEverythingWhicheverPacketIsLost(t *testing.T) {
	for name, recovery := range recoveries {
		t.Run(name, func(t *testing.T) {
			for n, packets := 0, 1; n <= packets; n++ { // none is lost at first
				p := newBusyPair(t, recovery)
				request := -1 // the side whose request is lost
				p.channel.each = func(from int, packet *roce.Packet) {
					operation := packet.BTH.Opcode.Operation()
					if p.channel.sent == n && !isResponse(operation) && operation != roce.Nack && operation != roce.ReadAck {
						request = from
					}
				}
				p.channel.fate = func(sent int) fate { return fate{lost: sent == n} }
				if !p.channel.run(units.Second) {
					t.Fatalf("without packet %d it does not come to an end", n)
				}
				for _, s := range p.sides {
					s.checkWhole(t)
				}
				if request >= 0 && p.sides[request].qp.Retransmitted() == 0 {
					t.Errorf("packet %d, a request, was lost and not sent again", n)
				}
				if n == 0 {
					packets = p.channel.sent
				}
			}
		})
	}
}

// newXRCPair makes an initiator with work of each kind, and its target.
func newXRCPair(t testing.TB, recovery func() Recovery) *pair {
	t.Helper()
	p := newAgents(1, faults{}, 16<<10)
	a, b := p.sides[0], p.sides[1]
	b.shared = &posted{}
	for i, c := range []Config{
		{Memory: a.memory, SendCQ: sends{a}, MaxSend: 5, MaxSGE: 3},
		{Domain: domainOf(Destination{5, b.memory, b.shared, recvs{b}})},
	} {
		c.Service, c.Number, c.Recovery = roce.XRC, uint32(i), recovery
		q, err := New(c)
		for state := qp.Init; state <= qp.RTS && err == nil; state++ {
			err = q.Modify(state, Attr{
				PathMTU: 256, MaxRdAtomic: 2, MaxDestRdAtomic: 2, Access: open, DestQP: uint32(1 - i), MinRNRTimer: 1, Timeout: 8, RetryCount: 7, RNRRetry: infinite,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		p.sides[i].qp, p.channel.ends[i] = q, q
	}
	for op := Send; op <= FetchAdd; op++ {
		if op != SendInvalidate {
			n := 600
			if op.isAtomic() {
				n = atomicLen
			}
			a.addRequest(op, 8*int(op), n)
		}
	}
	for i := range a.work {
		a.work[i].SRQ = 5
	}
	return p
}

// TestXRC_CompletesEverythingWhicheverPacketIsLost is the same for an XRC initiator and its target.
func TestXRC_CompletesEverythingWhicheverPacketIsLost(t *testing.T) {
	for _, name := range []string{"go-back-n", "connectx-3"} {
		t.Run(name, func(t *testing.T) {
			for n, packets := 0, 1; n <= packets; n++ { // none is lost at first
				p := newXRCPair(t, recoveries[name])
				p.channel.each = func(_ int, packet *roce.Packet) {
					if packet.BTH.Opcode.Service() != roce.XRC {
						t.Errorf("a packet is a %v", packet.BTH.Opcode)
					}
				}
				p.channel.fate = func(sent int) fate { return fate{lost: sent == n} }
				if !p.channel.run(units.Second) {
					t.Fatalf("without packet %d it does not come to an end", n)
				}
				p.sides[0].checkWhole(t)
				if n == 0 {
					packets = p.channel.sent
				}
			}
		})
	}
}

// TestLossRecovery_GivesUpWhenTheChannelDies lets the channel lose everything from some packet on:
// both queue pairs give up, and their completions are true.
func TestLossRecovery_GivesUpWhenTheChannelDies(t *testing.T) {
	for name, recovery := range recoveries {
		if name == "irn" {
			continue // what it places out of order may have arrived before what failed
		}
		t.Run(name, func(t *testing.T) {
			for alive := range 20 {
				p := newBusyPair(t, recovery)
				p.channel.fate = func(n int) fate { return fate{lost: n > alive} }
				if !p.channel.run(10 * units.Second) {
					t.Fatalf("after %d packets it does not come to an end", alive)
				}
				for _, s := range p.sides {
					if s.qp.State() != qp.Err {
						t.Fatalf("after %d packets %s is in %v", alive, s.name, s.qp.State())
					}
					s.checkFailed(t, cq.RetryExcErr)
				}
			}
		})
	}
}
