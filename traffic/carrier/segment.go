package carrier

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// SegmentPort is the TCP port on which receivers of the first traffic's flows listen; each
// further traffic uses the next port.
const SegmentPort = 5201

// segments is the protocol of TCP flows. The content of a stream is not modelled: it is
// zeros.
var segments = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "tcp-flow", Proto: wire.ProtoTCP, Proto6: wire.ProtoTCP, Data: true, New: func() packet.Body { return &segment{} },
})

// SegmentProtocol returns the protocol of the packets of TCP flows.
func SegmentProtocol() *packet.MessageProtocol { return segments }

// segment is a TCP segment of a flow, with what the programs at both ends know.
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

// EncodeTo implements packet.Body. The code that builds the packet's bytes writes the ports.
func (s *segment) EncodeTo(b []byte) {
	n := s.HeaderLen()
	s.Segment.EncodeTo(b[:n], 0, 0)
	clear(b[n:])
}

// Set implements packet.Body.
func (s *segment) Set(from packet.Body) { *s = *from.(*segment) }

// Reset implements packet.Body.
func (s *segment) Reset() { *s = segment{} }
