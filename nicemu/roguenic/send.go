package roguenic

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/rogue"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// flow is one direction of a connection: its window, and the batches under way.
type flow struct {
	config   *rogue.Config
	window   *rogue.Window
	meter    rogue.Meter
	mtu      units.Bytes
	frame    units.Bytes       // of mtu on the wire
	batches  queue.FIFO[batch] // closed, not completed
	open     batch             // being posted; no bytes if there is none
	inFlight units.Bytes       // posted, not completed; payload
	posted   units.Bytes       // ever; payload
	hold     units.Bytes       // batches that began before this position are not sampled
	by       feedback
	probing  bool // over UC: nothing is posted until an echo comes
	waited   bool // behind other pairs in the NIC; its RTTs still contain that (anchor)
	anchor   bool // nothing is posted until nothing is under way
}

// feedback is the source of batch feedback.
type feedback uint8

const (
	byCompletions feedback = iota // over RC
	byEchoes                      // over UC
	unheard                       // over UC, to a peer that has no layer, or has not answered yet
)

// batch is the data covered by one signal.
type batch struct {
	at    units.Time  // when its first verb was posted
	from  units.Bytes // its position
	bytes units.Bytes // payload
	wire  units.Bytes
	slow  bool // posted more slowly than the NIC could send

	// Over UC:
	number       uint32
	pos          units.Bytes // on the wire
	start        units.Time  // from which the RTT counts
	left         bool        // it has left
	separateEcho bool        // an empty WRITE after it asks for its echo
}

func newFlow(l *Layer, q nicemu.Raw) *flow {
	d := l.device
	mtu := q.PathMTU()
	frame := q.OnWire(mtu)
	return &flow{
		config: l.config, mtu: mtu, frame: frame,
		window: rogue.NewWindow(l.config, d.Line(), mtu, frame, q.IdleRTT()),
		meter:  rogue.NewMeter(d.Line(), d.Settings().RateLimiter.Lag, frame),
	}
}

// wireLen returns the exact length of a verb on the wire: errors would add up in the round-trip times
// of consecutive batches.
func (f *flow) wireLen(wr *nicemu.SendWR, n units.Bytes) units.Bytes {
	packets := max(1, (n+f.mtu-1)/f.mtu)
	return n + packets*(f.frame-f.mtu) + extensionLen(wr, packets)
}

// extensionLen returns the headers of a message that its middle packets do not have.
func extensionLen(wr *nicemu.SendWR, packets units.Bytes) units.Bytes {
	switch wr.Op {
	case nicemu.OpWrite:
		return roce.RETHLen
	case nicemu.OpWriteImm:
		return roce.RETHLen + roce.ImmDtLen
	case nicemu.OpSendImm, nicemu.OpSendInvalidate:
		return roce.ImmDtLen
	case nicemu.OpRead:
		return roce.AETHLen * min(packets, 2) // of the response
	}
	return 0
}

// batchSize returns the current size of a batch. In slow start the window is sent as a whole, and
// nothing beyond it.
func (f *flow) batchSize() units.Bytes {
	if f.by != unheard && f.window.SlowStart() {
		return max(f.mtu, min(f.config.Segment, f.window.Size()/f.mtu*f.mtu))
	}
	return f.config.Segment
}

// admitsBytes reports whether n bytes more may be posted (§3.1). SENDs longer than a batch are limited
// by bytes, not by number, which would allow as much as a switch's buffer.
func (f *flow) admitsBytes(n units.Bytes) bool {
	queued := f.batches.Len() < f.config.Queued && f.inFlight < units.Bytes(f.config.Queued)*f.config.Segment
	switch {
	case f.by == unheard:
		return f.inFlight == 0 || queued
	case f.probing, f.batches.Len() >= rogue.EchoBatches/4:
		return false
	case f.anchor:
		return f.inFlight == 0
	}
	return f.inFlight == 0 || f.inFlight+n <= f.window.Size() || !f.window.SlowStart() && queued
}

// postAllowed posts everything that may be posted.
func (p *pair) postAllowed() {
	if p.dying || p.failover.stage != steady {
		return
	}
	if s := p.raw.State(); s != qp.RTS && s != qp.SQD {
		return
	}
	for p.sending < p.requests.Len() && p.verbs.Len() < p.slots+slack {
		r := *p.requests.At(p.sending)
		if p.uc != nil && p.flow[out] != nil && !p.uc.switchQP(r) {
			return
		}
		if p.raw.State() == qp.SQD && r.posted == 0 {
			return
		}
		if !p.postPart(r) {
			return
		}
	}
}

// postPart posts the next part of a request, if the window allows it.
func (p *pair) postPart(r *request) bool {
	dir := dirOf(&r.wr)
	f := p.flow[dir]
	n, cut := r.length-r.posted, false
	if f != nil && canDivide(f.config, &r.wr) {
		if unit := uint32(f.batchSize()); n > unit || r.posted > 0 {
			n, cut = min(n, unit), true
		}
	}
	if f != nil && !f.admitsBytes(units.Bytes(n)) && p.awaitsProgress(f) {
		return false
	}
	v := verb{request: r, from: r.posted, n: n, dir: dir, last: r.posted+n == r.length}
	if p.list = r.makePart(&p.wr, p.list[:0], v.from, n, v.last); len(p.list) > 0 {
		p.wr.SGL = p.list
	}
	v.signaled, v.closes = p.signalsOn(r, f, &v, cut)
	return p.postVerb(&v)
}

