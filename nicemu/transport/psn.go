package transport

import "github.com/weftlab/weft/protocols/roce"

// PSN is a packet sequence number, 24 bits, that wraps (§9.7.1).
type PSN uint32

// windowLimit is how many PSNs may be outstanding: half of all, so that the
// responder can tell new ones from old ones (§9.7.1).
const windowLimit = 1 << 23

// Add gives the PSN n behind p.
func (p PSN) Add(n uint32) PSN { return (p + PSN(n)) & roce.PSNMask }

// From gives how far p lies behind base, 0 to 2²⁴ − 1.
func (p PSN) From(base PSN) uint32 { return uint32(p-base) & roce.PSNMask }

// psnOf is the packet sequence number of a packet.
func psnOf(p *roce.Packet) PSN { return PSN(p.BTH.PSN) }

// Before tells whether p lies in the half of all PSNs in front of q.
func (p PSN) Before(q PSN) bool { return int32(p-q)<<8 < 0 }
