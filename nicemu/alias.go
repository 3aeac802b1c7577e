package nicemu

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// Aliases are numbers of queue pairs that a program gives out by itself, beside those
// that queue pairs are made with: so that two hosts know each other's numbers by
// agreement, and so that one queue pair serves one connection after the other under the
// number of each. To the peer there is no difference.
type aliases struct {
	first uint32 // of them; 0 for none
	find  Finder
	named map[uint32]*QP
}

// Stray is a request packet for an alias that stands for no queue pair.
type Stray struct {
	Number   uint32 // that it is for
	From, To netip.Addr
	Opcode   roce.Opcode
	PSN      uint32
	SrcPort  uint16 // UDP
}

// Finder is asked for the queue pair that takes a packet; nil drops it, counted as
// NoQP. It may use the NIC, and give the number to the queue pair (Alias) so that it is
// not asked again. It is called as packets come, so it must be quick.
type Finder func(now units.Time, s Stray) *QP

// Reserve sets the numbers from first on to MaxNumber apart as aliases. Queue pairs are
// not made with them any more. find may be nil. EINVAL: first is not above the numbers
// that queue pairs have, or beyond the last one; EBUSY: that was done before.
func (d *Device) Reserve(first uint32, find Finder) error {
	switch {
	case d.numbers.aliases.first != 0:
		return fmt.Errorf("%w: %s has its numbers from %#x on reserved already", syscall.EBUSY, d.env.Name, d.numbers.aliases.first)
	case first < firstNumber+uint32(len(d.numbers.slots)) || first > qp.MaxNumber:
		return fmt.Errorf("%w: numbers from %#x on: of %s they can be reserved from %#x to %#x", syscall.EINVAL, first, d.env.Name, firstNumber+len(d.numbers.slots), qp.MaxNumber)
	}
	d.numbers.aliases = aliases{first, find, map[uint32]*QP{}}
	return nil
}

// Alias has packets for a reserved number go to a queue pair, beside those for its own;
// nil ends that. The number must be among those that were reserved. A queue pair is not
// destroyed while a number stands for it.
func (d *Device) Alias(number uint32, q *QP) {
	if q == nil {
		delete(d.numbers.aliases.named, number)
		return
	}
	d.numbers.aliases.named[number] = q
}

// stray finds the queue pair for a packet whose number stands for none.
func (d *Device) stray(now units.Time, from, to netip.Addr, port uint16, b *roce.Packet) *QP {
	a := &d.numbers.aliases
	if a.find == nil || b.BTH.DestQP < a.first {
		return nil
	}
	return a.find(now, Stray{b.BTH.DestQP, from, to, b.BTH.Opcode, b.BTH.PSN, port})
}

// PSNs are the PSN of the first packet that has not been sent, and the one that is
// expected of the peer next: with them, a queue pair takes up a connection where another
// has left it (Join.PSN and Join.RemotePSN). With IRN they are behind those of responses
// too, so that none that is late is taken for one of the next queue pair's.
func (q *QP) PSNs() (next, expected uint32) {
	n, e := q.engine.Unused()
	return uint32(n), uint32(e)
}

// Expected is the PSN of the request that is expected of the peer next.
func (q *QP) Expected() uint32 { return uint32(q.engine.Expected()) }

// Progress is the payload of SENDs and WRITEs that was acknowledged, the payload that
// came and was placed, in bytes, and the packets that were sent again, all since the
// queue pair was made.
func (q *QP) Progress() (acked, received, again uint64) {
	return q.engine.Acknowledged(), q.engine.Payload(), q.engine.Retransmitted()
}

// Quiet tells whether the queue pair has nothing to send or to wait for: no work
// request, response, acknowledgement or CNP.
func (q *QP) Quiet() bool {
	return !q.engine.Busy() && (q.layered == nil || !q.layered.Busy()) && q.offer.Kind == transport.Nothing && !q.notified
}

// Holds tells whether the queue pair can repeat the response to a READ or atomic that has
// this PSN in it.
func (q *QP) Holds(psn uint32) bool { return q.engine.Holds(transport.PSN(psn)) }
