package qcn

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// EtherTypeCNM is the ethertype of congestion notification messages.
const EtherTypeCNM = 0x22e7

// Protocol is the protocol of congestion notification messages. Their bodies are CNMs.
var Protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "qcn", Ether: EtherTypeCNM, New: func() packet.Body { return new(CNM) },
})

// MaxMSDU is the maximum length of a sampled frame's MSDU in a message, in bytes.
const MaxMSDU = 64

// pduLen is the length of a message without an MSDU.
const pduLen = 24

// queueUnit is the unit of queue lengths on the wire. It is from memory: vendors'
// descriptions of the message, against which the rest was checked, do not name it.
const queueUnit = 64 * units.Byte

// CNM is a congestion notification message, after the Ethernet header of its frame.
type CNM struct {
	// Flow is the flow of the sampled frame. The standard's reaction points identify it
	// by the flow identifier of a CN-TAG, which they put into frames and get back in
	// front of the message. The bytes here do not contain it.
	Flow packet.FlowKey

	Fb    uint8  // quantized feedback, 0 to MaxFb, higher is worse
	Point uint64 // CPID: identifies the congestion point
	// QOffset and QDelta are as in Sample. On the wire they are multiples of 64 bytes,
	// up to ±2 MB.
	QOffset, QDelta units.Bytes
	// Priority, DA and MSDU come from the sampled frame: its priority, 0 to 7, its
	// destination, and what follows its addresses and tags, starting with the ethertype.
	// Only the first MaxMSDU bytes of an MSDU count.
	Priority uint8
	DA       wire.MAC
	MSDU     []byte
}

var _ cc.Feedback = (*CNM)(nil)

// FlowKey implements cc.Feedback.
func (c *CNM) FlowKey() packet.FlowKey { return c.Flow }

// Reset implements packet.Body.
func (c *CNM) Reset() { *c = CNM{MSDU: c.MSDU[:0]} }

// Set implements packet.Body.
func (c *CNM) Set(from packet.Body) {
	msdu := c.MSDU[:0]
	*c = *from.(*CNM)
	c.MSDU = append(msdu, c.MSDU...)
}

// Len implements packet.Body.
func (c *CNM) Len() int { return pduLen + min(len(c.MSDU), MaxMSDU) }

// EncodeTo implements packet.Body.
func (c *CNM) EncodeTo(b []byte) {
	binary.BigEndian.PutUint16(b, uint16(min(c.Fb, MaxFb))) // version 0, reserved bits
	binary.BigEndian.PutUint64(b[2:], c.Point)
	binary.BigEndian.PutUint16(b[10:], inUnits(c.QOffset))
	binary.BigEndian.PutUint16(b[12:], inUnits(c.QDelta))
	binary.BigEndian.PutUint16(b[14:], uint16(c.Priority)<<13)
	c.DA.EncodeTo(b[16:])
	n := copy(b[pduLen:c.Len()], c.MSDU)
	binary.BigEndian.PutUint16(b[22:], uint16(n))
}

// inUnits returns n in units of queueUnit, in two's complement, clamped to 16 bits.
func inUnits(n units.Bytes) uint16 {
	return uint16(int16(max(-1<<15, min(n/queueUnit, 1<<15-1))))
}

// Parse reads a message, which padding may follow. It ignores version and reserved bits,
// so that it also reads later versions.
func (c *CNM) Parse(b []byte) error {
	c.Reset()
	if len(b) < pduLen {
		return fmt.Errorf("qcn: a CNM of %d bytes is shorter than %d", len(b), pduLen)
	}
	n := int(binary.BigEndian.Uint16(b[22:]))
	if n > MaxMSDU || n > len(b)-pduLen {
		return fmt.Errorf("qcn: a CNM claims %d bytes of a frame: it has %d, and may have %d", n, len(b)-pduLen, MaxMSDU)
	}
	c.Fb = b[1] & MaxFb
	c.Point = binary.BigEndian.Uint64(b[2:])
	c.QOffset = units.Bytes(int16(binary.BigEndian.Uint16(b[10:]))) * queueUnit
	c.QDelta = units.Bytes(int16(binary.BigEndian.Uint16(b[12:]))) * queueUnit
	c.Priority = b[14] >> 5
	c.DA = wire.ReadMAC(b[16:])
	c.MSDU = append(c.MSDU, b[pduLen:pduLen+n]...)
	return nil
}
