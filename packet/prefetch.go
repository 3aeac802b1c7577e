package packet

import (
	"unsafe"

	"github.com/weftlab/weft/sim/prefetch"
)

// Part is how much of a packet a node reads.
type Part uintptr

// The parts.
const (
	Forwarded = Part(prefetch.Line)              // a switch
	Delivered = Part(2 * prefetch.Line)          // a host without a NIC
	Received  = Part(unsafe.Sizeof(nicPacket{})) // a NIC: the packet and its RoCE
)

// Prefetch asks the processor for a part of a packet. Of a packet without a RoCE it asks for some
// memory behind it at most, which does no harm.
func (p *Packet) Prefetch(part Part) {
	prefetch.PrefetchBytes(unsafe.Pointer(p), uintptr(part))
}
