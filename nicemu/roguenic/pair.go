package roguenic

import (
	"slices"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// pair is the layer's part of a queue pair. It implements nicemu.Layered.
type pair struct {
	layer *Layer
	raw   nicemu.Raw // visible to the program
	spare nicemu.Raw // its shadow; the zero Raw until needed
	live  nicemu.Raw // which of the two is in use
	slots int        // work requests that the program may have outstanding
	task  *nicemu.Task

	heard    []nicemu.Completion  // of the send queue, not yet handled
	requests queue.FIFO[*request] // not completed, in order
	sending  int                  // index of the first that is not wholly posted
	free     []*request
	verbs    queue.FIFO[verb] // posted and not completed, in order
	first    uint64           // number of the oldest of these
	silent   int              // posted since the last signaled one
	signals  int              // of verbs, signaled
	wr       nicemu.SendWR
	list     []nicemu.SGE

	flow     [2]*flow // by direction; nil while plain
	failover failover
	uc       *unreliable // nil except for UC
	load     units.Rate  // its part of the layer's load
	dying    bool        // the program has taken it to ERR, or a work request has failed
}

// slack is the number of work requests the layer may have posted in addition to the program's.
const slack = 16

func newPair(l *Layer, q nicemu.Raw) *pair {
	p := &pair{layer: l, raw: q, live: q, slots: q.Config().Cap.MaxSendWR, first: 1}
	p.task = l.device.NewTask(p.handleCompletions)
	p.failover.task = l.device.NewTask(p.resyncDue)
	if q.Type() == nicemu.UC {
		p.uc = newUnreliable(p)
	}
	return p
}

// PostSend implements nicemu.Layered.
func (p *pair) PostSend(wr *nicemu.SendWR) error {
	state := p.raw.State()
	if err := p.checkRequest(wr, state); err != nil {
		return err
	}
	if p.requests.Len() >= p.slots {
		return transport.ErrQueueFull
	}
	r := &request{}
	if n := len(p.free); n > 0 {
		r = p.free[n-1]
		p.free = p.free[:n-1]
	}
	r.copyOf(wr)
	p.requests.Push(r)
	if state == qp.Err || state == qp.SQE {
		p.flushRequests()
		return nil
	}
	p.postAllowed()
	p.recordRate()
	return nil
}

// checkRequest checks that the queue pair takes a work request. While a shadow takes over, the NIC's side
// is in another state than the program knows.
func (p *pair) checkRequest(wr *nicemu.SendWR, state nicemu.State) error {
	if state < qp.RTS {
		return transport.ErrState
	}
	if p.uc != nil {
		return p.raw.Check(wr)
	}
	return p.live.Check(wr)
}

// PostRecv implements nicemu.Layered.
func (p *pair) PostRecv(wr *nicemu.RecvWR) error {
	if p.uc != nil {
		return p.raw.PostRecv(wr)
	}
	f := &p.failover
	if p.live.QP != p.raw.QP && p.raw.State() == qp.Err {
		f.receives.Push(nicemu.RecvWR{ID: wr.ID})
		p.flushReceives()
		return nil
	}
	if f.stage != steady && p.raw.State() != qp.Err { // it is posted to the next one
		if f.receives.Len() >= p.raw.Config().Cap.MaxRecvWR {
			return transport.ErrQueueFull
		}
	} else if err := p.live.PostRecv(wr); err != nil {
		return err
	}
	f.receives.Push(nicemu.RecvWR{ID: wr.ID, SGL: slices.Clone(wr.SGL)})
	return nil
}

// Sent implements nicemu.Layered.
func (p *pair) Sent(c nicemu.Completion) {
	if c.QP != p.live.Number() {
		return // of the queue pair that was given up
	}
	p.heard = append(p.heard, c)
	p.task.SetTime(p.layer.device.Now())
}

// Received implements nicemu.Layered.
func (p *pair) Received(c nicemu.Completion, solicited bool) {
	switch {
	case p.uc == nil:
		if p.failover.countReceive(p, c) {
			return
		}
	case p.uc.takeReceive(&c):
		p.task.SetTime(p.layer.device.Now())
		return
	}
	c.QP = p.raw.Number()
	p.raw.CompleteReceive(c, solicited)
	if c.Status != cq.Success && c.Status != cq.WRFlushErr {
		p.task.SetTime(p.layer.device.Now())
	}
}

// Moved implements nicemu.Layered.
func (p *pair) Moved(from, to nicemu.State) {
	switch {
	case to == qp.Reset:
		p.resetState()
	case to == qp.RTR:
		p.startControl() // a responder may never go on to RTS
	case to == qp.Err:
		p.dying = true
		p.failover.endChange(p)
		if p.spare.QP != nil {
			p.spare.Stop()
		}
		if p.uc != nil {
			p.uc.stopSides()
		}
		if p.verbs.Len() == 0 {
			p.flushRequests()
		}
	case to == qp.RTS:
		p.dying = false
		if from == qp.SQE && p.uc != nil && p.uc.data.QP != nil && p.uc.data.HardState() == qp.SQE {
			p.uc.joinSides()
		}
		p.postAllowed()
	}
}

// startControl starts control once the queue pair knows its peer.
func (p *pair) startControl() {
	to, loop := p.raw.Peer()
	if loop || p.layer.device.Line() == 0 {
		return // plain
	}
	switch {
	case p.uc == nil:
		for dir := range p.flow {
			p.flow[dir] = newFlow(p.layer, p.raw)
		}
		if p.layer.config.Failover && !p.raw.IsAliased() {
			p.layer.findPeer(to, p)
		}
	case !p.raw.IsAliased():
		p.flow[out] = newFlow(p.layer, p.raw)
		p.flow[out].by = unheard
		p.uc.findPeerLayer(to)
	}
}

// Renew implements nicemu.Layered.
func (p *pair) Renew() {
	for dir, f := range p.flow {
		if f != nil {
			by := f.by
			p.flow[dir] = newFlow(p.layer, p.raw)
			p.flow[dir].by = by
		}
	}
	p.setLimiter()
}

// resetState clears all state.
func (p *pair) resetState() {
	for p.requests.Len() > 0 {
		p.freeRequest(p.requests.Pop())
	}
	p.heard = p.heard[:0]
	p.dropVerbs()
	p.sending, p.dying = 0, false
	p.flow = [2]*flow{}
	p.recordRate()
	p.failover.endChange(p)
	if p.spare.QP != nil {
		_ = p.spare.Destroy() // it is attached to no group
		p.spare = nicemu.Raw{}
	}
	if p.uc != nil {
		p.uc.clearState()
	}
	p.live, p.failover = p.raw, failover{task: p.failover.task}
}

// dropVerbs forgets the verbs posted to the NIC.
func (p *pair) dropVerbs() {
	p.first += uint64(p.verbs.Len())
	p.verbs = queue.FIFO[verb]{}
	p.silent, p.signals = 0, 0
}

// Destroyed implements nicemu.Layered.
func (p *pair) Destroyed() {
	p.resetState()
	p.task.Stop()
	p.failover.task.Stop()
	if p.uc != nil {
		p.uc.greet.Stop()
		p.uc.timer.Stop()
	}
	delete(p.layer.pairs, p.raw.Number())
}

// RetryCount implements nicemu.Layered: the NIC repeats a verb less often if a shadow can take over
// (§3.5).
func (p *pair) RetryCount(chosen uint8) uint8 {
	to, loop := p.raw.Peer()
	if p.raw.Type() != nicemu.RC || loop || !p.layer.config.Failover || p.raw.IsAliased() || !p.layer.knowsPeer(to) {
		return chosen
	}
	return min(chosen, uint8(p.layer.config.Retries))
}

// chosenRetries returns the retry count that the program chose.
func (p *pair) chosenRetries() uint8 {
	a, _ := p.raw.Query()
	return a.RetryCnt
}

// Busy implements nicemu.Layered.
func (p *pair) Busy() bool { return p.requests.Len() > 0 }

// Allows implements nicemu.Layered.
func (p *pair) Allows() (units.Rate, units.Bytes) {
	f := p.flow[out]
	if f == nil || f.by == unheard {
		return 0, 0
	}
	return f.window.RateLimit(), f.window.Size()
}

// Gauges implements nicemu.Layered.
func (p *pair) Gauges(_ units.Time, values []float64) []float64 {
	f := p.flow[out]
	if f == nil {
		return append(values, make([]float64, len(gauges))...)
	}
	if g := p.flow[in]; g != nil && f.window.BaseRTT() == 0 && g.window.BaseRTT() > 0 {
		f = g // it READs
	}
	w := f.window
	return append(values, gauge.SizeValue(w.Size()), float64(w.RateLimit()), float64(w.EstimatedRate()), w.RTT().Seconds(), w.BaseRTT().Seconds(),
		gauge.BoolValue(w.SlowStart()), float64(p.failover.count))
}

// handleCompletions handles the completions of the NIC.
func (p *pair) handleCompletions(now units.Time) {
	for i := 0; i < len(p.heard); i++ {
		p.handleSendCompletion(&p.heard[i])
	}
	p.heard = p.heard[:0]
	if p.uc != nil {
		p.uc.exchangeEchoes(now)
		if p.raw.State() != qp.Err && p.raw.HardState() == qp.Err {
			p.failConnection(nil, nil) // a receive has failed
		}
	} else if p.raw.State() != qp.Err && p.live.HardState() == qp.Err && p.failover.stage == steady && p.verbs.Len() == 0 {
		p.failConnection(nil, nil) // a receive has failed, or an answer
	}
	p.postAllowed()
	p.recordRate()
}

// recordRate records the rate that the NIC's limiter allows the pair, if it has data under way.
func (p *pair) recordRate() {
	load := units.Rate(0)
	if f := p.flow[out]; f != nil && f.inFlight > 0 {
		if load = p.live.RateLimit().Rate; load == 0 {
			load = p.layer.device.Line()
		}
	}
	p.layer.load += load - p.load
	p.load = load
}

// handleSendCompletion handles a completion of the send queue.
func (p *pair) handleSendCompletion(c *nicemu.Completion) {
	p.layer.work.Signals++
	if p.failover.stage != steady || c.QP != p.live.Number() || c.ID < p.first || c.ID >= p.first+uint64(p.verbs.Len()) {
		return // of a verb that was given up
	}
	for p.first < c.ID {
		p.completeVerb(cq.Success, c, false)
	}
	switch {
	case c.Status == cq.Success:
		p.completeVerb(cq.Success, c, true)
	case c.Status == cq.RetryExcErr && !p.dying && p.failover.beginChange(p):
	default:
		p.completeVerb(c.Status, c, true)
	}
}

// completeVerb completes the oldest verb; told means that the completion is its own.
func (p *pair) completeVerb(s cq.Status, c *nicemu.Completion, told bool) {
	v := p.verbs.Pop()
	p.first++
	if v.signaled {
		p.signals--
	}
	switch f := p.flow[v.dir]; {
	case f == nil:
	case f.by == byEchoes:
		p.uc.recordSent(f, &v, c.Timestamp)
	default:
		f.recordCompletion(p, &v, c.Timestamp, told && s == cq.Success)
	}
	if s != cq.Success {
		p.failConnection(&v, c)
		return
	}
	p.failover.futile = 0
	if v.last {
		if consumesReceive(&v.request.wr) {
			p.failover.sent++
		}
		p.completeRequest(s, c)
	}
}

// completeRequest completes the oldest request.
func (p *pair) completeRequest(s cq.Status, c *nicemu.Completion) {
	r := p.requests.Pop()
	p.sending = max(0, p.sending-1)
	w := &p.layer.work
	w.Requests++
	w.Bytes += uint64(r.length)
	if s != cq.Success || r.wr.Flags&nicemu.Signaled != 0 || p.raw.Config().SignalAll {
		e := nicemu.Completion{ID: r.wr.ID, Status: s, Opcode: completionOpcode(&r.wr), QP: p.raw.Number(), Timestamp: c.Timestamp, VendorErr: c.VendorErr}
		if s == cq.Success && dirOf(&r.wr) == in {
			e.ByteLen = r.length
		}
		p.raw.CompleteSend(e)
	}
	p.freeRequest(r)
}

func (p *pair) freeRequest(r *request) { p.free = append(p.free, r) }

// failConnection ends the connection as the NIC would: the request of a verb gets the NIC's status, and all
// later ones are flushed.
func (p *pair) failConnection(v *verb, c *nicemu.Completion) {
	p.dying = true
	p.failover.endChange(p)
	if v != nil && p.requests.Len() > 0 {
		p.completeRequest(c.Status, c)
	}
	if p.uc != nil {
		p.failUnreliable(v)
		return
	}
	if p.live.QP != p.raw.QP {
		p.raw.Stop()
	} else if p.spare.QP != nil {
		p.spare.Stop()
	}
	if p.raw.State() != qp.Err {
		p.raw.FailQP()
	}
	p.flushRequests()
}

// failUnreliable continues fail for UC, where a failed verb takes the queue pair to SQE only.
func (p *pair) failUnreliable(v *verb) {
	switch {
	case p.raw.HardState() == qp.Err:
		p.raw.FailQP()
		p.uc.stopSides()
	case v != nil && p.raw.State() != qp.Err:
		p.raw.FailSends()
		p.uc.disarmTimer()
	}
	p.flushRequests()
}

// flushRequests flushes all requests.
func (p *pair) flushRequests() {
	p.dropVerbs()
	now := p.layer.device.Now()
	for p.requests.Len() > 0 {
		p.completeRequest(cq.WRFlushErr, &nicemu.Completion{Timestamp: now})
	}
	p.sending = 0
}
