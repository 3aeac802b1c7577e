package nicemu

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Aliases are queue pair numbers that a program assigns itself, in addition to those that queue
// pairs are made with. With them two hosts can agree on each other's numbers in advance, and one
// queue pair can serve one connection after another under the number of each. The peer sees no
// difference.
type aliases struct {
	first uint32 // the first alias; 0 if none are reserved
	find  Finder
	named map[uint32]*QP
}

// UnmatchedPacket is a request packet for an alias without a queue pair.
type UnmatchedPacket struct {
	Number   uint32 // destination queue pair number
	From, To netip.Addr
	Opcode   roce.Opcode
	PSN      uint32
	SrcPort  uint16 // UDP
}

// Finder returns the queue pair that takes a packet; nil drops it, counted as NoQP. It may use the
// NIC, and give the number to the queue pair (Alias) so that it is not asked again. It is called as
// packets arrive, so it must be quick.
type Finder func(now units.Time, s UnmatchedPacket) *QP

// ReserveNumbers sets the numbers from first to MaxNumber aside as aliases. Queue pairs are no longer made
// with them. find may be nil. EINVAL: first is not above the numbers of existing queue pairs, or
// beyond the last one; EBUSY: numbers are already reserved.
func (d *Device) ReserveNumbers(first uint32, find Finder) error {
	switch {
	case d.numbers.aliases.first != 0:
		return fmt.Errorf("%w: %s has its numbers from %#x on reserved already", syscall.EBUSY, d.env.Name, d.numbers.aliases.first)
	case first < firstNumber+uint32(len(d.numbers.slots)) || first > qp.MaxNumber:
		return fmt.Errorf("%w: numbers from %#x on: of %s they can be reserved from %#x to %#x", syscall.EINVAL, first, d.env.Name, firstNumber+len(d.numbers.slots), qp.MaxNumber)
	}
	d.numbers.aliases = aliases{first, find, map[uint32]*QP{}}
	return nil
}

// AddAlias directs packets for a reserved number to a queue pair, in addition to those for its own
// number; nil ends that. The number must be a reserved one. A queue pair is not destroyed while it
// has an alias.
func (d *Device) AddAlias(number uint32, q *QP) {
	if q == nil {
		delete(d.numbers.aliases.named, number)
		return
	}
	d.numbers.aliases.named[number] = q
}

// findUnmatched finds the queue pair for a packet whose number belongs to none.
func (d *Device) findUnmatched(now units.Time, from, to netip.Addr, port uint16, b *roce.Packet) *QP {
	a := &d.numbers.aliases
	if a.find == nil || b.BTH.DestQP < a.first {
		return nil
	}
	return a.find(now, UnmatchedPacket{b.BTH.DestQP, from, to, b.BTH.Opcode, b.BTH.PSN, port})
}

// PSNs returns the PSN of the first packet that has not been sent, and the one expected from the
// peer next: with them, another queue pair can continue the connection (Join.PSN and
// Join.RemotePSN). With IRN they are beyond those of responses too, so that no late response is
// taken for one of the next queue pair's.
func (q *QP) PSNs() (next, expected uint32) {
	n, e := q.engine.Unused()
	return uint32(n), uint32(e)
}

// ExpectedPSN returns the PSN of the next request expected from the peer.
func (q *QP) ExpectedPSN() uint32 { return uint32(q.engine.Expected()) }

// Progress returns the payload of SENDs and WRITEs acknowledged, the payload received and placed,
// in bytes, and the packets retransmitted, all since the queue pair was made.
func (q *QP) Progress() (acked, received, again uint64) {
	return q.engine.Acknowledged(), q.engine.Payload(), q.engine.Retransmitted()
}

// IsQuiet reports whether the queue pair has nothing to send or to wait for: no work request,
// response, acknowledgement or CNP.
func (q *QP) IsQuiet() bool {
	return !q.engine.IsBusy() && (q.layered == nil || !q.layered.Busy()) && q.offer.Kind == transport.Nothing && !q.notified
}

// HoldsResponse reports whether the queue pair can repeat the response to a READ or atomic that includes
// this PSN.
func (q *QP) HoldsResponse(psn uint32) bool { return q.engine.HoldsResponse(transport.PSN(psn)) }