// awaitsProgress reports whether something is outstanding that will let more be posted.
func (p *pair) awaitsProgress(f *flow) bool {
	if f.by == byEchoes {
		return f.batches.Len() > 0
	}
	return p.signals > 0
}

// signalsOn reports whether the NIC is to signal a verb: at the end of a batch, at the end of a
// request that was cut, and where the program wants it (§3.1); and often enough that the send queue
// cannot fill up with unsignaled verbs. A signal closes the batch. Over UC a signal costs no packet
// but an echo does: all verbs are signaled, and only full batches are closed.
func (p *pair) signalsOn(r *request, f *flow, v *verb, cut bool) (signals, closes bool) {
	full := cut || f != nil && (f.open.bytes+units.Bytes(v.n) >= f.batchSize() || !f.admitsBytes(units.Bytes(v.n)))
	if p.uc != nil && f != nil {
		return true, full || f.by == unheard
	}
	signals = full || v.last && (r.wr.Flags&nicemu.Signaled != 0 || p.raw.Config().SignalAll) || p.silent+1 >= slack
	return signals, signals
}

// postVerb posts a verb, which is in p.wr.
func (p *pair) postVerb(v *verb) bool {
	now := p.layer.device.Now()
	p.wr.ID = p.first + uint64(p.verbs.Len())
	p.wr.Flags &^= nicemu.Signaled
	if v.signaled {
		p.wr.Flags |= nicemu.Signaled
	}
	f := p.flow[v.dir]
	if f != nil {
		if v.closes && f.by == byEchoes {
			p.uc.numberBatch(v)
		}
		v.wire = int64(f.wireLen(&p.wr, units.Bytes(v.n)))
		f.recordPost(p, now, v)
	}
	p.verbs.Push(*v)
	p.layer.work.Verbs++
	if p.silent++; v.signaled {
		p.silent = 0
		p.signals++
	}
	if v.request.posted += v.n; v.last {
		p.sending++
	}
	if err := p.live.PostSend(&p.wr); err != nil {
		// The NIC's side has failed since; its completions report it.
		return false
	}
	return true
}

// recordPost records a posted verb.
func (f *flow) recordPost(p *pair, now units.Time, v *verb) {
	if f.inFlight == 0 {
		f.open, f.anchor = batch{}, false
	}
	b := &f.open
	if b.wire == 0 {
		p.layer.work.ClockReads++
		*b = batch{at: now, from: f.posted, pos: f.meter.PostedBytes()}
	} else if now > b.at && now-b.at > f.meter.BacklogTime() {
		b.slow = true
	}
	f.meter.RecordPosted(units.Bytes(v.wire))
	b.bytes += units.Bytes(v.n)
	b.wire += units.Bytes(v.wire)
	f.inFlight += units.Bytes(v.n)
	f.posted += units.Bytes(v.n)
	if v.closes {
		b.number = v.batch
		f.batches.Push(*b)
		*b = batch{}
	}
}

// recordCompletion records a verb's completion; told means that its own signal arrived, at time at.
func (f *flow) recordCompletion(p *pair, v *verb, at units.Time, told bool) {
	f.inFlight -= units.Bytes(v.n)
	if !v.closes || f.batches.Len() == 0 {
		return
	}
	b := f.batches.Pop()
	if !told || b.slow || f.by == unheard {
		f.meter.SkipCompletion(at, b.wire)
		return
	}
	p.recordRTT(f, &b, f.meter.RecordCompletion(b.at, at, b.wire))
	f.correctRTT(p.layer.isOversubscribed())
}

// correctRTT corrects an error of the RTTs. They are sums over consecutive batches (rogue.Meter): the
// time that a batch waits for other pairs of the NIC, while all together may send more than the
// line carries, stays in them when that is over. Then the flow drains once, and the RTTs start
// over.
func (f *flow) correctRTT(oversubscribed bool) {
	if f.waited && !oversubscribed {
		f.anchor = f.inFlight > 0
	}
	f.waited = oversubscribed
}

// recordRTT records the RTT of a batch.
func (p *pair) recordRTT(f *flow, b *batch, rtt units.Time) {
	if b.from < f.hold {
		p.layer.work.Held++
		return
	}
	p.layer.work.Samples++
	if noise := f.config.Noise; noise > 0 {
		rtt += units.Time(p.layer.device.Rand() % uint64(noise+1))
	}
	if f.window.SampleRTT(rtt) {
		p.limitChanged(f)
	}
}

// limitChanged sets the limit of a flow whose window asks for another.
func (p *pair) limitChanged(f *flow) {
	limit := f.window.RateLimit()
	if f == p.flow[out] {
		p.setLimiter()
	} else if !p.tellLimit(limit) {
		limit = 0
	}
	f.meter.RecordLimit(p.layer.device.Now(), limit)
	f.hold = f.posted - f.inFlight + f.config.Hold
}

// setLimiter sets the NIC's limiter to what this side may send: by its own window, and by the peer's
// limit for READ responses.
func (p *pair) setLimiter() {
	f := p.flow[out]
	if f == nil || !p.layer.config.Limiter {
		return
	}
	own, answers := f.window.RateLimit(), p.failover.answers
	busy := f.window.BaseRTT() > 0 && f.by != unheard
	rate := answers
	if busy {
		rate = own
		if own > 0 {
			rate += answers
		}
	}
	if line := p.layer.device.Line(); rate > line {
		rate = line
	}
	if rate == p.live.RateLimit().Rate {
		return
	}
	p.layer.work.Limits++
	if p.live.LimitRate(qp.RateLimit{Rate: rate}) != nil {
		p.layer.work.NoLimiter++
	}
}
