package nicemu

import (
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// Next returns the packet of a class that leaves now, nil if there is none. The port calls it.
func (d *Device) Next(now units.Time, prio uint8) *packet.Packet {
	l := &d.lanes[prio]
	p := d.takeFirst(now, l)
	if p != nil {
		d.counters.XmitPackets++
		d.counters.XmitBytes += uint64(p.Size)
		if p.Dst.IsMulticast() {
			d.counters.XmitMcast++
			d.loopGroupCopy(p)
		}
	}
	d.announceNext(prio)
	d.armTimer()
	return p
}

// takeFirst takes the first packet of a lane.
func (d *Device) takeFirst(now units.Time, l *lane) *packet.Packet {
	switch {
	case !l.own.Empty():
		return l.own.Pop()
	case l.ccMessages.FirstProbe() != nil:
		return l.ccMessages.Pop()
	case l.cnps.Len() > 0:
		return d.makeCNP(l.cnps.Pop())
	}
	for {
		var q *QP
		urgent := l.urgent.Len() > 0
		switch {
		case urgent:
			q = *l.urgent.First()
		case l.ready.Len() > 0:
			q = d.nextQP(l)
		default:
			return nil
		}
		// A queue pair that could not read its data has handled that, and the next has its turn.
		if p := d.emitPacket(now, q, urgent); p != nil {
			return p
		}
	}
}

// emitPacket makes the next packet of a queue pair: an urgent one, or one in its turn.
func (d *Device) emitPacket(now units.Time, q *QP, urgent bool) *packet.Packet {
	r, offer := q.currentRoute(), q.offer
	kind := offer.Kind
	behind := !urgent && kind == transport.Control // its acknowledgement is in another lane
	if behind {
		offer, kind = q.rest, q.rest.Kind
	}
	if r == nil { // the address handle has been destroyed meanwhile
		d.rescheduleQP(now, q)
		return nil
	}
	p := d.env.Pool.NewRoCE()
	var ok bool
	if behind {
		ok = q.engine.NextRequest(now, &p.RoCE.Packet)
	} else {
		ok = q.engine.Next(now, &p.RoCE.Packet)
	}
	if !ok {
		d.freePacket(p)
		d.rescheduleQP(now, q)
		return nil
	}
	d.fillHeaders(p, r, offer.Bytes)
	if kind == transport.Control {
		p.TOS = r.ackTOS
	}
	q.addTelemetry(p, kind)
	if q.config.Type == qp.UD && !r.labelled {
		p.SrcPort = portOf(q.Number())
		p.Hash = packet.FlowHash(packet.FoldAddress(r.ends.From), packet.FoldAddress(r.ends.To), p.Proto, p.SrcPort, p.DstPort)
	}
	size := packet.OnWire(p.Size)
	if d.line > 0 && !r.loop {
		d.busy = now + d.line.TimeOf(size)
	}
	if q.echo && kind == transport.Control && carriesEcho(p.RoCE.BTH.Opcode.Operation()) {
		p.RoCE.BTH.BECN, q.echo = true, false
	}
	if kind != transport.Control {
		q.counters.DataPackets++
		q.counters.DataBytes += uint64(p.Size)
		q.credit -= q.frame
		q.reportSent(now, size, r.static)
		if d.traits.NeedsAcks && (kind == transport.Response || !q.config.Type.IsReliable()) {
			d.counters.RPUnheard++
		}
	}
	d.rescheduleQP(now, q)
	return p
}

// carriesEcho reports whether an acknowledgement can carry the echo of a mark.
func carriesEcho(operation roce.Opcode) bool { return operation == roce.Ack || operation == roce.Nack }

// telemetryLen returns the length of the in-band telemetry in a packet of a queue pair: room in a
// request, and the request's telemetry in its answer. There is none in loopback, which passes no
// switch, and in READ responses, which are not acknowledged.
func (q *QP) telemetryLen(kind transport.Kind) units.Bytes {
	switch {
	case kind == transport.Request && q.room > 0:
		return telemetry.StackSize(q.room)
	case kind == transport.Control && q.requestTelemetry != nil && q.requestTelemetry.Echo:
		return q.requestTelemetry.Len()
	}
	return 0
}

// addTelemetry puts in-band telemetry into a packet: room for hops, or the hops being sent back.
func (q *QP) addTelemetry(p *packet.Packet, kind transport.Kind) {
	n := q.telemetryLen(kind)
	if n == 0 {
		return
	}
	p.DstPort = telemetry.Port
	p.Size += n
	if kind == transport.Request {
		*p.RoCE.Stack() = telemetry.Stack{Room: uint8(q.room)}
		return
	}
	*p.RoCE.Stack() = *q.requestTelemetry
	q.requestTelemetry.Echo = false
}

// sendOwn queues a packet that the NIC itself generates.
func (d *Device) sendOwn(p *packet.Packet, prio uint8) {
	d.lanes[prio].own.Push(p)
	d.announceNext(prio)
}

// requestCNP requests a CNP to the peer of a queue pair.
func (d *Device) requestCNP(q *QP) {
	if q.notified {
		return // the waiting one is enough
	}
	q.notified = true
	prio := d.env.Priority[d.traits.CNPDSCP]
	if q.route.loop {
		prio = loopback
	}
	d.lanes[prio].cnps.Push(q)
	d.announceNext(prio)
}

// cnpBytes is the length of a CNP from its BTH to its ICRC.
const cnpBytes = roce.BTHLen + roce.CNPReservedLen + roce.ICRCLen

// cnpFrame returns the length of the frame of a CNP for a queue pair.
func cnpFrame(q *QP) units.Bytes { return q.route.headersLen() + cnpBytes }

// makeCNP makes the congestion notification packet to a queue pair's peer (IBTA A17.9.3). Like a
// ConnectX's it is ECN-capable, so that a congested queue marks it rather than drops it. Its UDP
// source port is the queue pair's, where a ConnectX-4 Lx has 0.
func (d *Device) makeCNP(q *QP) *packet.Packet {
	q.notified = false
	p := d.env.Pool.NewRoCE()
	a, _ := q.verbs.Query()
	p.RoCE.BTH = roce.CNPHeader(a.DestQPN)
	p.RoCE.Payload, p.RoCE.Length = p.RoCE.Payload[:0], 0
	d.fillHeaders(p, &q.route, cnpBytes)
	p.TOS = d.traits.CNPDSCP<<2 | wire.ECT0
	q.counters.CNPsSent++
	d.counters.NPCNPSent++
	return p
}
