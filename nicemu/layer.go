package nicemu

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Layers are the layers between programs and NIC that a lab file can name. Packages register theirs
// in an init function.
var Layers = registry.New[LayerKind]("layer above NICs")

// LayerKind describes a layer that a lab file can name.
type LayerKind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets are the names of known sets of parameters, the default first; nil if there is only
	// one set.
	Presets []string
	// Settings returns the parameters of a preset, "" without presets, for a port at line rate
	// line, 0 for an unlimited one.
	Settings func(preset string, line units.Rate) LayerSettings
	// Gauges describes the values of Layered.Gauges.
	Gauges []gauge.Gauge
	// Work describes the values of Layer.Work.
	Work []LayerWork
}

// LayerWork describes a counter of a layer's work, which would cost processor time on a host.
type LayerWork struct{ Name, Meaning string }

// LayerSettings are the parameters of a layer: a pointer to a struct whose fields have
// yaml, json and jsonschema_description tags.
type LayerSettings interface {
	// Validate checks the parameters for a port at line rate line, 0 for an unlimited
	// one. The error joins a registry.RangeError for each that is wrong.
	Validate(line units.Rate) error
	// New makes the layer of a NIC. The settings have passed Validate, no longer change, and are
	// shared by the NICs of a host.
	New(d *Device) Layer
}

// LayerChoice is a chosen layer with its parameters, which have passed Validate for the line
// rate. The zero LayerChoice means no layer.
type LayerChoice = registry.Choice[LayerSettings]

// Layer is software between programs and a NIC: it sits above RC and UC queue pairs, takes what
// programs post there, and posts its own requests to the NIC. Programs see no difference.
type Layer interface {
	// Over returns the layer's part of a queue pair that a program makes; nil leaves it plain.
	Over(q Raw) Layered
	// Work appends the amounts of work done so far, in the order of LayerKind.Work.
	Work(values []uint64) []uint64
}

// Layered is the part of a layer that sits above a queue pair.
type Layered interface {
	// PostSend and PostRecv take what the program posts, and copy it. Errors are those of
	// QP.PostSend and QP.PostRecv.
	PostSend(wr *SendWR) error
	PostRecv(wr *RecvWR) error
	// Sent and Received take completions of the send and the receive queue of the queue
	// pair and its twin; Completion.QP tells them apart. They are called while the NIC is
	// at work and must not use it: they arm a Task.
	Sent(c Completion)
	Received(c Completion, solicited bool)
	// Moved reports that the program has moved the queue pair to a state, which it is in now.
	Moved(from, to State)
	// Renew begins a new flow (QP.RenewFlow).
	Renew()
	// RetryCount returns the NIC's retry count for the one that the program chose.
	RetryCount(chosen uint8) uint8
	// Destroyed reports that the program has destroyed the queue pair.
	Destroyed()

	// Busy reports whether the layer holds work requests that have not completed.
	Busy() bool
	// Allows returns the rate, on the wire, and the window, payload, that the layer allows; 0 means
	// no limit.
	Allows() (units.Rate, units.Bytes)
	// Gauges appends the values of the gauges that the LayerKind describes, in their order. The
	// call changes nothing.
	Gauges(now units.Time, values []float64) []float64
}

// Raw is a queue pair without the layer above it, for the layer's use.
type Raw struct{ *QP }

// Check returns the reason why the queue pair does not take a work request, if there is one
// (QP.PostSend). A full queue is not reported.
func (r Raw) Check(wr *SendWR) error { return r.engine.CheckRequest(wr) }

// PostSend posts to the NIC.
func (r Raw) PostSend(wr *SendWR) error {
	r.ringDoorbell()
	err := r.postSend(wr)
	r.startPosted()
	return err
}

// PostRecv posts to the NIC.
func (r Raw) PostRecv(wr *RecvWR) error {
	if err := r.postRecv(wr); err != nil {
		return err
	}
	r.startPosted()
	return nil
}

