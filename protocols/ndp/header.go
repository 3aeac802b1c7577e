package ndp

import (
	"encoding/binary"
	"errors"
	"strings"
)

// Port is the UDP destination port of all packets.
const Port = 54794

// HeaderLen is the length of the header in bytes.
const HeaderLen = 16

// firstPort is the UDP source port of path 0.
const firstPort = 49152

// SourcePort returns the UDP source port of a path.
func SourcePort(path uint16) uint16 { return firstPort + path }

// Flags are the flags of a header.
type Flags uint8

// The flags. A packet has at most one of ACK, NACK and PULL; one with none of them is data.
const (
	FlagSYN  Flags = 1 << 7 // data: of the first window, may begin a connection
	FlagLast Flags = 1 << 6 // data: the last of the connection
	FlagACK  Flags = 1 << 2 // the packet has arrived
	FlagNACK Flags = 1 << 1 // its header has arrived, without payload
	FlagPULL Flags = 1 << 0 // asks for as many packets as the pull number has risen by
)

const answers = FlagACK | FlagNACK | FlagPULL

// IsData reports whether a packet with the flags is data.
func (f Flags) IsData() bool { return f&answers == 0 }

var flagNames = [8]string{0: "PULL", 1: "NACK", 2: "ACK", 6: "LAST", 7: "SYN"}

// String joins the names of the flags, the highest first; "data" for none.
func (f Flags) String() string {
	var names []string
	for i := 7; i >= 0; i-- {
		if f>>i&1 != 0 {
			names = append(names, flagNames[i])
		}
	}
	if len(names) == 0 {
		return "data"
	}
	return strings.Join(names, "+")
}

// Errors in a header.
var (
	ErrShort = errors.New("ndp: the packet ends inside the header, which has 16 bytes")
	ErrFlags = errors.New("ndp: unknown or conflicting flags: a packet has at most one of ACK, NACK and PULL, and then neither SYN nor LAST")
)

// Header is the header of an NDP packet.
type Header struct {
	Flags      Flags
	Service    uint8
	Path       uint16
	Connection uint32
	Seq        uint32
	Pull       uint32
}

// Decode reads the header at the beginning of b. What follows is ignored: a trimmed packet may
// have nothing there. Errors are ErrShort and ErrFlags.
func (h *Header) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return ErrShort
	}
	*h = Header{
		Flags: Flags(b[0]), Service: b[1], Path: binary.BigEndian.Uint16(b[2:]), Connection: binary.BigEndian.Uint32(b[4:]),
		Seq: binary.BigEndian.Uint32(b[8:]), Pull: binary.BigEndian.Uint32(b[12:]),
	}
	control := h.Flags & answers
	if h.Flags&^(FlagSYN|FlagLast|answers) != 0 || control&(control-1) != 0 || control != 0 && h.Flags != control {
		return ErrFlags
	}
	return nil
}

// EncodeTo writes the header to b, HeaderLen bytes.
func (h *Header) EncodeTo(b []byte) {
	b[0], b[1] = uint8(h.Flags), h.Service
	binary.BigEndian.PutUint16(b[2:], h.Path)
	binary.BigEndian.PutUint32(b[4:], h.Connection)
	binary.BigEndian.PutUint32(b[8:], h.Seq)
	binary.BigEndian.PutUint32(b[12:], h.Pull)
}
