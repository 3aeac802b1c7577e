package gso

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TCP header flags (RFC 9293 §3.1).
const (
	fin = 1 << 0
	psh = 1 << 3
	ack = 1 << 4
	cwr = 1 << 7
)

// tcpHeader is the length of a TCP header without options, in bytes.
const tcpHeader = 20

// maxHeaders is the maximum length of the headers of a packet that is split or
// joined: Ethernet, two VLAN tags, IPv6 with 250 bytes of extension headers (or IPv4
// with all options), and TCP with all options.
const maxHeaders = wire.EthernetHeader + 2*wire.VLANTag + wire.IPv6Header + 250 + 60

// maxIP is the longest IP packet.
const maxIP = 1<<16 - 1

var (
	errTruncated = errors.New("gso: the headers of a super-packet are truncated, or too long to split")
	errFragment  = errors.New("gso: a super-packet is a fragment of an IP packet")
	errSegment   = errors.New("gso: a super-packet without payload or with segments of 0 bytes")
)

// PrepareSuper reads the headers of s.Data, a frame that came with h, and fills in the
// other fields of s. *head receives what all pieces have in common, as packet.Parse
// reads it; the caller adds Dest, Origin and Born before NewSplitter.
//
// It rejects super-packets that the kernel would not build, with an error that says
// why: s may come from a program that writes arbitrary bytes, and the pieces of an
// accepted super-packet must render to complete packets. It uses only GSOType and
// GSOSize of h.
func PrepareSuper(s *packet.Super, h Header, head *packet.Packet) error {
	// The parser needs no more, and no stack of VLAN tags is longer.
	hs := s.Data[:min(len(s.Data), maxHeaders)]
	*head = packet.Packet{Frame: hs, Kind: packet.Real}
	parsed := head.Parse()
	head.Frame = nil
	if !parsed {
		return errTruncated
	}
	head.Size = units.Bytes(len(s.Data))

	var version, proto uint8
	switch h.GSOType &^ GSOECN {
	case GSOTCPv4:
		version, proto = 4, wire.ProtoTCP
	case GSOTCPv6:
		version, proto = 6, wire.ProtoTCP
	case GSOUDPL4:
		version, proto = head.Version, wire.ProtoUDP
	default:
		return fmt.Errorf("gso: segmentation type %#x, which the kernel was not offered: TUNSETOFFLOAD may name only TSO and USO", h.GSOType)
	}
	if head.Version == 0 || head.Version != version || head.Proto != proto {
		return fmt.Errorf("gso: segmentation type %#x of IP version %d, protocol %d", h.GSOType, head.Version, head.Proto)
	}

	ip := hs[head.L3:]
	l4, length := int(head.L3), 0
	if version == 4 {
		if binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 {
			return errFragment
		}
		l4 += int(ip[0]&15) * 4
		length = int(binary.BigEndian.Uint16(ip[2:]))
	} else {
		x, _ := wire.ParseIP(ip) // cannot fail: head was parsed
		if err := checkExtensions(ip[:x.Header]); err != nil {
			return err
		}
		l4 += x.Header
		length = wire.IPv6Header + int(binary.BigEndian.Uint16(ip[4:]))
	}
	if length != len(s.Data)-int(head.L3) {
		return fmt.Errorf("gso: a super-packet of %d bytes claims to have %d", len(s.Data)-int(head.L3), length)
	}

	payload := l4 + wire.UDPHeader
	if proto == wire.ProtoTCP {
		if len(hs) < l4+tcpHeader {
			return errTruncated
		}
		doff := int(hs[l4+12]>>4) * 4
		if doff < tcpHeader {
			return errTruncated
		}
		payload = l4 + doff
	}
	if len(hs) < payload {
		return errTruncated
	}
	n := len(s.Data) - payload
	if n == 0 || h.GSOSize == 0 {
		return errSegment
	}
	if size := payload + min(n, int(h.GSOSize)); size > packet.MaxFrame {
		return fmt.Errorf("gso: segments of %d bytes are longer than the longest frame, %d", size, packet.MaxFrame)
	}

	s.L3, s.L4, s.Payload, s.Segment = head.L3, uint16(l4), uint16(payload), h.GSOSize
	s.Seq, s.IPID, s.Flags = 0, head.IPID, 0
	if proto == wire.ProtoTCP {
		s.Seq, s.Flags = binary.BigEndian.Uint32(hs[l4+4:]), hs[l4+13]
	}
	return nil
}

