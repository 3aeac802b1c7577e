package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// ReceivePacket handles a packet received by the port, and frees it. A packet without RoCE is a frame
// from another sender: a kernel, a guest.
func (d *Device) ReceivePacket(now units.Time, p *packet.Packet) {
	d.counters.RcvPackets++
	d.counters.RcvBytes += uint64(p.Size)
	if p.Dst.IsMulticast() {
		d.counters.RcvMcast++
	}
	d.acceptPacket(now, p)
	d.armTimer()
}

// acceptPacket takes a packet from the port or the loop.
func (d *Device) acceptPacket(now units.Time, p *packet.Packet) {
	if from, to, b := d.readPacket(p); b != nil {
		d.dispatchPacket(now, p, from, to, b)
	}
	d.freePacket(p)
}

// readPacket returns the contents of a packet and its addresses; nil if it is unusable.
func (d *Device) readPacket(p *packet.Packet) (from, to netip.Addr, b *roce.Packet) {
	switch {
	case p.Trimmed:
		// Without payload and ICRC nothing in it can be trusted.
		d.counters.RxTrimmed++
		return
	case p.RoCE != nil:
		d.heard = p.Telemetry()
		return p.RoCE.From, p.RoCE.To, &p.RoCE.Packet
	}
	d.heard = nil
	if p.DstPort == telemetry.Port {
		var err error
		if p.Frame, err = telemetry.RemoveStack(p.Frame, int(p.L3), &d.stack); err != nil {
			d.counters.RcvErrors++
			return
		}
		d.heard = &d.stack
	}
	ip := p.Frame[p.L3:]
	if roce.CheckICRC(ip) != nil {
		d.counters.RxICRCErrors++
		return
	}
	if d.scratch.DecodeIP(ip) != nil {
		d.counters.RcvErrors++
		return
	}
	from, to = addressesOf(ip)
	return from, to, &d.scratch
}

// addressesOf returns the addresses of an IP header.
func addressesOf(ip []byte) (from, to netip.Addr) {
	if ip[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	}
	return netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
}

// dispatchPacket passes a packet to its queue pair (IBTA §9.6.1).
func (d *Device) dispatchPacket(now units.Time, p *packet.Packet, from, to netip.Addr, b *roce.Packet) {
	switch h := &b.BTH; {
	case !samePartition(h.PKey, roce.DefaultPKey):
		d.counters.PKeyViolations++
	case h.Opcode == roce.NotifyCongestion:
		d.deliverCNP(now, h.DestQP, from, to)
	case h.DestQP == qp.GSINumber:
		d.receiveManagement(now, from, to, b)
	case h.DestQP == MulticastQPN:
		for _, m := range d.groups.Members(GID(to)) {
			q := d.numbers.findQP(m.Number())
			if q.config.BlockSelfMulticast && b.FurtherHeaders().DETH.SourceQP == m.Number() && d.ownsAddress(from) {
				continue
			}
			d.deliverToQP(now, q, p, from, to, b)
		}
	default:
		q := d.numbers.findQP(h.DestQP)
		if q == nil {
			q = d.findUnmatched(now, from, to, p.SrcPort, b)
		}
		d.deliverToQP(now, q, p, from, to, b)
	}
}

// samePartition reports whether two P_Keys belong to one partition and not both to limited members
// (IBTA §10.9.3).
func samePartition(a, b uint16) bool { return (a^b)&0x7fff == 0 && (a|b)&0x8000 != 0 }

