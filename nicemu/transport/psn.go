package transport

import "github.com/weftlab/weft/wire/roce"

// PSN is a packet sequence number, 24 bits, that wraps (§9.7.1).
type PSN uint32

// windowLimit is how many PSNs may be outstanding: half of all, so that the responder can
// distinguish new ones from old ones (§9.7.1).
const windowLimit = 1 << 23

// Add returns the PSN n after p.
func (p PSN) Add(n uint32) PSN { return (p + PSN(n)) & roce.PSNMask }

// From returns how far p lies after base, 0 to 2²⁴ − 1.
func (p PSN) From(base PSN) uint32 { return uint32(p-base) & roce.PSNMask }

// psnOf returns the packet sequence number of a packet.
func psnOf(p *roce.Packet) PSN { return PSN(p.BTH.PSN) }

// Before reports whether p lies in the half of all PSNs before q.
func (p PSN) Before(q PSN) bool { return int32(p-q)<<8 < 0 }
