package roce

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/wire"
)

// opcodes returns the valid opcodes of IBTA §9.2.1, annex A14 and IRN, listed independently
// for the tests.
func opcodes() (all []Opcode) {
	for o := range 0x18 {
		if o != 0x15 {
			all = append(all, Opcode(o))
		}
	}
	for o := 0x20; o <= 0x2b; o++ {
		all = append(all, Opcode(o))
	}
	for o := 0xa0; o <= 0xb4; o++ {
		all = append(all, Opcode(o))
	}
	for o := 0xc0; o <= 0xd4; o++ {
		all = append(all, Opcode(o))
	}
	return append(all, 0x64, 0x65, 0x81, 0xb6, 0xb7, 0xd6, 0xd7, 0xd8, 0xd9)
}

// random returns a random packet of an opcode, with n bytes of payload if the
// opcode has one.
func random(r *rand.Rand, o Opcode, n int) *Packet {
	p := &Packet{BTH: BTH{
		Opcode: o, Solicited: r.IntN(2) == 0, MigReq: r.IntN(2) == 0, PKey: uint16(r.Uint32()),
		FECN: r.IntN(2) == 0, BECN: r.IntN(2) == 0, DestQP: r.Uint32N(1 << 24), AckReq: r.IntN(2) == 0, PSN: r.Uint32N(1 << 24),
	}}
	if p.BTH.DestQP == ManagementQP {
		p.BTH.DestQP++
	}
	e := o.Extensions()
	if e.Has(ExtDETH) {
		p.FurtherHeaders().DETH = DETH{QKey: r.Uint32(), SourceQP: r.Uint32N(1 << 24)}
	}
	if e.Has(ExtXRCETH) {
		p.FurtherHeaders().XRC = XRCETH{SRQ: r.Uint32N(1 << 24)}
	}
	if e.Has(ExtRETH) {
		p.RETH = RETH{VA: r.Uint64(), RKey: r.Uint32(), Length: r.Uint32()}
	}
	if e.Has(ExtAtomicETH) {
		p.FurtherHeaders().Atomic = AtomicETH{VA: r.Uint64(), RKey: r.Uint32(), Swap: r.Uint64(), Compare: r.Uint64()}
	}
	if e.Has(ExtAETH) {
		p.AETH = AETH{Syndrome: []uint8{0, 0x0a, SyndromeUnlimited, 0x20, 0x3f, 0x60, 0x61, 0x62, 0x63}[r.IntN(9)], MSN: r.Uint32N(1 << 24)}
	}
	if e.Has(ExtAtomicAckETH) {
		p.FurtherHeaders().AtomicAck = AtomicAckETH{Original: r.Uint64()}
	}
	if e.Has(ExtImmDt) {
		p.ImmDt = ImmDt{Data: r.Uint32()}
	}
	if e.Has(ExtIETH) {
		p.IETH = IETH{RKey: r.Uint32()}
	}
	if e.Has(ExtSendETH) {
		p.Send = SendETH{Receive: r.Uint32N(1 << 24), Packet: r.Uint32N(1 << 24)}
	}
	if e.Has(ExtSelETH) {
		p.Selective = SelETH{PSN: r.Uint32N(1 << 24)}
	}
	if e.Has(ExtPayload) {
		p.Payload = make([]byte, n)
		for i := range p.Payload {
			p.Payload[i] = 0xa0 + byte(r.Uint32N(8)) // or tshark may read 16 bits as an ethertype
		}
	}
	return p
}

// render returns the frame of a packet, padded to Ethernet's minimum.
func render(t testing.TB, r *rand.Rand, version int, p *Packet) []byte {
	header := wire.IPv4Header
	if version == 6 {
		header = wire.IPv6Header
	}
	n := header + wire.UDPHeader + p.Len()
	b := make([]byte, ethernet+n)
	for i := range 12 {
		b[i] = byte(r.Uint32())
	}
	b[0], b[6] = 2, 2
	ip := b[ethernet:]
	if version == 4 {
		binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv4)
		copy(ip, []byte{0x45, byte(r.Uint32()), 0, 0, byte(r.Uint32()), byte(r.Uint32()), 0x40, 0, 64 + byte(r.Uint32N(192)), wire.ProtoUDP, 0, 0, 10, 0, byte(r.Uint32()), 1, 10, 0, byte(r.Uint32()), 2})
		binary.BigEndian.PutUint16(ip[2:], uint16(n))
		binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:header]))
	} else {
		binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv6)
		binary.BigEndian.PutUint32(ip, 6<<28|r.Uint32N(1<<28))
		binary.BigEndian.PutUint16(ip[4:], uint16(n-header))
		ip[6], ip[7], ip[8], ip[23], ip[24], ip[39] = wire.ProtoUDP, 64+byte(r.Uint32N(192)), 0xfd, byte(1+r.Uint32N(200)), 0xfd, byte(1+r.Uint32N(200))
	}
	udp := ip[header:]
	binary.BigEndian.PutUint16(udp, uint16(0xc000|r.Uint32N(1<<14)))
	binary.BigEndian.PutUint16(udp[2:], Port)
	binary.BigEndian.PutUint16(udp[4:], uint16(n-header))
	p.Put(udp[wire.UDPHeader:])
	if err := PutICRC(ip); err != nil {
		t.Fatal(err)
	}
	for len(b) < wire.EthernetMin {
		b = append(b, 0)
	}
	return b
}

// made returns frames of all opcodes, with both versions of IP and every pad.
func made(t testing.TB) (all [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, o := range opcodes() {
		for _, version := range []int{4, 6} {
			for _, n := range []int{0, 1, 2, 3, 4, 61, 1024} {
				all = append(all, render(t, r, version, random(r, o, n)))
				if !o.Extensions().Has(ExtPayload) {
					break
				}
			}
		}
	}
	return all
}
