// Package cctest helps to test rate controls. It models flows that share one egress port, which
// marks packets and stamps telemetry. It models only what a control sees of a fabric: no loss,
// no headers, and of a NIC only its window, its pacing and its line.
package cctest

import (
	"container/heap"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// Bottleneck is one port that flows share. Each flow comes from a separate port. The exported
// fields must be set before the first Start.
type Bottleneck struct {
	Line, NIC   units.Rate  // of the port, and of the senders' ports
	Delay       units.Time  // of all cables from a sender to the receiver and back
	MTU, Packet units.Bytes // payload of a packet, and what it takes on the wire
	K           units.Bytes // the port marks packets that find a longer queue; 0 means never

	now    units.Time
	seq    uint64
	events events

	queue   []*packet
	waiting units.Bytes
	busy    bool
	sent    units.Bytes // by the port, since the start

	since   units.Time
	changed units.Time  // until when sum includes the queue
	sum     float64     // bytes times seconds
	longest units.Bytes // queue
	before  units.Bytes // sent before since
}

// Flow is one sender, which always has something to send until it is stopped.
type Flow struct {
	Control cc.Control
	Got     units.Bytes // payload received since RestartMeasurement

	b           *Bottleneck
	stopped     bool
	next        units.Time // pacing
	sent, acked units.Bytes
	tick        units.Time // when the timer's event comes
}

type packet struct {
	flow   *Flow
	left   units.Time // the sender
	seq    units.Bytes
	marked bool
	hop    [1]telemetry.Hop
}

// RTT returns the RTT of a packet without queues. The acknowledgement takes no time to
// serialize.
func (b *Bottleneck) RTT() units.Time {
	return b.NIC.TimeOf(b.Packet) + b.Line.TimeOf(b.Packet) + b.Delay
}

// Flow describes a flow through the bottleneck, for the creation of its control.
func (b *Bottleneck) Flow() cc.Flow {
	return cc.Flow{
		Line: b.NIC, MTU: b.MTU, Packet: b.Packet,
		Path: cc.Path{RTT: b.RTT(), Bottleneck: min(b.Line, b.NIC), Hops: 2},
	}
}

// Start starts a flow now.
func (b *Bottleneck) Start(c cc.Control) *Flow {
	f := &Flow{Control: c, b: b, tick: units.Never, next: b.now}
	c.SetActive(b.now, true)
	b.runAt(b.now, f.sendAllowed)
	return f
}

// Stop ends the flow. Packets in flight still arrive.
func (f *Flow) Stop() { f.stopped = true }

// Run runs the model until end.
func (b *Bottleneck) Run(end units.Time) {
	for len(b.events) > 0 && b.events[0].at <= end {
		e := heap.Pop(&b.events).(event)
		b.now = e.at
		e.do()
	}
	b.now = end
}

// sendAllowed sends what rate and window allow now.
func (f *Flow) sendAllowed() {
	b := f.b
	if f.stopped || b.now < f.next {
		return
	}
	f.runTimer()
	if w, inFlight := f.Control.Window(), f.sent-f.acked; w > 0 && inFlight > 0 && inFlight+b.MTU > w {
		return // the next acknowledgement calls send again
	}
	p := &packet{flow: f, left: b.now, seq: f.sent + b.MTU}
	f.sent = p.seq
	f.Control.OnPacketSent(b.now, b.Packet)
	gap := b.NIC.TimeOf(b.Packet)
	b.runAt(b.now+gap+b.Delay/4, func() { b.enqueuePacket(p) })
	if r := f.Control.Rate(); r > 0 {
		gap = max(gap, r.TimeOf(b.Packet))
	}
	f.next = b.now + gap
	b.runAt(f.next, f.sendAllowed)
	f.armTimer()
}

// runTimer calls the control's Tick if it is due.
func (f *Flow) runTimer() {
	if f.Control.NextTimer() <= f.b.now {
		f.Control.OnTimer(f.b.now)
	}
}

// armTimer schedules the control's timer.
func (f *Flow) armTimer() {
	at := f.Control.NextTimer()
	if at == units.Never || f.tick <= at {
		return
	}
	f.tick = at
	f.b.runAt(at, func() {
		f.tick = units.Never
		f.runTimer()
		f.sendAllowed()
		f.armTimer()
	})
}

// enqueuePacket puts a packet into the port's queue.
func (b *Bottleneck) enqueuePacket(p *packet) {
	p.marked = b.K > 0 && b.waiting > b.K
	b.accountQueue()
	b.queue = append(b.queue, p)
	b.waiting += b.Packet
	b.longest = max(b.longest, b.waiting)
	b.transmitNext()
}

// transmitNext starts to send the next packet if the port is free.
func (b *Bottleneck) transmitNext() {
	if b.busy || len(b.queue) == 0 {
		return
	}
	b.accountQueue()
	p := b.queue[0]
	b.queue = b.queue[1:]
	b.waiting -= b.Packet
	b.busy = true
	b.sent += b.Packet
	code, _ := telemetry.RateCode(b.Line)
	p.hop[0] = telemetry.NewHop(code, b.now, b.sent, b.waiting)
	done := b.now + b.Line.TimeOf(b.Packet)
	b.runAt(done, func() {
		b.busy = false
		b.transmitNext()
	})
	b.runAt(done+b.Delay/4, func() { p.flow.Got += b.MTU })
	b.runAt(done+b.Delay-b.Delay/4, func() { p.flow.takeAck(p) })
}

// takeAck handles the acknowledgement of a packet.
func (f *Flow) takeAck(p *packet) {
	b := f.b
	f.runTimer()
	f.acked = p.seq
	f.Control.OnAck(b.now, &cc.Ack{
		Acked: p.seq, Sent: f.sent, Newly: b.MTU, Packets: 1, InFlight: f.sent - f.acked,
		RTT: b.now - p.left, Marked: p.marked, Hops: p.hop[:], Path: 1,
	})
	f.sendAllowed()
	f.armTimer()
}

// accountQueue adds to sum the queue, whose length has not changed since the last call.
func (b *Bottleneck) accountQueue() {
	b.sum += float64(b.waiting) * (b.now - b.changed).Seconds()
	b.changed = b.now
}

// RestartMeasurement restarts the measurement, of flows too.
func (b *Bottleneck) RestartMeasurement(flows ...*Flow) {
	b.accountQueue()
	b.since, b.sum, b.longest, b.before = b.now, 0, b.waiting, b.sent
	for _, f := range flows {
		f.Got = 0
	}
}

// Results returns the mean and the longest queue in bytes, and the utilisation of the port,
// since RestartMeasurement.
func (b *Bottleneck) Results() (mean, longest, utilisation float64) {
	b.accountQueue()
	span := b.now - b.since
	return b.sum / span.Seconds(), float64(b.longest), float64(b.sent-b.before) / float64(b.Line.BytesIn(span))
}

// Jain returns Jain's fairness index of what flows received: 1 if all received the same.
func Jain(flows ...*Flow) float64 {
	var got []float64
	for _, f := range flows {
		got = append(got, float64(f.Got))
	}
	return fairness.Jain(got...)
}

type event struct {
	at  units.Time
	seq uint64
	do  func()
}

func (b *Bottleneck) runAt(t units.Time, do func()) {
	b.seq++
	heap.Push(&b.events, event{t, b.seq, do})
}

// events is a heap ordered by time, and for equal times by the order of creation.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
