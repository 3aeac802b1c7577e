package nicemu

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// lane holds what the NIC has to send in one class of its port. First go packets that the NIC
// itself generates, then messages of rate controls, then CNPs, then acknowledgements, which are
// short and hold up the peer, then the queue pairs in turn.
//
// A queue pair that has something to acknowledge keeps its place in the round robin: otherwise one
// whose peer sends a lot would never have its turn.
type lane struct {
	own        packet.List     // of the connection manager, and loopback traffic
	ccMessages cc.Outbox       // of rate controls
	cnps       queue.FIFO[*QP] // each has one to send
	urgent     queue.FIFO[*QP] // each has an acknowledgement to send
	ready      queue.List[QP]  // take turns
	fed        units.Bytes     // size announced to the port for the first packet; 0 if none
}

// isAt reports whether *other is q.
func (q *QP) isAt(other **QP) bool { return *other == q }

// placeQP puts a queue pair where it belongs: in the urgent queue of the lane of its acknowledgements,
// in the round robin of the lane of its data, in both or neither. The two are one lane unless
// acknowledgements have a separate class.
func (d *Device) placeQP(q *QP, prio, ack uint8, urgent, ready bool) {
	old, l := q.prio, &d.lanes[q.prio]
	moved := prio != old
	oldAck, a := q.ack, &d.lanes[q.ack]
	if q.urgent && (ack != oldAck || !urgent) {
		if *a.urgent.First() == q {
			a.urgent.Pop()
		} else {
			a.urgent.DeleteFunc(q.isAt)
		}
		q.urgent = false
	}
	if moved || !ready {
		l.ready.Remove(&q.turn)
	}
	q.prio, l = prio, &d.lanes[prio]
	q.ack = ack
	if urgent && !q.urgent {
		d.lanes[ack].urgent.Push(q)
		q.urgent = true
	}
	if ready && !q.turn.IsLinked() {
		l.ready.Push(&q.turn, q)
		q.credit = d.quantum
	}
	if moved {
		d.announceNext(old)
	}
	if ack != oldAck && oldAck != old {
		d.announceNext(oldAck)
	}
}

// announceNext announces the first packet of a lane to the port, if that has changed.
func (d *Device) announceNext(prio uint8) {
	l := &d.lanes[prio]
	size := d.firstSize(l)
	if size == l.fed {
		return
	}
	l.fed = size
	if prio == loopback {
		d.feedLoop()
		return
	}
	d.env.Port.AnnouncePacket(d.env.Now(), prio, size)
}

// firstSize returns the length of the lane's next frame.
func (d *Device) firstSize(l *lane) units.Bytes {
	switch {
	case !l.own.Empty():
		return l.own.First().Size
	case l.ccMessages.FirstProbe() != nil:
		return l.ccMessages.FirstProbe().Size
	case l.cnps.Len() > 0:
		return cnpFrame(*l.cnps.First())
	case l.urgent.Len() > 0:
		return (*l.urgent.First()).answer
	case l.ready.Len() > 0:
		return d.nextQP(l).frame
	}
	return 0
}

// nextQP returns the queue pair whose turn it is, by deficit round robin (Shreedhar and Varghese,
// SIGCOMM 1995), so that queue pairs have equal shares of bytes whatever their path MTU.
func (d *Device) nextQP(l *lane) *QP {
	for {
		q := l.ready.First()
		if q.credit >= q.frame {
			return q
		}
		q.credit += d.quantum
		l.ready.Rotate()
	}
}

// WaitingPackets returns the number of packets of the connection manager and of rate controls that wait to
// be sent. No more are made before they leave.
func (d *Device) WaitingPackets() (n int) {
	for i := range d.lanes {
		for p := d.lanes[i].own.First(); p != nil; p = p.Next {
			n++
		}
		n += d.lanes[i].ccMessages.Len()
	}
	return n
}
