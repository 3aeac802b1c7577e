package eqdsnic

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/wire"
)

// protocol is the protocol of tunnel packets. A data packet carries another one behind its header.
var protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "eqds", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: eqds.Port, New: func() packet.Body { return &header{} },
})

// header is the header of a tunnel's packet: of data, or of control.
type header struct {
	control bool
	data    eqds.Data
	answer  eqds.Control
}

// Len implements packet.Body, as do the methods below.
func (h *header) Len() int { return eqds.HeaderLen }

func (h *header) EncodeTo(b []byte) {
	if h.control {
		h.answer.EncodeTo(b)
	} else {
		h.data.EncodeTo(b)
	}
}

func (h *header) Set(from packet.Body) { *h = *from.(*header) }

func (h *header) Reset() { *h = header{} }
