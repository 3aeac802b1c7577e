package eqds

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Port is the UDP destination port of tunnel packets, from the range for private use (RFC 6335
// §6). The source port spreads packets over paths.
const Port = 54793

// HeaderLen is the length of either header in bytes.
const HeaderLen = 8

// What can follow the header of a data packet: IP protocol numbers.
const (
	NextIPv4     = 4
	NextIPv6     = 41
	NextNothing  = 59 // of RTS and RST
	NextEthernet = 143
	NextVXLAN    = 253 // VXLAN has no number: this is one for experiments (RFC 3692)
)

// Flags are the flags of a header.
type Flags uint8

// The flags. A packet with FlagControl has the control header.
const (
	FlagControl Flags = 1 << 7
	FlagSYN     Flags = 1 << 6
	FlagRST     Flags = 1 << 5

	FlagRTS Flags = 1 << 4 // data: asks for credit and carries nothing

	FlagACK  Flags = 1 << 4 // control: the packet and all before it have arrived
	FlagNACK Flags = 1 << 3 // control: the packet arrived without its payload
	FlagSACK Flags = 1 << 2 // control: the packet has arrived, others before it have not
	FlagPULL Flags = 1 << 1 // control: gives credit, or repeats what was given
)

const (
	dataFlags    = FlagSYN | FlagRST | FlagRTS
	controlFlags = FlagControl | FlagSYN | FlagRST | FlagACK | FlagNACK | FlagSACK | FlagPULL
	judgements   = FlagACK | FlagNACK | FlagSACK
)

// Has reports whether all of the given flags are set.
func (f Flags) Has(some Flags) bool { return f&some == some }

// ReportsOnPacket reports whether a control packet has ACK, NACK or SACK and so reports on a packet.
func (f Flags) ReportsOnPacket() bool { return f&judgements != 0 }

var flagNames = [2][8]string{
	{4: "RTS", 5: "RST", 6: "SYN"},
	{1: "PULL", 2: "SACK", 3: "NACK", 4: "ACK", 5: "RST", 6: "SYN"},
}

// String joins the names of the flags, the highest first; "data" for none.
func (f Flags) String() string {
	names, b := &flagNames[f>>7], make([]string, 0, 4)
	for i := 6; i >= 0; i-- {
		if f>>i&1 != 0 {
			b = append(b, names[i])
		}
	}
	if len(b) == 0 {
		return []string{"data", "control"}[f>>7]
	}
	return strings.Join(b, "+")
}

// Errors in a header. They are values, so that returning one allocates nothing.
var (
	ErrShort   = errors.New("eqds: the packet ends inside the header, which has 8 bytes")
	ErrControl = errors.New("eqds: wrong kind of header: the highest bit of the flags tells control packets from data")
	ErrFlags   = errors.New("eqds: unknown or conflicting flags: a packet has at most one of RTS and RST, and of ACK, NACK, SACK and RST")
	ErrNext    = errors.New("eqds: RTS and RST carry nothing: they alone have next protocol 59")
)

// IsControl reports whether a packet has the control header; false for an empty packet.
func IsControl(b []byte) bool { return len(b) > 0 && Flags(b[0]).Has(FlagControl) }

// Data is the header of a data packet.
type Data struct {
	Flags  Flags // of SYN, RST and RTS
	Next   uint8 // protocol behind the header
	Seq    uint16
	Target uint16 // pull number that the sender wants to reach
	Path   uint8
	Sender uint8 // EQIF
}

// IsRTS reports whether nothing follows the header.
func (d *Data) IsRTS() bool { return d.Flags&(FlagRTS|FlagRST) != 0 }

// Decode reads the header at the beginning of b. What follows is ignored: a trimmed packet may
// have nothing there.
func (d *Data) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return ErrShort
	}
	*d = Data{
		Flags: Flags(b[0]), Next: b[1], Seq: binary.BigEndian.Uint16(b[2:]),
		Target: binary.BigEndian.Uint16(b[4:]), Path: b[6], Sender: b[7],
	}
	switch {
	case d.Flags.Has(FlagControl):
		return ErrControl
	case d.Flags&^dataFlags != 0 || d.Flags.Has(FlagRTS|FlagRST):
		return ErrFlags
	case d.IsRTS() != (d.Next == NextNothing):
		return ErrNext
	}
	return nil
}

// EncodeTo writes the header to b, HeaderLen bytes.
func (d *Data) EncodeTo(b []byte) {
	b[0], b[1] = uint8(d.Flags), d.Next
	binary.BigEndian.PutUint16(b[2:], d.Seq)
	binary.BigEndian.PutUint16(b[4:], d.Target)
	b[6], b[7] = d.Path, d.Sender
}

// Control is the header of a control packet.
type Control struct {
	Flags  Flags // FlagControl, and of SYN, RST, ACK, NACK, SACK and PULL
	Sender uint8 // EQIF of the tunnel
	// Ack is the number of the packet that ACK, NACK, SACK or RST is about. With SYN and
	// none of them it has the receiver's epoch.
	Ack uint16
	// Pull is the highest number that the receiver has sent; it has no meaning with RST.
	Pull uint16
	Busy uint16 // see BusyTime
}

// Decode reads the header at the beginning of b.
func (c *Control) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return ErrShort
	}
	*c = Control{
		Flags: Flags(b[0]), Sender: b[1], Ack: binary.BigEndian.Uint16(b[2:]),
		Pull: binary.BigEndian.Uint16(b[4:]), Busy: binary.BigEndian.Uint16(b[6:]),
	}
	if !c.Flags.Has(FlagControl) {
		return ErrControl
	}
	one := c.Flags & (judgements | FlagRST)
	if c.Flags&^controlFlags != 0 || one&(one-1) != 0 || c.Flags.Has(FlagRST) && c.Flags&(FlagSYN|FlagPULL) != 0 {
		return ErrFlags
	}
	return nil
}

// EncodeTo writes the header to b, HeaderLen bytes.
func (c *Control) EncodeTo(b []byte) {
	b[0], b[1] = uint8(c.Flags), c.Sender
	binary.BigEndian.PutUint16(b[2:], c.Ack)
	binary.BigEndian.PutUint16(b[4:], c.Pull)
	binary.BigEndian.PutUint16(b[6:], c.Busy)
}

// busyUnit is the unit of the busy time.
const busyUnit = units.Microsecond

// BusyTime returns the least time for which the receiver's link has enough to receive.
func (c *Control) BusyTime() units.Time { return units.Time(c.Busy) * busyUnit }

// EncodeBusy returns a time as a control packet carries it: rounded up to whole microseconds, and at
// most 65.535 ms.
func EncodeBusy(t units.Time) uint16 {
	return uint16(min(max(0, t+busyUnit-1)/busyUnit, 1<<16-1))
}
