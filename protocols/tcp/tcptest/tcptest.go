// Package tcptest helps with tests. It runs TCP connections under rate controls that
// share one port, which has a bounded queue and may mark. It models nothing else of a
// fabric.
package tcptest

import (
	"container/heap"
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Dumbbell is the port. Set the exported fields before the first Start.
type Dumbbell struct {
	Line   units.Rate  // of the port
	NIC    units.Rate  // of each sender's, above 0
	RTT    units.Time  // of the path, without queues and serialisation
	Buffer units.Bytes // capacity of the port's queue; 0 means no limit
	K      units.Bytes // packets that find a longer queue are marked; 0 means never
	Config tcp.Config

	Now     units.Time
	Dropped int // packets that found the queue full
	Marked  int

	seq    uint64
	events events
	rand   *rand.Rand
	freeAt units.Time

	since   units.Time
	queued  float64 // bytes times seconds that packets waited
	carried units.Bytes
}

// Flow is a connection.
type Flow struct {
	Sender   tcp.Sender
	Receiver tcp.Receiver
	Got      units.Bytes // payload in order since RestartMeasurement

	d      *Dumbbell
	before units.Bytes
	freeAt units.Time // of the sender's NIC
	wake   units.Time
}

// Start starts a connection that carries size bytes.
func (d *Dumbbell) Start(s cc.Settings, size units.Bytes) *Flow {
	if d.rand == nil {
		d.rand = rand.New(rand.NewPCG(7, 7))
	}
	f := &Flow{d: d, wake: units.Never}
	full := d.Config.FullPayload()
	control := s.New(cc.Flow{
		Line: d.NIC, MTU: full, Packet: onWire(full + 32), DelayedAcks: d.Config.AckEvery > 1, Rand: d.rand,
		Path: cc.Path{RTT: d.RTT + d.Line.TimeOf(onWire(full+32)), Bottleneck: d.Line, Hops: 2},
	})
	f.Sender.Reset(&d.Config, control, s.Traits(), d.rand.Uint32(), size)
	f.Receiver.Reset(&d.Config, d.rand.Uint32())
	f.Sender.Open(d.Now)
	d.runAt(d.Now, f.sendSegment)
	return f
}

func onWire(tcp units.Bytes) units.Bytes {
	return packet.OnWire(wire.EthernetHeader + wire.IPv4Header + tcp)
}

// Run runs until end, or until there are no more events.
func (d *Dumbbell) Run(end units.Time) {
	for len(d.events) > 0 && d.events[0].at <= end {
		e := heap.Pop(&d.events).(event)
		d.Now = e.at
		e.do()
	}
	d.Now = max(d.Now, end)
}

// sendSegment sends one segment, if the NIC is free.
func (f *Flow) sendSegment() {
	d := f.d
	var g tcp.Segment
	if d.Now >= f.freeAt && f.Sender.NextDeparture() <= d.Now && f.Sender.Next(d.Now, &g) {
		size := onWire(units.Bytes(g.HeaderLen()) + units.Bytes(g.Payload))
		f.freeAt = d.Now + d.NIC.TimeOf(size)
		d.runAt(f.freeAt+d.RTT/4, func() { d.enqueuePacket(f, g, size) })
	}
	f.armTimer()
}

// armTimer schedules the next event of the flow.
func (f *Flow) armTimer() {
	at := min(f.Sender.NextTimer(), f.Receiver.NextTimer())
	if ready := f.Sender.NextDeparture(); ready != units.Never {
		at = min(at, max(ready, f.freeAt))
	}
	if at = max(at, f.d.Now); at >= f.wake {
		return
	}
	f.wake = at
	f.d.runAt(at, func() {
		if f.wake > f.d.Now {
			return
		}
		f.wake = units.Never
		f.Sender.OnTimer(f.d.Now)
		f.Receiver.OnTimer(f.d.Now)
		f.sendPending()
		f.sendSegment()
	})
}

// enqueuePacket puts a packet into the port's queue, or drops it.
func (d *Dumbbell) enqueuePacket(f *Flow, g tcp.Segment, size units.Bytes) {
	d.freeAt = max(d.freeAt, d.Now)
	wait := d.freeAt - d.Now
	queue := d.Line.BytesIn(wait)
	if d.Buffer > 0 && queue+size > d.Buffer {
		d.Dropped++
		return
	}
	if d.K > 0 && queue > d.K && g.ECT {
		g.CE = true
		d.Marked++
	}
	d.queued += float64(size) * wait.Seconds()
	d.carried += size
	d.freeAt += d.Line.TimeOf(size)
	d.runAt(d.freeAt+d.RTT/4, func() {
		f.Receiver.Receive(d.Now, &g)
		f.Got = f.Receiver.ReceivedBytes() - f.before
		f.sendPending()
		f.armTimer()
	})
}

// sendPending sends the receiver's segments, on a path without queues.
func (f *Flow) sendPending() {
	d := f.d
	var g tcp.Segment
	for f.Receiver.Next(d.Now, &g) {
		k := g
		d.runAt(d.Now+d.RTT/2, func() {
			f.Sender.Receive(d.Now, &k)
			f.sendSegment()
		})
	}
}

// RestartMeasurement restarts the measurements at now.
func (d *Dumbbell) RestartMeasurement(flows ...*Flow) {
	d.since, d.queued, d.carried, d.Dropped, d.Marked = d.Now, 0, 0, 0, 0
	for _, f := range flows {
		f.before, f.Got = f.Receiver.ReceivedBytes(), 0
	}
}

// Results returns the mean queue in bytes and the utilisation of the port since
// Measure.
func (d *Dumbbell) Results() (queue, utilisation float64) {
	span := (d.Now - d.since).Seconds()
	return d.queued / span, float64(d.carried) * 8 / float64(d.Line) / span
}

// Jain returns Jain's index of what the flows got: 1 if all got the same.
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

func (d *Dumbbell) runAt(t units.Time, do func()) {
	d.seq++
	heap.Push(&d.events, event{t, d.seq, do})
}

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
