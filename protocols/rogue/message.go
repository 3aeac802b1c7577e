package rogue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// Port is the UDP port of the service through which the layers of two hosts find each other
// (IBTA §12.11, RDMA_PS_UDP). The message format is this project's; the paper has none.
const Port = 18477

// QKey is the key of the datagrams between layers.
const QKey = 0x526f4755

// Kind is the kind of a message.
type Kind uint8

// The kinds.
const (
	Resync      Kind = 1 // the NIC has given up: continue with the shadow queue pairs
	ResyncReply Kind = 2
	ResyncDone  Kind = 3 // this side receives packets on the shadow queue pair
	ReadLimit   Kind = 4 // rate limit for the READ responses of the message's receiver (§3.4)
	Hello       Kind = 5 // UC: the queue pairs of this side for batches and echoes (§3.4)
	HelloReply  Kind = 6 // the same, and an acknowledgement of the other side's queue pairs
)

var kinds = [...]string{"", "resync", "resync reply", "resync done", "READ limit", "hello", "hello reply"}

// String returns the name.
func (k Kind) String() string {
	if int(k) >= len(kinds) || k == 0 {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kinds[k]
}

func (k Kind) isHello() bool { return k == Hello || k == HelloReply }

// Message is a datagram between two layers about a connection. From is the queue pair of the
// sender of the message, To that of the receiver.
//
// Epoch in Resync and its reply counts the changes of queue pairs of the connection, this one
// included. In Hello it is a random number, and the reply has the same.
type Message struct {
	Kind     Kind
	From, To uint32     // queue pairs of the connection as programs know them
	Epoch    uint32     // of Resync, Hello and their replies
	Other    uint32     // queue pair that the sender continues with; of Hello and reply: batches
	PSN      uint32     // of the first packet that it sends
	Received uint32     // of Resync and its reply: receives of the sender consumed, modulo 2^32
	Echoes   uint32     // of Hello and its reply: queue pair of the sender for echoes
	Limit    units.Rate // of ReadLimit; a whole number of kb/s; 0 means none
}

// MessageLen is the length of a message in bytes.
const MessageLen = 36

// version is the version of the format.
const version = 1

// ErrMessage is returned by Parse if the bytes are not a message of this version.
var ErrMessage = errors.New("rogue: not a message of version 1")

// Append appends the message to b, with numbers in network byte order: version, kind, two
// bytes of zeros, From, To, Epoch, Other, PSN, Received or Echoes, and Limit in kb/s in eight
// bytes.
func (m *Message) Append(b []byte) []byte {
	b = append(b, version, byte(m.Kind), 0, 0)
	last := m.Received
	if m.Kind.isHello() {
		last = m.Echoes
	}
	for _, n := range [...]uint32{m.From, m.To, m.Epoch, m.Other, m.PSN, last} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return binary.BigEndian.AppendUint64(b, uint64(m.Limit/units.Kbps))
}

// Parse reads a message. It ignores bytes after it.
func Parse(b []byte) (m Message, err error) {
	if len(b) < MessageLen || b[0] != version || b[1] == 0 || int(b[1]) >= len(kinds) {
		return m, ErrMessage
	}
	m.Kind = Kind(b[1])
	last := &m.Received
	if m.Kind.isHello() {
		last = &m.Echoes
	}
	for i, n := range [...]*uint32{&m.From, &m.To, &m.Epoch, &m.Other, &m.PSN, last} {
		*n = binary.BigEndian.Uint32(b[4+4*i:])
	}
	limit := binary.BigEndian.Uint64(b[28:])
	if limit > maxLimit || (m.From|m.To|m.Other|m.PSN|m.Echoes)>>24 != 0 {
		return Message{}, ErrMessage
	}
	m.Limit = units.Rate(limit) * units.Kbps
	return m, nil
}

// maxLimit is the highest rate limit, in kb/s: 1 Pb/s.
const maxLimit = 1e12
