package cmnic

import (
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// conn is a connection, or the resolution of a service.
type conn struct {
	id, remote  msg.CommID // remote is 0 while unknown
	state       State
	passive     bool
	silent      bool // the consumer has destroyed it
	local, peer netip.Addr
	class       uint8  // traffic class of messages
	transaction uint64 // of the exchange under way
	first       uint64 // transaction of the REQ
	attributes  Attributes
	qpn         uint32 // ours
	request     *msg.REQ
	listener    *listener // while it counts in the backlog

	due      units.Time
	place    int         // in timers
	pending  msg.Message // repeated while left > 0
	left     int
	retries  int
	interval units.Time
	reply    msg.Message // answers repeated messages of the other side

	lifetime units.Time // how long its packets can be under way
	patience units.Time // how long the other side goes on to repeat, if we send no MRA
	promised units.Time // the longest service timeout of our MRAs

	inPeers  peer
	inQueues queue
	inAsking asker
}

func (c *CM) newConn(local, other netip.Addr) *conn {
	x := &conn{id: c.newID(), local: local, peer: other, place: noTimer}
	c.conns[x.id] = x
	return x
}

// removeConn removes a connection.
func (c *CM) removeConn(x *conn) {
	c.disarm(x)
	c.release(x)
	if c.peers[x.inPeers] == x {
		delete(c.peers, x.inPeers)
	}
	if c.resolving[x.inAsking] == x {
		delete(c.resolving, x.inAsking)
	}
	delete(c.conns, x.id)
	x.state = Idle
}

// release returns the resources that only a living connection holds: the other side's queue pair,
// and a place in the backlog.
func (c *CM) release(x *conn) {
	if c.queues[x.inQueues] == x {
		delete(c.queues, x.inQueues)
	}
	x.decided()
}

// decided takes a request out of the backlog.
func (x *conn) decided() {
	if x.listener != nil {
		x.listener.waiting--
		x.listener = nil
	}
}

// know records the other side's names for the connection and its queue pair.
func (c *CM) know(x *conn, guid uint64, id msg.CommID, qpn uint32) {
	x.remote, x.inPeers, x.inQueues = id, peer{guid, id}, queue{guid, qpn}
	c.peers[x.inPeers], c.queues[x.inQueues] = x, x
}

// send sends a message of a connection once.
func (c *CM) send(x *conn, m msg.Message) {
	c.counters.Sent.add(m.Attribute())
	c.emit(x, m)
}

// resend sends a message again.
func (c *CM) resend(x *conn, m msg.Message) {
	c.counters.Resent.add(m.Attribute())
	c.emit(x, m)
}

func (c *CM) emit(x *conn, m msg.Message) {
	c.sends = append(c.sends, Send{From: x.local, To: x.peer, TrafficClass: x.class, Transaction: x.transaction, Message: m})
}

// sendUntilAnswered sends a message until it is answered or the retries are used up.
func (c *CM) sendUntilAnswered(now units.Time, x *conn, m msg.Message) {
	x.pending, x.left = m, x.retries
	c.send(x, m)
	c.arm(x, now+x.interval)
}

// answered stops repeating.
func (c *CM) answered(x *conn) {
	c.disarm(x)
	x.pending = nil
}

// timeWait waits until no packet of the connection is under way (IBTA
// §12.9).
func (c *CM) timeWait(now units.Time, x *conn) {
	c.answered(x)
	c.release(x)
	x.state = TimeWait
	c.arm(x, now+x.lifetime)
}

// stubborn returns how long the other side may repeat a message.
func (x *conn) stubborn() units.Time { return x.patience + units.Time(x.retries+1)*x.promised }

// linger ends a connection for the consumer and answers repeated messages with reply for a while.
func (c *CM) linger(now units.Time, x *conn, reply msg.Message, span units.Time) {
	c.answered(x)
	c.release(x)
	x.state, x.reply = Refused, reply
	c.arm(x, now+span)
}

// giveUp handles an unanswered last repetition.
func (c *CM) giveUp(now units.Time, x *conn) {
	switch x.state {
	case REQSent, REPWait:
		c.send(x, c.timeoutREJ(x))
		c.event(x, Event{Kind: Unreachable})
		c.removeConn(x)
	case REPSent, RTUWait:
		rej := c.timeoutREJ(x)
		c.send(x, rej)
		c.event(x, Event{Kind: Unreachable})
		c.linger(now, x, rej, x.stubborn())
	case DREQSent:
		c.event(x, Event{Kind: Disconnected, Reason: msg.ReasonTimeout})
		c.timeWait(now, x)
	case SIDRREQSent:
		c.event(x, Event{Kind: Unreachable})
		c.removeConn(x)
	}
}