// checkExtensions checks an IPv6 header with its extension headers (RFC 8200 §4),
// all of which are copied to every segment.
func checkExtensions(ip []byte) error {
	const fragment, routing, segmentsLeft = 44, 43, 3
	for next, at := ip[6], wire.IPv6Header; at < len(ip); next, at = ip[at], at+8+int(ip[at+1])*8 {
		switch {
		case next == fragment:
			return errFragment
		case next == routing && ip[at+segmentsLeft] != 0:
			// The checksum covers the last address of the route and not the
			// one in the header.
			return errors.New("gso: a super-packet with a routing header that has segments left cannot be split; the host can send it with offload: off")
		}
	}
	return nil
}

// Splitter cuts one super-packet. Split returns it.
type Splitter struct {
	pool  *packet.Pool
	of    *packet.Super
	head  *packet.Packet
	at    uint32 // offset of the next segment's payload
	index uint16
}

// NewSplitter begins to cut s, which PrepareSuper has accepted. Neither s nor head may
// change before the last segment is out; each piece holds its own reference to s,
// and the caller keeps its reference.
func NewSplitter(pool *packet.Pool, s *packet.Super, head *packet.Packet) Splitter {
	return Splitter{pool: pool, of: s, head: head, at: uint32(s.Payload)}
}

// Next returns the next segment, in order, as a piece with the fields of head and
// its own IPv4 identification; nil after the last. The caller sets the ID.
func (c *Splitter) Next() *packet.Packet {
	s := c.of
	left := uint32(len(s.Data)) - c.at
	if left == 0 {
		return nil
	}
	n := min(uint32(s.Segment), left)
	p := c.cutSegment(n)
	c.at += n
	c.index++
	return p
}

// CutTrain returns all segments but the last as a packet.Train; nil if that is only one. It is called
// before Next, and the caller sets the ID.
func (c *Splitter) CutTrain() *packet.Packet {
	s := c.of
	full := uint32(s.Segment)
	n := (uint32(len(s.Data)) - c.at - 1) / full
	if n < 2 {
		return nil
	}
	p := c.cutSegment(full)
	p.Kind, p.Piece.More = packet.Train, uint16(n-1)
	c.at += n * full
	c.index += uint16(n)
	return p
}

// cutSegment returns the next segment, of n bytes of payload.
func (c *Splitter) cutSegment(n uint32) *packet.Packet {
	s, h := c.of, c.head
	p := c.pool.CutPiece(s, c.at, c.index, units.Bytes(uint32(s.Payload)+n))
	p.Hash, p.Dest, p.To, p.Origin, p.Created = h.Hash, h.Dest, h.To, h.Origin, h.Created
	p.L3, p.TOS, p.TTL, p.Version, p.Proto = h.L3, h.TOS, h.TTL, h.Version, h.Proto
	p.SrcPort, p.DstPort, p.Ether, p.Label = h.SrcPort, h.DstPort, h.Ether, h.Label
	if h.Version == 4 {
		p.IPID = s.IPID + c.index
	}
	return p
}

// pieceSeq returns the TCP sequence number of a piece.
func pieceSeq(p *packet.Packet) uint32 {
	s := p.Piece.Of
	return s.Seq + p.Piece.Offset - uint32(s.Payload)
}

// pieceBytes returns the payload of a piece, or of all packets of a train.
func pieceBytes(p *packet.Packet) []byte {
	s := p.Piece.Of
	return s.Data[p.Piece.Offset:][:p.PacketCount()*(int(p.Size)-int(s.Payload))]
}

// pieceFlags returns the TCP flags of a piece: only the first segment has CWR, only
// the last has FIN and PSH (tcp_gso_segment).
func pieceFlags(p *packet.Packet) uint8 {
	flags := p.Piece.Of.Flags
	if p.Piece.Index > 0 {
		flags &^= cwr
	}
	if !lastPiece(p) {
		flags &^= fin | psh
	}
	return flags
}

func lastPiece(p *packet.Packet) bool {
	s := p.Piece.Of
	return int(p.Piece.Offset)+int(p.Size)-int(s.Payload) == len(s.Data)
}