// SetRetryCount makes the NIC try count times, 0 to 7, from RTS on, before it gives up
// (Layered.RetryCount).
func (r Raw) SetRetryCount(count uint8) { r.engine.SetRetryCount(count) }

// HardState is the queue pair's state in the NIC.
func (r Raw) HardState() State { return r.engine.State() }

// Config returns the program's configuration of the queue pair.
func (r Raw) Config() QPConfig { return r.config }

// CompleteSend delivers a completion of its send queue to the program.
func (r Raw) CompleteSend(c Completion) { r.config.SendCQ.addSoftwareEntry(c, false) }

// CompleteReceive delivers a completion of its receive queue to the program.
func (r Raw) CompleteReceive(c Completion, solicited bool) {
	r.config.RecvCQ.addSoftwareEntry(c, solicited)
}

// FailQP takes the queue pair, which is the one that the program sees, to the state that it has in
// the NIC since a work request failed.
func (r Raw) FailQP() { r.adoptState(r.engine.State()) }

// FailSends takes the queue pair, which the program sees, to SQE: a work request of the program has
// failed elsewhere.
func (r Raw) FailSends() { r.adoptState(qp.SQE) }

// Stop takes the NIC's side to ERR: everything posted there is flushed.
func (r Raw) Stop() {
	if r.engine.State() != qp.Reset {
		_ = r.engine.Modify(qp.Err, transport.Attr{}) // any state but RESET may go there
	}
	r.device.rescheduleQP(r.device.Now(), r.QP)
	r.device.armTimer()
}

// RestartQP takes the NIC's side from any state to RTS for a peer's queue pair, with new receive and
// send PSNs. Everything else is as the program chose for the visible queue pair.
func (r Raw) RestartQP(visible *QP, dest, rqPSN, sqPSN uint32) error {
	a := visible.engineAttr()
	a.DestQP, a.RQPSN, a.SQPSN = dest, transport.PSN(rqPSN), transport.PSN(sqPSN)
	defer func() {
		r.device.rescheduleQP(r.device.Now(), r.QP)
		r.device.armTimer()
	}()
	for _, to := range [...]State{qp.Reset, qp.Init, qp.RTR, qp.RTS} {
		if err := r.engine.Modify(to, a); err != nil {
			return err
		}
	}
	return nil
}

// HoldInInit takes the NIC's side to INIT, where it takes receives but no packets.
func (r Raw) HoldInInit(visible *QP) error {
	a := visible.engineAttr()
	if err := r.engine.Modify(qp.Reset, a); err != nil {
		return err
	}
	return r.engine.Modify(qp.Init, a)
}

// StandbyQP makes another queue pair under the same Layered, of the same kind, with the same
// attributes and the same shared receive queue, hidden from the program, and takes it to INIT. The
// queue pair is in RTR or RTS.
func (r Raw) StandbyQP() (Raw, error) { return r.makeTwin(r.config) }

// AuxQP is like Shadow, but the queue pair works beside the program's: it has its own receive queue,
// for receives requests, and its packets have the UDP source port of the program's, and so take the
// same path.
func (r Raw) AuxQP(receives int) (Raw, error) {
	c := r.config
	c.SRQ, c.Cap.MaxRecvWR = nil, receives
	t, err := r.makeTwin(c)
	if err == nil {
		t.route = r.route
	}
	return t, err
}

// makeTwin makes a queue pair hidden from the program. To memory it has the program's number, so that
// windows of type 2 open to both.
func (r Raw) makeTwin(c QPConfig) (Raw, error) {
	c.SignalAll = false
	q, err := r.device.newQP(c, r.verbs.PD(), r.layered, r.QP)
	if err != nil {
		return Raw{}, err
	}
	t := Raw{q}
	attr, _ := r.verbs.Query()
	for _, m := range [...]struct {
		to   State
		mask qp.Mask
	}{
		{qp.Init, qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccessFlags},
		{qp.RTR, twinReceives(c.Type)},
	} {
		a := attr
		a.State = m.to
		if err := q.Modify(a, m.mask|qp.MaskState); err != nil {
			_ = q.Destroy()
			return Raw{}, err
		}
	}
	return t, t.HoldInInit(r.QP)
}

