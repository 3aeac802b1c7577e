// Package agent runs programs inside a guest for clients outside: several at once
// over one byte stream, each with its input, output, exit code, signals and
// optionally a terminal.
//
// Serve is the guest's side, a Link the side that holds the stream, and a session
// the side that requests a program. A Link only forwards frames between the guest
// and its sessions. Each end of a session lets the other send window bytes of a
// stream, and then more as it takes them, so that a slow session does not block the
// others.
//
// A guest may restart at any moment, in the middle of a frame. So a Link greets the
// agent with a number of its choice, and repeats the greeting until it comes back;
// data before that is from an earlier guest.
package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// PortName is the name of the agent's virtio-serial port.
const PortName = "org.weft.agent.0"

// A greeting is the mark, the version of the protocol and the Link's number. No
// frame begins like a greeting.
const (
	mark        = "\x00weft-agent\xff\x00\r\n"
	version     = 1
	numberLen   = 8
	greetingLen = len(mark) + 1 + numberLen
)

// makeGreeting returns the greeting with a number.
func makeGreeting(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(mark), version), number)
}

// kind is the kind of a frame.
type kind byte

const (
	open   kind = iota + 1 // to the guest: a program to run, a request in JSON
	data                   // a stream's number and some of its bytes; without bytes, its end
	more                   // a stream's number and how many more of its bytes may be sent, 4 bytes
	resize                 // to the guest: rows and columns of the terminal, 2 bytes each
	signal                 // to the guest: number of a signal, 1 byte
	finish                 // from the guest: the program has ended: a result in JSON
	leave                  // to the guest: the client no longer waits for the program
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
	// window is how many bytes of a stream may be in flight.
	window = 128 << 10
)

// frame is one message on the stream. session is the number of its session.
type frame struct {
	kind    kind
	session uint32
	payload []byte
}

// errFrame means that the received bytes are not a frame.
var errFrame = errors.New("the stream between weft and the guest's agent is damaged")

func writeFrame(w io.Writer, f frame) error {
	b := make([]byte, headerLen, headerLen+len(f.payload))
	b[0] = byte(f.kind)
	binary.BigEndian.PutUint32(b[1:], f.session)
	binary.BigEndian.PutUint32(b[5:], uint32(len(f.payload)))
	_, err := w.Write(append(b, f.payload...))
	return err
}

// parseHeader parses the header of a frame and returns the length of the payload.
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

// errVersion returns the error for an agent with a different protocol version.
func errVersion(its byte) error {
	return fmt.Errorf("the guest's agent has protocol version %d, weft has version %d: rebuild the guest's image (scripts/vm-image.sh)", its, version)
}

// request is the content of an open frame.
type request struct {
	Argv []string  `json:"argv"`
	Env  []string  `json:"env,omitempty"` // in addition to the agent's own
	Dir  string    `json:"dir,omitempty"`
	TTY  *Terminal `json:"tty,omitempty"`
}

// Terminal is the size of a terminal.
type Terminal struct{ Rows, Columns uint16 }

// Result is how a program ended.
type Result struct {
	// Code is the exit code; 128 and the signal's number after a signal; 127 for a
	// program that does not exist and 126 for one that cannot be run.
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

// splitStream returns the stream number of a data or more frame and the rest of its payload.
func (f frame) splitStream() (n byte, rest []byte, ok bool) {
	if len(f.payload) == 0 || f.payload[0] > stderr {
		return 0, nil, false
	}
	return f.payload[0], f.payload[1:], true
}
