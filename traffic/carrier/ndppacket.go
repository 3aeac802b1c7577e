package carrier

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// pulledPackets is the protocol of NDP flows. Their data is zeros.
var pulledPackets = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "ndp-flow", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: ndp.Port, Data: true, New: func() packet.Body { return &pulledPacket{} },
})

// NDPProtocol returns the protocol of the packets of NDP flows.
func NDPProtocol() *packet.MessageProtocol { return pulledPackets }

// pulledPacket is an NDP packet of a flow, with what the programs at both ends know.
type pulledPacket struct {
	ndp.Header
	payload units.Bytes
	id      uint64 // of the flow
	size    units.Bytes
	tag     uint32
	traffic int
	from    int // node that has the data
}

// Len implements packet.Body.
func (b *pulledPacket) Len() int { return ndp.HeaderLen + int(b.payload) }

// EncodeTo implements packet.Body.
func (b *pulledPacket) EncodeTo(bytes []byte) {
	b.Header.EncodeTo(bytes)
	clear(bytes[ndp.HeaderLen:])
}

// Set implements packet.Body.
func (b *pulledPacket) Set(from packet.Body) { *b = *from.(*pulledPacket) }

// Reset implements packet.Body.
func (b *pulledPacket) Reset() { *b = pulledPacket{} }
