package carrier

import (
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// SegmentPort is the TCP port at which the receiver of flows of the first traffic listens;
// that of the next is one more.
const SegmentPort = 5201

// segments is the protocol of flows by TCP. What a stream has in it is not modelled: it is
// zeros.
var segments = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "tcp-flow", Proto: wire.ProtoTCP, Proto6: wire.ProtoTCP, Data: true, New: func() packet.Body { return &segment{} },
})

// SegmentProtocol is the protocol of the packets of flows by TCP.
func SegmentProtocol() *packet.MessageProtocol { return segments }

// segment is a TCP segment of a flow, with what the programs at its two ends know.
type segment struct {
	tcp.Segment
	id      uint64 // of the flow
	size    units.Bytes
	tag     uint32
	traffic int
	from    int // node that has the data
}

// Len implements packet.Body.
func (s *segment) Len() int { return s.HeaderLen() + int(s.Payload) }

// Put implements packet.Body. The code that makes the packet's bytes writes the ports.
func (s *segment) Put(b []byte) {
	n := s.HeaderLen()
	s.Segment.Put(b[:n], 0, 0)
	clear(b[n:])
}

// Set implements packet.Body.
func (s *segment) Set(from packet.Body) { *s = *from.(*segment) }

// Reset implements packet.Body.
func (s *segment) Reset() { *s = segment{} }
