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

	lifetime   units.Time // how long its packets can be under way
	repeatSpan units.Time // how long the other side goes on to repeat, if we send no MRA
	promised   units.Time // the longest service timeout of our MRAs

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
	c.disarmTimer(x)
	c.releaseResources(x)
	if c.peers[x.inPeers] == x {
		delete(c.peers, x.inPeers)
	}
	if c.resolving[x.inAsking] == x {
		delete(c.resolving, x.inAsking)
	}
	delete(c.conns, x.id)
	x.state = Idle
}

// releaseResources returns the resources that only a living connection holds: the other side's queue pair,
// and a place in the backlog.
func (c *CM) releaseResources(x *conn) {
	if c.queues[x.inQueues] == x {
		delete(c.queues, x.inQueues)
	}
	x.leaveBacklog()
}

// leaveBacklog takes a request out of the backlog.
func (x *conn) leaveBacklog() {
	if x.listener != nil {
		x.listener.waiting--
		x.listener = nil
	}
}

// recordPeer records the other side's names for the connection and its queue pair.
func (c *CM) recordPeer(x *conn, guid uint64, id msg.CommID, qpn uint32) {
	x.remote, x.inPeers, x.inQueues = id, peer{guid, id}, queue{guid, qpn}
	c.peers[x.inPeers], c.queues[x.inQueues] = x, x
}

// sendOnce sends a message of a connection once.
func (c *CM) sendOnce(x *conn, m msg.Message) {
	c.counters.Sent.countMessage(m.Attribute())
	c.emitMessage(x, m)
}

// sendAgain sends a message again.
func (c *CM) sendAgain(x *conn, m msg.Message) {
	c.counters.Resent.countMessage(m.Attribute())
	c.emitMessage(x, m)
}

func (c *CM) emitMessage(x *conn, m msg.Message) {
	c.sends = append(c.sends, Send{From: x.local, To: x.peer, TrafficClass: x.class, Transaction: x.transaction, Message: m})
}

// sendUntilAnswered sends a message until it is answered or the retries are used up.
func (c *CM) sendUntilAnswered(now units.Time, x *conn, m msg.Message) {
	x.pending, x.left = m, x.retries
	c.sendOnce(x, m)
	c.armTimer(x, now+x.interval)
}

// stopRepeating stops repeating.
func (c *CM) stopRepeating(x *conn) {
	c.disarmTimer(x)
	x.pending = nil
}

// timeWait waits until no packet of the connection is under way (IBTA
// §12.9).
func (c *CM) timeWait(now units.Time, x *conn) {
	c.stopRepeating(x)
	c.releaseResources(x)
	x.state = TimeWait
	c.armTimer(x, now+x.lifetime)
}

// repeatTime returns how long the other side may repeat a message.
func (x *conn) repeatTime() units.Time { return x.repeatSpan + units.Time(x.retries+1)*x.promised }

// lingerConnection ends a connection for the consumer and answers repeated messages with reply for a while.
func (c *CM) lingerConnection(now units.Time, x *conn, reply msg.Message, span units.Time) {
	c.stopRepeating(x)
	c.releaseResources(x)
	x.state, x.reply = Refused, reply
	c.armTimer(x, now+span)
}

// giveUp handles an unanswered last repetition.
func (c *CM) giveUp(now units.Time, x *conn) {
	switch x.state {
	case REQSent, REPWait:
		c.sendOnce(x, c.timeoutREJ(x))
		c.addEvent(x, Event{Kind: Unreachable})
		c.removeConn(x)
	case REPSent, RTUWait:
		rej := c.timeoutREJ(x)
		c.sendOnce(x, rej)
		c.addEvent(x, Event{Kind: Unreachable})
		c.lingerConnection(now, x, rej, x.repeatTime())
	case DREQSent:
		c.addEvent(x, Event{Kind: Disconnected, Reason: msg.ReasonTimeout})
		c.timeWait(now, x)
	case SIDRREQSent:
		c.addEvent(x, Event{Kind: Unreachable})
		c.removeConn(x)
	}
}