func twinReceives(t QPType) qp.Mask {
	m := qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	if t == qp.RC {
		m |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	return m
}

// OnWire returns the length on the wire of a packet of the queue pair's WRITEs with a payload.
func (r Raw) OnWire(payload units.Bytes) units.Bytes {
	return packet.OnWire(r.route.headersLen() + units.Bytes(serviceOf(r.config.Type).WithOperation(roce.WriteMiddle).PacketLen(int(payload))))
}

// PathMTU returns the largest payload of a packet.
func (r Raw) PathMTU() units.Bytes {
	a, _ := r.verbs.Query()
	return units.Bytes(a.PathMTU.Bytes())
}

// IdleRTT returns the round-trip time of a packet without queueing, from the time its last bit has
// left; 0 if unknown.
func (r Raw) IdleRTT() units.Time {
	d := r.device
	if r.route.loop || d.env.Trip == nil {
		return 0
	}
	frame := r.OnWire(r.PathMTU())
	trip := d.env.Trip(r.route.ends.To, frame, packet.OnWire(r.route.headersLen()+units.Bytes(roce.RC.WithOperation(roce.Ack).PacketLen(0))))
	if trip.RTT == 0 || d.line == 0 {
		return trip.RTT
	}
	return max(0, trip.RTT-d.line.TimeOf(frame))
}

// Peer returns the address that packets go to, and whether it is the NIC's own.
func (r Raw) Peer() (to qp.GID, loop bool) {
	a, _ := r.verbs.Query()
	return a.AV.DGID, r.route.loop
}

// IsAliased reports whether the peer's queue pair is addressed by a number agreed on in advance
// (Device.ReserveNumbers), behind which it may change.
func (r Raw) IsAliased() bool {
	a, _ := r.verbs.Query()
	first := r.device.numbers.aliases.first
	return first > 0 && a.DestQPN >= first
}

// Rand returns a random number from the NIC's source.
func (d *Device) Rand() uint64 { return d.env.Rand.Uint64() }

// Layer returns the layer above the NIC; nil if there is none.
func (d *Device) Layer() Layer { return d.layer }

// Layered returns the layer's part of the queue pair; nil if there is none.
func (q *QP) Layered() Layered { return q.layered }

// twins are the queue pairs that work instead of a program's, or beside it.
type twins struct {
	visible *QP // the program's
	hidden  []*QP
}

// joinTwin makes t a twin of q.
func (q *QP) joinTwin(t *QP) {
	if q.twins == nil {
		q.twins = &twins{visible: q}
	}
	t.twins = q.twins
	q.twins.hidden = append(q.twins.hidden, t)
}

// leaveTwins removes a queue pair from its twins.
func (q *QP) leaveTwins() {
	if q.isTwin() {
		q.twins.hidden = slices.DeleteFunc(q.twins.hidden, func(t *QP) bool { return t == q })
	}
}

// isTwin reports whether a queue pair is hidden from programs.
func (q *QP) isTwin() bool { return q.twins != nil && q.twins.visible != q }

// eachTwin yields the twins of a queue pair that programs see.
func (q *QP) eachTwin(yield func(*QP) bool) {
	if q.twins == nil || q.isTwin() {
		return
	}
	for _, t := range q.twins.hidden {
		if !yield(t) {
			return
		}
	}
}

// Task is work that a layer does at a time that it sets. Make it with Device.NewTask.
type Task struct {
	agenda.Task[sleeper]
	device *Device
	due    units.Time
	work   func(now units.Time)
}

// NewTask makes a task that calls f when it is due. f may use the NIC.
func (d *Device) NewTask(f func(now units.Time)) *Task {
	t := &Task{device: d, due: units.Never, work: f}
	d.agenda.EnrolTask(&t.Task, t)
	return t
}

// SetTime sets the time at which the task is called, replacing the previous one; units.Never cancels it.
func (t *Task) SetTime(when units.Time) {
	t.due = when
	t.device.agenda.WakeAt(&t.Task, when)
	t.device.armTimer()
}

// Stop ends the task.
func (t *Task) Stop() {
	t.device.agenda.Remove(&t.Task)
	t.device.armTimer()
}

// doDueWork calls the task if it is still due.
func (t *Task) doDueWork(now units.Time) {
	if t.due > now {
		t.device.agenda.WakeAt(&t.Task, t.due)
		return
	}
	t.due = units.Never
	t.work(now)
}

// layerSink takes the completions of all queue pairs under a layer.
type layerSink struct {
	device *Device
	sends  bool
}

// PutEntry implements cq.Sink.
func (s *layerSink) PutEntry(c cq.Completion, solicited bool) bool {
	q := s.device.numbers.findQP(c.QP)
	switch {
	case q == nil || q.layered == nil:
	case s.sends:
		q.layered.Sent(c)
	default:
		q.layered.Received(c, solicited)
	}
	return true
}

// EventRequest implements cq.Sink.
func (s *layerSink) EventRequest() (any, solicited bool) { return false, false }

// SignalEvent implements cq.Sink.
func (s *layerSink) SignalEvent() {}

// HasEntries implements cq.Sink.
func (s *layerSink) HasEntries(bool) bool { return false }

// layerCQs are the completion queues of a NIC's layer.
type layerCQs struct{ send, recv *CQ }

// startLayer makes the layer of a NIC.
func (d *Device) startLayer() (err error) {
	if d.settings.Layer.Settings == nil {
		return nil
	}
	if d.layerCQs.send, err = d.CreateSinkCQ(1, &layerSink{d, true}); err != nil {
		return fmt.Errorf("%w for the layer", err)
	}
	if d.layerCQs.recv, err = d.CreateSinkCQ(1, &layerSink{d, false}); err != nil {
		return fmt.Errorf("%w for the layer", err)
	}
	d.layer = d.settings.Layer.Settings.New(d)
	return nil
}

// underLayer makes the engine of a queue pair complete to the layer. A layer signals, splits and
// repeats as needed, so it has room for some more work requests than the program.
func (d *Device) underLayer(t *transport.Config) {
	t.SendCQ, t.RecvCQ = (*completer)(d.layerCQs.send), (*completer)(d.layerCQs.recv)
	t.MaxSend += layerRoom
	t.SignalAll = false
}

// layerRoom is the number of work requests a layer can post in addition to the program's.
const layerRoom = 32

// lent is a work request lent to a layer. It is a copy, so that work requests of programs without a
// layer do not escape to the heap.
type lent struct {
	send SendWR
	recv RecvWR
}

// postLayered passes a work request to the layer.
func (q *QP) postLayered(wr *SendWR) error {
	if err := memory.CheckCount(wr.SGL, q.config.Cap.MaxSendSGE); err != nil {
		return err
	}
	w := &q.device.lent.send
	sgl, inline := append(w.SGL[:0], wr.SGL...), append(w.Inline[:0], wr.Inline...)
	*w = *wr
	w.SGL, w.Inline = sgl, inline
	return q.layered.PostSend(w)
}

func (q *QP) postRecvLayered(wr *RecvWR) error {
	w := &q.device.lent.recv
	*w = RecvWR{ID: wr.ID, SGL: append(w.SGL[:0], wr.SGL...)}
	return q.layered.PostRecv(w)
}

// LimitRate sets the rate limit of the NIC's side (QP.SetRateLimit), whatever state the program sees.
func (r Raw) LimitRate(l qp.RateLimit) error { return r.setRateLimit(l) }
