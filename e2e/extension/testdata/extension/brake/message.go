// Package brake is an example of a system for weft: a congestion point that notifies
// the senders of a long queue, and a rate control that slows down when notified.
package brake

import (
	_ "embed" // brake.lua
	"encoding/binary"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Port is the UDP port that messages go to, of those for private use (RFC 6335).
const Port = 50777

// Protocol is that of the messages, whose bodies are Notices.
var Protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "brake", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: Port,
	New: func() packet.Body { return new(Notice) },
})

//go:embed brake.lua
var lua string

func init() { registry.Dissectors.Register("brake", lua) }

// Notice says that a flow has met a long queue.
type Notice struct {
	Flow  packet.FlowKey
	Queue units.Bytes // how long it was
}

var _ cc.Feedback = (*Notice)(nil)

// FlowKey implements cc.Feedback.
func (n *Notice) FlowKey() packet.FlowKey { return n.Flow }

// Len implements packet.Body: the destination queue pair and the length, 4 bytes each.
func (n *Notice) Len() int { return 8 }

// EncodeTo implements packet.Body.
func (n *Notice) EncodeTo(b []byte) {
	binary.BigEndian.PutUint32(b, n.Flow.QP)
	binary.BigEndian.PutUint32(b[4:], uint32(n.Queue))
}

// Set implements packet.Body.
func (n *Notice) Set(from packet.Body) { *n = *from.(*Notice) }

// Reset implements packet.Body.
func (n *Notice) Reset() { *n = Notice{} }
