// Package agent runs programs inside a guest for those outside: over one byte
// stream, several at once, each with its input, output, exit code, signals and,
// where it wants one, a terminal.
//
// Serve is the guest's side, a Link the side that holds the stream, and a
// Session the side that wants a program run. A Link only hands frames on
// between the guest and its sessions. Either end of a session lets the other
// send window bytes of a stream and then more as it takes them, so that one that
// is slow stops no other.
//
// A guest may restart at any moment, in the middle of a frame. So a Link greets
// the agent with a number of its choice, and again until the same greeting comes
// back; what comes before that is of an earlier guest.
package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// PortName is the name of the virtio-serial port that the agent speaks on.
const PortName = "org.weft.agent.0"

// A greeting is the mark, the version of the protocol and the Link's number. No
// frame begins like it.
const (
	mark        = "\x00weft-agent\xff\x00\r\n"
	version     = 1
	numberLen   = 8
	greetingLen = len(mark) + 1 + numberLen
)

// greeting is that of a number.
func greeting(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(mark), version), number)
}

// kind says what a frame is.
type kind byte

const (
	open   kind = iota + 1 // to the guest: a program to run, a request in JSON
	data                   // a stream's number and bytes of it; without bytes its end
	more                   // a stream's number and how many more bytes of it may come, 4 bytes
	resize                 // to the guest: rows and columns of the terminal, 2 bytes each
	signal                 // to the guest: number of a signal, 1 byte
	finish                 // guest: the program has ended: a result in JSON
	leave                  // to the guest: nobody waits for the program any more
	lastKind
)

// The streams of a session.
const (
	stdin  = 0
	stdout = 1
	stderr = 2
)

const (
	headerLen  = 9
	maxPayload = 32 << 10
	// window is how much of a stream may be under way.
	window = 128 << 10
)

// frame is what goes over the stream: of a session, by its number.
type frame struct {
	kind    kind
	session uint32
	payload []byte
}

// errFrame says that what came is no frame.
var errFrame = errors.New("the stream between weft and the guest's agent is damaged")

func writeFrame(w io.Writer, f frame) error {
	b := make([]byte, headerLen, headerLen+len(f.payload))
	b[0] = byte(f.kind)
	binary.BigEndian.PutUint32(b[1:], f.session)
	binary.BigEndian.PutUint32(b[5:], uint32(len(f.payload)))
	_, err := w.Write(append(b, f.payload...))
	return err
}

// parseHeader reads what is in front of a payload, and its length.
func parseHeader(b []byte) (f frame, payload int, err error) {
	f.kind, f.session = kind(b[0]), binary.BigEndian.Uint32(b[1:])
	n := binary.BigEndian.Uint32(b[5:])
	if f.kind == 0 || f.kind >= lastKind || n > maxPayload+1 {
		return f, 0, errFrame
	}
	return f, int(n), nil
}

func readFrame(r io.Reader) (f frame, err error) {
	var b [headerLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return f, err
	}
	f, n, err := parseHeader(b[:])
	if err != nil {
		return f, err
	}
	f.payload = make([]byte, n)
	_, err = io.ReadFull(r, f.payload)
	return f, err
}

// errVersion is about an agent that speaks another version of the protocol.
func errVersion(its byte) error {
	return fmt.Errorf("the guest's agent speaks version %d of its protocol, weft version %d: rebuild the guest's image (scripts/vm-image.sh)", its, version)
}

// request is what an open frame asks for.
type request struct {
	Argv []string  `json:"argv"`
	Env  []string  `json:"env,omitempty"` // beside the agent's own
	Dir  string    `json:"dir,omitempty"`
	TTY  *Terminal `json:"tty,omitempty"`
}

// Terminal is the size of a terminal.
type Terminal struct{ Rows, Columns uint16 }

// Result is how a program ended.
type Result struct {
	// Code is the exit code; 128 and the signal's number after a signal; 127 for
	// a program that is not there and 126 for one that cannot be run.
	Code int `json:"code"`
	// Error says why it could not be run.
	Error string `json:"error,omitempty"`
}

func dataFrame(session uint32, stream byte, b []byte) frame {
	return frame{data, session, append([]byte{stream}, b...)}
}

func moreFrame(session uint32, stream byte, n int) frame {
	return frame{more, session, binary.BigEndian.AppendUint32([]byte{stream}, uint32(n))}
}

// stream gives the number of a data or more frame's stream and what is behind it.
func (f frame) stream() (n byte, rest []byte, ok bool) {
	if len(f.payload) == 0 || f.payload[0] > stderr {
		return 0, nil, false
	}
	return f.payload[0], f.payload[1:], true
}
