package wire

import "encoding/binary"

// MAC control frames (IEEE 802.3 clause 31).
const (
	EtherTypeMACControl = 0x8808
	// MACControlGroup is their destination. Bridges do not forward it (IEEE 802.1Q
	// table 8-1).
	MACControlGroup MAC = 0x0180c2000001

	opcodePause = 0x0001 // IEEE 802.3 annex 31B
	opcodePFC   = 0x0101 // IEEE 802.3 annex 31D

	// PauseFrame is the length of a PAUSE or PFC frame, without FCS.
	PauseFrame = EthernetMin
)

// QuantumBits is the unit of pause times, in bit times (IEEE 802.3 §31B.2).
const QuantumBits = 512

// Pause is the content of a PFC or PAUSE frame.
type Pause struct {
	Global  bool      // PAUSE: the whole link, by Quanta[0]
	Classes uint8     // PFC: the classes that it covers, one bit each
	Quanta  [8]uint16 // pause times, in units of 512 bit times; 0 ends a pause
}

// Asks reports whether the frame asks for a pause of any class.
func (p *Pause) Asks() bool {
	for prio, q := range p.Quanta {
		if q > 0 && p.Classes>>prio&1 != 0 {
			return true
		}
	}
	return false
}

// PutFrame writes the frame into b, PauseFrame bytes.
func (p *Pause) PutFrame(b []byte, from MAC) {
	clear(b[:PauseFrame])
	MACControlGroup.EncodeTo(b)
	from.EncodeTo(b[6:])
	binary.BigEndian.PutUint16(b[12:], EtherTypeMACControl)
	if p.Global {
		binary.BigEndian.PutUint16(b[14:], opcodePause)
		binary.BigEndian.PutUint16(b[16:], p.Quanta[0])
		return
	}
	binary.BigEndian.PutUint16(b[14:], opcodePFC)
	binary.BigEndian.PutUint16(b[16:], uint16(p.Classes))
	for i, q := range p.Quanta {
		binary.BigEndian.PutUint16(b[18+2*i:], q)
	}
}

// ParsePause reads a frame. It returns false if the frame is neither PFC nor PAUSE,
// or is truncated. A PAUSE pauses all classes.
func ParsePause(b []byte) (p Pause, ok bool) {
	if len(b) < 18 || binary.BigEndian.Uint16(b[12:]) != EtherTypeMACControl {
		return p, false
	}
	switch binary.BigEndian.Uint16(b[14:]) {
	case opcodePause:
		p.Global, p.Classes = true, 0xff
		for i := range p.Quanta {
			p.Quanta[i] = binary.BigEndian.Uint16(b[16:])
		}
		return p, true
	case opcodePFC:
		if len(b) < 34 {
			return p, false
		}
		p.Classes = uint8(binary.BigEndian.Uint16(b[16:]))
		for i := range p.Quanta {
			p.Quanta[i] = binary.BigEndian.Uint16(b[18+2*i:])
		}
		return p, true
	}
	return p, false
}
