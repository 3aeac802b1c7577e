package qcn

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// EtherTypeCNM is the ethertype of congestion notification messages.
const EtherTypeCNM = 0x22e7

// Protocol is that of congestion notification messages, whose bodies are CNMs.
var Protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "qcn", Ether: EtherTypeCNM, New: func() packet.Body { return new(CNM) },
})

// MaxMSDU is the most of a sampled frame's MSDU that a message carries, in bytes.
const MaxMSDU = 64

// pduLen is the length of a message without MSDU.
const pduLen = 24

// queueUnit is what queues are counted in on the wire. Vendors' descriptions of the
// message, with which the rest was compared, do not name it; this is from memory.
const queueUnit = 64 * units.Byte

// CNM is a congestion notification message, behind the Ethernet header of its frame.
type CNM struct {
	// Flow is that of the sampled frame. The standard's reaction points know it by the
	// flow identifier of a CN-TAG, which they put into frames and get back in front of
	// the message; it is not in the bytes here.
	Flow packet.FlowKey

	Fb    uint8  // quantized feedback, 0 to MaxFb, the more the worse
	Point uint64 // CPID: which congestion point
	// QOffset and QDelta are those of the Sample. On the wire they are whole times 64
	// bytes, up to ±2 MB.
	QOffset, QDelta units.Bytes
	// Priority, DA and MSDU are of the sampled frame: priority 0 to 7, destination, and
	// what follows its addresses and tags, from the ethertype on. Of an MSDU of more
	// than MaxMSDU bytes the first MaxMSDU count.
	Priority uint8
	DA       wire.MAC
	MSDU     []byte
}

var _ cc.Feedback = (*CNM)(nil)

// About implements cc.Feedback.
func (c *CNM) About() packet.FlowKey { return c.Flow }

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

// Put implements packet.Body.
func (c *CNM) Put(b []byte) {
	binary.BigEndian.PutUint16(b, uint16(min(c.Fb, MaxFb))) // version 0, reserved bits
	binary.BigEndian.PutUint64(b[2:], c.Point)
	binary.BigEndian.PutUint16(b[10:], inUnits(c.QOffset))
	binary.BigEndian.PutUint16(b[12:], inUnits(c.QDelta))
	binary.BigEndian.PutUint16(b[14:], uint16(c.Priority)<<13)
	c.DA.Put(b[16:])
	n := copy(b[pduLen:c.Len()], c.MSDU)
	binary.BigEndian.PutUint16(b[22:], uint16(n))
}

// inUnits is n in two's complement; a number that is too large is the largest.
func inUnits(n units.Bytes) uint16 {
	return uint16(int16(max(-1<<15, min(n/queueUnit, 1<<15-1))))
}

// Parse reads a message, which may be followed by padding. The error says what is wrong.
// Version and reserved bits are not looked at, so that later versions are understood.
func (c *CNM) Parse(b []byte) error {
	c.Reset()
	if len(b) < pduLen {
		return fmt.Errorf("qcn: a CNM of %d bytes is shorter than %d", len(b), pduLen)
	}
	n := int(binary.BigEndian.Uint16(b[22:]))
	if n > MaxMSDU || n > len(b)-pduLen {
		return fmt.Errorf("qcn: a CNM says that it carries %d bytes of a frame: it has %d, and may have %d", n, len(b)-pduLen, MaxMSDU)
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
