package eqdsnic

import (
	"encoding/binary"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// NativePort is the UDP port of the packets of the native EQIF inside tunnels, from the range for
// private use (RFC 6335 §6). The paper does not define their format; the header after UDP is this
// project's, see segment.
const NativePort = 54795

// nativeProtocol is the protocol of these packets: UDP, like the paper's UDP library.
var nativeProtocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "eqds-native", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: NativePort, Data: true, New: func() packet.Body { return &segment{} },
})

// segmentHeader is the length of the header of a segment:
//
//	0  port of the sender        2  port of the receiver
//	4  session of the sender's socket: a later one has a greater number
//	8  number of the message, from 1 on for each destination of a socket
//	12 length of the message     16 offset of what follows
//
// All are big-endian.
const segmentHeader = 20

// segment is a part of a message, in a separate packet.
type segment struct {
	from, to      uint16
	session       uint32
	number        uint32
	total, offset uint32
	size          int    // of this part
	data          []byte // nil if only lengths are modelled; the program's memory at the sender
	room          []byte // for data of a copy
	sending       *Sending
}

// Len implements packet.Body, as do the methods below.
func (x *segment) Len() int { return segmentHeader + x.size }

func (x *segment) EncodeTo(b []byte) {
	binary.BigEndian.PutUint16(b, x.from)
	binary.BigEndian.PutUint16(b[2:], x.to)
	binary.BigEndian.PutUint32(b[4:], x.session)
	binary.BigEndian.PutUint32(b[8:], x.number)
	binary.BigEndian.PutUint32(b[12:], x.total)
	binary.BigEndian.PutUint32(b[16:], x.offset)
	if clear(b[segmentHeader:]); x.data != nil {
		copy(b[segmentHeader:], x.data)
	}
}

func (x *segment) Set(from packet.Body) {
	f, room := from.(*segment), x.room
	*x = *f
	x.sending, x.room = nil, room
	if f.data != nil {
		x.room = append(room[:0], f.data...)
		x.data = x.room
	}
}

func (x *segment) Reset() { *x = segment{room: x.room} }

// chunkSize returns how much of a message fits into a packet over an IP version.
func (s *service) chunkSize(version uint8) units.Bytes {
	outer := protocol.HeaderLen(version) + units.Bytes((&header{}).Len())
	return s.mtu - outer - (nativeProtocol.HeaderLen(version) - wire.EthernetHeader) - segmentHeader
}