// deliverToQP passes a packet to a queue pair.
func (d *Device) deliverToQP(now units.Time, q *QP, p *packet.Packet, from, to netip.Addr, b *roce.Packet) {
	if q == nil || !q.engine.AcceptsService(b.BTH.Opcode.Service()) {
		d.counters.NoQP++
		return
	}
	var grh *[transport.GRHLen]byte
	switch {
	case q.config.Type == qp.UD && !d.ownsAddress(to) && !to.IsMulticast(),
		q.config.Type != qp.UD && q.State() >= qp.RTR && (from != q.route.ends.To || to != q.route.ends.From):
		d.counters.WrongAddress++
		return
	case q.config.Type == qp.UD:
		grh = d.grhOf(p, from, to, b)
	}
	if s := q.State(); s < qp.RTR || s == qp.Err {
		d.counters.WrongState++ // the queue pair takes no packets
	}
	q.counters.RxPackets++
	q.counters.RxBytes += uint64(p.Size)
	if p.ECN() == wire.CE {
		q.counters.Marked++
		d.counters.NPECNMarked++
		d.answerMark(now, q, b.BTH.Opcode)
	}
	if t := d.heard; t != nil && !t.Echo {
		q.storeTelemetry(t)
	}
	q.runControlTimer(now)
	before := q.engine.Payload()
	q.engine.Receive(now, b, grh)
	if q.engine.Payload() != before {
		if q.counters.LastPayload <= d.env.Links.To {
			q.gaps.RecordGap(d.env.Links, q.counters.LastPayload, now, 0)
		}
		q.counters.LastPayload = now
	}
	d.rescheduleQP(now, q)
}

// answerMark responds to the mark of a packet for a queue pair.
func (d *Device) answerMark(now units.Time, q *QP, o roce.Opcode) {
	if d.traits.Marks == cc.AnswerNothing || !q.answersMarks(o) {
		return
	}
	switch {
	case d.traits.Marks == cc.AnswerEcho:
		q.echo = true
	case q.notice.NeedsCNP(now, true, d.traits.CNPGap):
		d.requestCNP(q)
	}
}

// storeTelemetry stores the in-band telemetry of a request, to be sent back with its acknowledgement.
func (q *QP) storeTelemetry(t *telemetry.Stack) {
	if q.requestTelemetry == nil {
		q.requestTelemetry = new(telemetry.Stack)
	}
	*q.requestTelemetry = *t
	q.requestTelemetry.Echo = true
}

// answersMarks reports whether a mark on a packet is answered, which it is if the peer has a flow
// that can slow down. Datagrams and acknowledgements belong to no such flow.
func (q *QP) answersMarks(o roce.Opcode) bool {
	op := o.Operation()
	return q.config.Type != qp.UD && q.State() >= qp.RTR && q.State() != qp.Err && op != roce.Ack && op != roce.AtomicAck && op != roce.Nack && op != roce.ReadAck
}

// deliverCNP delivers a CNP to a queue pair.
func (d *Device) deliverCNP(now units.Time, number uint32, from, to netip.Addr) {
	q := d.numbers.findQP(number)
	if q == nil || q.control == nil || from != q.route.ends.To || to != q.route.ends.From {
		d.counters.RPCNPIgnored++
		return
	}
	d.slowQP(now, q)
}

// slowQP passes a CNP to the rate control of a queue pair.
func (d *Device) slowQP(now units.Time, q *QP) {
	d.counters.RPCNPHandled++
	q.counters.CNPsHandled++
	q.runControlTimer(now)
	q.control.OnCNP(now)
	d.rescheduleQP(now, q)
}

// grhOf returns what precedes a datagram in the receive buffer: the IPv6 header, or the IPv4 header
// in the last 20 bytes (annex A17). It is nil where only lengths are modelled.
func (d *Device) grhOf(p *packet.Packet, from, to netip.Addr, b *roce.Packet) *[transport.GRHLen]byte {
	if len(b.Payload) < b.Length {
		return nil
	}
	h := &d.grh
	*h = [transport.GRHLen]byte{}
	if p.RoCE == nil {
		ip := p.Frame[p.L3:]
		if p.Version == 4 {
			copy(h[wire.IPv6Header-wire.IPv4Header:], ip[:wire.IPv4Header])
		} else {
			copy(h[:], ip[:wire.IPv6Header])
		}
		return h
	}
	putIP(h, p, from, to)
	return h
}
