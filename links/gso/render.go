package gso

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
)

// Render gives the complete wire bytes of a packet of a real program, from
// the destination MAC, without FCS. A Frame with nothing left to do is
// returned as it is; all else is made in buf, which needs a capacity of p.Size
// or it is replaced by a larger one.
func Render(p *packet.Packet, buf []byte) []byte {
	if p.Frame != nil && p.Sum == 0 {
		return p.Frame
	}
	if p.Frame != nil {
		buf = append(buf[:0], p.Frame...)
		field := csumField(p.Proto)
		complete(buf, int(p.Sum)-field, field)
		return buf
	}
	buf = renderPartial(p, buf)
	complete(buf, int(p.Piece.Of.L4), csumField(p.Proto))
	return buf
}

// renderPartial gives the wire bytes of a piece with the sum of only the
// pseudo-header as its checksum.
func renderPartial(p *packet.Packet, buf []byte) []byte {
	s, data := p.Piece.Of, pieceBytes(p)
	buf = append(buf[:0], s.Data[:s.Payload]...)
	putHeaders(buf, int(s.L4), p, pieceSeq(p), pieceFlags(p), len(data))
	return append(buf, data...)
}

// putHeaders brings the headers in b, those of p or of what it was cut from,
// to n bytes of payload and to what has become of p. The transport checksum
// becomes the sum of the pseudo-header. seq and flags are of TCP.
func putHeaders(b []byte, l4 int, p *packet.Packet, seq uint32, flags uint8, n int) {
	if p.Dst != 0 {
		p.Dst.Put(b)
		p.Src.Put(b[6:])
	}
	ip, transport := b[p.L3:l4], b[l4:]
	if p.Version == 4 {
		ip[1], ip[8] = p.TOS, p.TTL
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(transport)+n))
		binary.BigEndian.PutUint16(ip[4:], p.IPID)
		ip[10], ip[11] = 0, 0
		binary.LittleEndian.PutUint16(ip[10:], ^fold(sum(ip, 0)))
	} else {
		wire.SetTOS(ip, p.TOS)
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-wire.IPv6Header+len(transport)+n))
		ip[7] = p.TTL
	}
	if p.Proto == wire.ProtoTCP {
		binary.BigEndian.PutUint32(transport[4:], seq)
		transport[13] = flags
	} else {
		binary.BigEndian.PutUint16(transport[4:], uint16(len(transport)+n))
	}
	binary.LittleEndian.PutUint16(transport[csumField(p.Proto):], pseudoHeader(p, ip, len(transport)+n))
}

// pseudoHeader is the sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1)
// of p, with the IP header ip and n bytes behind it, as it lies in memory.
func pseudoHeader(p *packet.Packet, ip []byte, n int) uint16 {
	addresses := ip[12:20]
	if p.Version == 6 {
		addresses = ip[8:40]
	}
	return fold(sum(addresses, word(uint16(p.Proto))+word(uint16(n))))
}

// MarkPartial notes for a parsed packet that did not come as a super-packet
// whether its checksum is still to be made. skip is how many bytes of p.Frame
// the device does not carry, and h does not count: the Ethernet header before
// what a TUN gives, else 0.
//
// A checksum that p.Sum cannot tell, such as that of a TCP packet in a tunnel
// of UDP, is completed at once. The error is for one that is not
// between the IP header and the end of the frame.
func MarkPartial(p *packet.Packet, h Header, skip int) error {
	p.Sum = 0
	if h.Flags&NeedsCsum == 0 {
		return nil
	}
	start, field := skip+int(h.CsumStart), int(h.CsumOffset)
	if start < int(p.L3)+wire.IPv4Header || start+field+2 > len(p.Frame) {
		return fmt.Errorf("gso: a checksum from %d on, at %d, is not behind the headers in a frame of %d bytes", start, start+field, len(p.Frame))
	}
	if field != 0 && field == csumField(p.Proto) {
		p.Sum = uint16(start + field)
		return nil
	}
	complete(p.Frame, start, field)
	return nil
}

// Copy makes p independent of the super-packet that it is a piece of: it gives
// a packet with a Frame, whose checksum is still to be made, and frees p. A
// packet that is no piece is returned as it is. Who holds a packet for long
// does not pin 64 KB so.
func Copy(pool *packet.Pool, p *packet.Packet) *packet.Packet {
	s := p.Piece.Of
	if s == nil {
		return p
	}
	c := pool.Reframe(p)
	c.Sum = s.L4 + uint16(csumField(p.Proto))
	renderPartial(p, c.Frame)
	pool.Free(p)
	return c
}
