package carrier

import (
	"encoding/binary"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// DatagramPort is the UDP destination port of datagrams of flows.
const DatagramPort = 5002

// datagrams is the protocol of UDP flows. The payload begins with the fields of
// datagram, big-endian and as far as there is room; the rest is zeros.
var datagrams = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "flow", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: DatagramPort, Data: true, New: func() packet.Body { return &datagram{} },
})

// datagram is the content of a datagram of a flow.
type datagram struct {
	id     uint64 // of the flow
	number uint32 // of the flow among those of its traffic from that host to this one
	seq    uint32 // of the datagram in the flow, from 0
	tag    uint32 // of the flow
	size   uint64 // of the flow, bytes
	length uint32 // payload of this datagram

	traffic int
	from    int // node
}

const datagramHead = 8 + 4 + 4 + 4 + 8

// Len implements packet.Body.
func (d *datagram) Len() int { return int(d.length) }

// EncodeTo implements packet.Body.
func (d *datagram) EncodeTo(b []byte) {
	var head [datagramHead]byte
	binary.BigEndian.PutUint64(head[0:], d.id)
	binary.BigEndian.PutUint32(head[8:], d.number)
	binary.BigEndian.PutUint32(head[12:], d.seq)
	binary.BigEndian.PutUint32(head[16:], d.tag)
	binary.BigEndian.PutUint64(head[20:], d.size)
	clear(b[copy(b, head[:]):])
}

// Set implements packet.Body.
func (d *datagram) Set(from packet.Body) { *d = *from.(*datagram) }

// Reset implements packet.Body.
func (d *datagram) Reset() { *d = datagram{} }

// payloadOf returns the payload size of a datagram of a flow in which each but the
// last has full bytes.
func payloadOf(size, full units.Bytes, seq uint32) units.Bytes {
	return min(full, size-units.Bytes(seq)*full)
}

// countOf returns how many datagrams a flow has: one if it is empty.
func countOf(size, full units.Bytes) uint32 {
	return uint32(max(1, (size+full-1)/full))
}
