package gso

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// RenderPacket returns the complete wire bytes of a packet of a real program, from the
// destination MAC, without FCS. A Frame with a complete checksum is returned as it
// is; any other packet is built in buf, which is replaced by a larger one if its
// capacity is below p.Size.
func RenderPacket(p *packet.Packet, buf []byte) []byte {
	if p.Frame != nil && p.Sum == 0 {
		return p.Frame
	}
	if p.Frame != nil {
		buf = append(buf[:0], p.Frame...)
		field := csumField(p.Proto)
		completeChecksum(buf, int(p.Sum)-field, field)
		return buf
	}
	buf = renderPartial(p, buf)
	completeChecksum(buf, int(p.Piece.Of.L4), csumField(p.Proto))
	return buf
}

// renderPartial returns the wire bytes of a piece whose checksum covers only the
// pseudo-header.
func renderPartial(p *packet.Packet, buf []byte) []byte {
	s, data := p.Piece.Of, pieceBytes(p)
	buf = append(buf[:0], s.Data[:s.Payload]...)
	putHeaders(buf, int(s.L4), p, pieceSeq(p), pieceFlags(p), len(data))
	return append(buf, data...)
}

// putHeaders updates the headers in b, those of p or of its super-packet, for n
// bytes of payload and the current fields of p. The transport checksum becomes the
// sum of the pseudo-header. seq and flags are for TCP.
func putHeaders(b []byte, l4 int, p *packet.Packet, seq uint32, flags uint8, n int) {
	if p.Dst != 0 {
		p.Dst.EncodeTo(b)
		p.Src.EncodeTo(b[6:])
	}
	ip, transport := b[p.L3:l4], b[l4:]
	if p.Version == 4 {
		ip[1], ip[8] = p.TOS, p.TTL
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(transport)+n))
		binary.BigEndian.PutUint16(ip[4:], p.IPID)
		ip[10], ip[11] = 0, 0
		binary.LittleEndian.PutUint16(ip[10:], ^foldSum(addWords(ip, 0)))
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

// pseudoHeader returns the sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1)
// of p, with the IP header ip and n bytes after it, in memory order.
func pseudoHeader(p *packet.Packet, ip []byte, n int) uint16 {
	addresses := ip[12:20]
	if p.Version == 6 {
		addresses = ip[8:40]
	}
	return foldSum(addWords(addresses, toWord(uint16(p.Proto))+toWord(uint16(n))))
}

// MarkPartial records in a parsed packet that did not come as a super-packet whether
// its checksum is partial. skip is the number of bytes of p.Frame that the device
// does not carry and h does not count: the Ethernet header for a TUN, else 0.
//
// A checksum that p.Sum cannot describe, such as that of a TCP packet in a UDP
// tunnel, is completed at once. MarkPartial returns an error if the checksum is not
// between the IP header and the end of the frame.
func MarkPartial(p *packet.Packet, h Header, skip int) error {
	p.Sum = 0
	if h.Flags&NeedsCsum == 0 {
		return nil
	}
	start, field := skip+int(h.CsumStart), int(h.CsumOffset)
	if start < int(p.L3)+wire.IPv4Header || start+field+2 > len(p.Frame) {
		return fmt.Errorf("gso: a checksum from %d on, at %d, is not past the headers in a frame of %d bytes", start, start+field, len(p.Frame))
	}
	if field != 0 && field == csumField(p.Proto) {
		p.Sum = uint16(start + field)
		return nil
	}
	completeChecksum(p.Frame, start, field)
	return nil
}

// CopyPacket makes p independent of its super-packet: it returns a packet with a Frame and
// a partial checksum, and frees p. A packet that is no piece is returned as it is.
// Copying avoids pinning 64 KB for a packet that is held for long.
func CopyPacket(pool *packet.Pool, p *packet.Packet) *packet.Packet {
	s := p.Piece.Of
	if s == nil {
		return p
	}
	c := pool.RestoreFrame(p)
	c.Sum = s.L4 + uint16(csumField(p.Proto))
	renderPartial(p, c.Frame)
	pool.Free(p)
	return c
}
