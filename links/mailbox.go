package links

import (
	"sync"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// Mailbox carries packets in flight from one engine to another in the wall clock,
// and freed packets back to the pool that they came from. The sender collects and
// posts in batches, to keep the lock out of the per-packet path.
type Mailbox struct {
	sending []message // the sender's
	_       [64]byte  // keeps the two engines' cache lines apart

	mu       sync.Mutex
	posted   []message
	returned packet.List

	_       [64]byte
	reading []message // the receiver's
}

// message is one packet and its destination. It has four fields in 32 bytes, so that the
// compiler passes it in registers: on the stack it would be read in wider words than it was
// written in, which stalls the processor.
type message struct {
	to     *Flight
	packet *packet.Packet // nil: the sender recalls the last packets that it sent
	at     units.Time     // when it arrives, or how many are recalled
	sent   sent
}

// sent holds how a packet was sent.
type sent struct {
	epoch    uint8 // of the link when the packet left
	overtake bool
}

func (m *Mailbox) putMessage(l message) { m.sending = append(m.sending, l) }

// PostMessages hands over the messages sent since the last PostMessages, and the packets that from
// holds for the receiver's pool. It returns the earliest arrival among the messages,
// units.Never if there are none. The sender calls it.
func (m *Mailbox) PostMessages(from, to *packet.Pool) (earliest units.Time) {
	earliest = units.Never
	back := from.TakeForeign(to)
	if len(m.sending) == 0 && back.Empty() {
		return earliest
	}
	for i := range m.sending {
		earliest = min(earliest, m.sending[i].at)
	}
	m.mu.Lock()
	if len(m.posted) == 0 {
		m.posted, m.sending = m.sending, m.posted
	} else {
		m.posted = append(m.posted, m.sending...)
	}
	m.returned.AppendList(back)
	m.mu.Unlock()
	m.sending = m.sending[:0]
	return earliest
}

// CollectMessages hands posted messages to their flights and takes packets back into pool.
// The receiver calls it.
func (m *Mailbox) CollectMessages(pool *packet.Pool) {
	m.mu.Lock()
	m.reading, m.posted = m.posted, m.reading[:0]
	back := m.returned
	m.returned = packet.List{}
	m.mu.Unlock()
	for i := range m.reading {
		m.reading[i].to.receiveMessage(&m.reading[i])
	}
	for p := back.Pop(); p != nil; p = back.Pop() {
		pool.Free(p)
	}
}
