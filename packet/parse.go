package packet

import (
	"encoding/binary"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Parse fills in the fields from Frame and reports false when the frame is too
// short. Frames other than IP are forwarded by their Ethernet addresses alone.
func (p *Packet) Parse() bool {
	f := p.Frame
	if len(f) < wire.EthernetHeader {
		return false
	}
	p.Size = units.Bytes(len(f))
	p.Version, p.Proto, p.TOS, p.TTL, p.IPID, p.SrcPort, p.DstPort, p.Label = 0, 0, 0, 0, 0, 0, 0, 0
	p.Ether = binary.BigEndian.Uint16(f[12:])
	p.L3 = wire.EthernetHeader
	for (p.Ether == wire.EtherTypeVLAN || p.Ether == wire.EtherTypeQinQ) && len(f) >= int(p.L3)+wire.VLANTag {
		p.Ether = binary.BigEndian.Uint16(f[p.L3+2:])
		p.L3 += wire.VLANTag
	}
	src, dst := uint64(wire.ReadMAC(f[6:])), uint64(wire.ReadMAC(f))
	if p.Ether == wire.EtherTypeIPv4 || p.Ether == wire.EtherTypeIPv6 {
		l3 := f[p.L3:]
		if ip, ok := wire.ParseIP(l3); ok && (ip.Version == 4) == (p.Ether == wire.EtherTypeIPv4) {
			p.Version, p.Proto, p.TOS, p.TTL, p.IPID = ip.Version, ip.Proto, ip.TOS, ip.TTL, ip.ID
			p.SrcPort, p.DstPort = ip.SrcPort, ip.DstPort
			src, dst = addressWords(l3, ip.Version)
			if ip.Version == 6 {
				p.Label = wire.FlowLabel(l3)
			}
		}
	}
	p.Hash = FlowHash(src, dst, p.Proto, p.SrcPort, p.DstPort)
	return true
}

// addressWords folds the two IP addresses into a word each.
func addressWords(l3 []byte, version uint8) (src, dst uint64) {
	if version == 4 {
		return uint64(binary.BigEndian.Uint32(l3[12:])), uint64(binary.BigEndian.Uint32(l3[16:]))
	}
	return FoldIPv6(l3[8:]), FoldIPv6(l3[24:])
}

// FoldIPv6 folds the 16 bytes of an IPv6 address into a word, for FlowHash.
func FoldIPv6(b []byte) uint64 {
	return binary.BigEndian.Uint64(b)*mixer ^ binary.BigEndian.Uint64(b[8:])
}

// mixer is 2^64 divided by the golden ratio, the usual odd multiplier.
const mixer = 0x9e3779b97f4a7c15

// FlowHash returns the hash of a flow, which every switch mixes with its own seed to
// choose among equal paths. src and dst are IPv4 addresses or folds of longer ones.
func FlowHash(src, dst uint64, proto uint8, srcPort, dstPort uint16) uint64 {
	h := sim.MixBits(src*mixer ^ dst)
	return sim.MixBits(h ^ uint64(proto)<<32 ^ uint64(srcPort)<<16 ^ uint64(dstPort))
}
