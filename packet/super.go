package packet

import "github.com/weftlab/weft/sim/units"

// superRoom is the capacity of a Super: the largest IP packet with an Ethernet
// header and two VLAN tags, rounded up to whole pages.
const superRoom = 17 * 4096

// Super is a super-packet: up to 64 KB that a host's kernel hands over as one
// packet, to be cut into packets (segmentation offload; struct virtio_net_hdr in
// include/uapi/linux/virtio_net.h). The packets cut from it remain parts of it, so
// those that leave in order can be joined again without a copy. It is reused when
// the last of them is freed.
//
// Package gso fills and reads it.
type Super struct {
	Data []byte // from the destination MAC; headers once, then the payload of all segments

	L3, L4  uint16 // offsets in Data of the IP and of the TCP or UDP header
	Payload uint16 // offset of the first segment's payload: the length of the headers
	Segment uint16 // payload bytes of each segment but the last, at least 1
	Seq     uint32 // TCP: of the first byte
	IPID    uint16 // IPv4: of the first segment; increments with each segment
	Flags   uint8  // TCP: of the header in Data

	room [superRoom]byte
	refs int32
	next *Super
}

// DataRoom returns the memory for Data.
func (s *Super) DataRoom() []byte { return s.room[:] }

// Piece is a packet's place in the Super that it was cut from.
type Piece struct {
	Of     *Super
	Offset uint32 // of the packet's payload in Of.Data
	Index  uint16 // of the packet among the segments, from 0
	More   uint16 // packets of a Train after its first
}

// NewSuper returns an empty super-packet with one reference, the caller's.
func (l *Pool) NewSuper() *Super {
	s := l.supers
	if s == nil {
		s = new(Super)
	} else {
		l.supers = s.next
	}
	s.refs = 1
	l.superLive++
	return s
}

// CutPiece returns a packet that is a piece of s and holds a reference to it. The caller
// fills in the other fields.
func (l *Pool) CutPiece(s *Super, offset uint32, index uint16, size units.Bytes) *Packet {
	p := l.New()
	s.refs++
	p.Piece = Piece{Of: s, Offset: offset, Index: index}
	p.Size = size
	return p
}

// ReleaseSuper releases one reference to s.
func (l *Pool) ReleaseSuper(s *Super) {
	if s.refs--; s.refs == 0 {
		s.next, l.supers = l.supers, s
		l.superLive--
	}
}

// LiveSupers returns how many super-packets are in use.
func (l *Pool) LiveSupers() int { return l.superLive }
