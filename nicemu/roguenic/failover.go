package roguenic

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/rogue"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// stage is the progress of a change to the shadow queue pairs.
type stage uint8

const (
	steady  stage = iota
	asking        // Resync is sent: the NIC has given up here
	closing       // Resync was received: completions from before it are still counted
	told          // ResyncReply is sent
)

// failover is the change from one queue pair to the other, and the counts that both sides keep for
// it (§3.5).
type failover struct {
	stage    stage
	epoch    uint32 // changes begun
	count    int    // changes made
	futile   int    // since the last completion
	sent     uint32 // messages that have taken a receive of the peer's and completed
	came     uint32 // messages that have taken a receive here
	receives queue.FIFO[nicemu.RecvWR]
	answers  units.Rate // rate at which the peer lets this side answer READs; 0 means no limit
	psn      uint32     // of the first packet that this side sends on the next queue pair
	peer     rogue.Message
	tries    int
	task     *nicemu.Task
}

// Waits for answers: the first, the longest, and their number.
const (
	firstWait = 200 * units.Microsecond
	longWait  = 50 * units.Millisecond
	maxTries  = 16
)

// maxFutile is the number of changes in a row without a completion.
const maxFutile = 7

// countReceive counts a completion of the receive queue, and reports whether to hide it from the
// program: a receive that was flushed because a queue pair was given up is posted again.
func (f *failover) countReceive(p *pair, c nicemu.Completion) bool {
	if c.Status == cq.Success {
		f.came++
		if f.receives.Len() > 0 {
			f.receives.Pop()
		}
		return false
	}
	if c.Status == cq.WRFlushErr && !p.dying && p.raw.State() != qp.Err && f.receives.Len() > 0 {
		return true
	}
	if f.receives.Len() > 0 {
		f.receives.Pop()
	}
	return false
}

// endChange ends the change under way.
func (f *failover) endChange(p *pair) {
	f.stage = steady
	f.task.SetTime(units.Never)
	if p.raw.State() == qp.Err && p.live.QP != p.raw.QP {
		p.flushReceives()
	}
}

// flushReceives flushes the receives of a program whose queue pair goes to ERR while they are not
// posted to it.
func (p *pair) flushReceives() {
	f := &p.failover
	for f.receives.Len() > 0 {
		r := f.receives.Pop()
		p.raw.CompleteReceive(nicemu.Completion{ID: r.ID, Status: cq.WRFlushErr, Opcode: cq.Recv, QP: p.raw.Number(), Timestamp: p.layer.device.Now()}, false)
	}
}

// otherQP returns the queue pair that is not in use. It is made when first needed.
func (p *pair) otherQP() (nicemu.Raw, error) {
	if p.live.QP != p.raw.QP {
		return p.raw, nil
	}
	if p.spare.QP == nil {
		t, err := p.raw.StandbyQP()
		if err != nil {
			return t, err
		}
		p.spare = t
	}
	return p.spare, nil
}

// beginChange asks the peer to change, since the NIC has given up; false if that is impossible.
func (f *failover) beginChange(p *pair) bool {
	to, _ := p.raw.Peer()
	if !p.layer.config.Failover || p.raw.Type() != nicemu.RC || p.raw.IsAliased() || !p.layer.knowsPeer(to) || f.futile >= maxFutile {
		return false
	}
	for i := range p.verbs.Len() {
		if wr := &p.verbs.At(i).request.wr; isAtomic(wr) || wr.Op >= nicemu.OpBindWindow {
			return false // it may have been done
		}
	}
	if _, err := p.otherQP(); err != nil {
		return false
	}
	p.live.Stop()
	f.epoch++
	f.futile++
	f.tries = 0
	f.psn = uint32(p.layer.device.Rand()) & roce.PSNMask
	f.stage = asking
	p.layer.work.Failovers++
	p.continueWhenDrained()
	return true
}

// continueWhenDrained waits until all completions of the NIC are handled, and then continues.
func (p *pair) continueWhenDrained() {
	d := p.layer.device
	l := d.Latency()
	p.failover.task.SetTime(d.Now() + l.Entry + l.Data)
}

// resyncDue repeats the message that the peer is waiting for.
func (p *pair) resyncDue(now units.Time) {
	f := &p.failover
	switch f.stage {
	case steady:
		return
	case closing:
		p.switchQP()
		if f.stage == steady {
			return
		}
		f.stage = told
	}
	if f.tries++; f.tries > maxTries {
		p.giveUp()
		return
	}
	kind := rogue.Resync
	if f.stage == told {
		kind = rogue.ResyncReply
	}
	p.sayResync(kind)
	wait := max(firstWait, 4*p.raw.IdleRTT()) << min(f.tries-1, 10)
	f.task.SetTime(now + min(wait, longWait))
}

// giveUp fails the connection as the NIC did.
func (p *pair) giveUp() {
	p.failover.stage = steady
	c := nicemu.Completion{Status: cq.RetryExcErr, Timestamp: p.layer.device.Now()}
	if p.verbs.Len() > 0 {
		v := p.verbs.Pop()
		p.first++
		p.failConnection(&v, &c)
		return
	}
	p.failConnection(nil, &c)
}

// sayResync sends a message about the change under way, or the last one.
func (p *pair) sayResync(kind rogue.Kind) {
	f := &p.failover
	to, _ := p.raw.Peer()
	a, _ := p.raw.Query()
	next := p.live // if it has changed already
	if f.stage == asking {
		next, _ = p.otherQP()
	}
	p.layer.sendMessage(to, &rogue.Message{
		Kind: kind, From: p.raw.Number(), To: a.DestQPN, Epoch: f.epoch, Other: next.Number(), PSN: f.psn, Received: f.came,
	})
}

// resyncWithPeer handles the peer's message that its NIC has given up.
func (p *pair) resyncWithPeer(m *rogue.Message) {
	f := &p.failover
	if m.Epoch == f.epoch+1 && f.stage == told {
		p.resumePosting() // the peer has finished the previous change, and its ResyncDone was lost
	}
	switch {
	case m.Epoch == f.epoch+1 && f.stage == steady:
		if _, err := p.otherQP(); err != nil {
			return
		}
		p.live.Stop()
		f.epoch, f.tries, f.peer = m.Epoch, 0, *m
		f.psn = uint32(p.layer.device.Rand()) & roce.PSNMask
		f.stage = closing
		p.continueWhenDrained()
	case m.Epoch == f.epoch && f.stage == asking: // both NICs have
		f.peer, f.stage, f.tries = *m, closing, 0
		p.continueWhenDrained()
	case m.Epoch == f.epoch && f.stage != closing:
		p.sayResync(rogue.ResyncReply)
	}
}

// resyncReply handles the peer's message that it has changed.
func (p *pair) resyncReply(m *rogue.Message) {
	f := &p.failover
	if m.Epoch != f.epoch {
		return
	}
	if f.stage == asking {
		f.peer = *m
		p.switchQP()
	}
	if f.stage != closing && !p.dying {
		p.sayResync(rogue.ResyncDone)
		p.resumePosting()
	}
}

// resyncDone handles the peer's message that it takes packets.
func (p *pair) resyncDone(m *rogue.Message) {
	if m.Epoch == p.failover.epoch && p.failover.stage == told {
		p.resumePosting()
	}
}

// switchQP puts the other queue pair in use, with the receives that are still unused.
func (p *pair) switchQP() {
	f := &p.failover
	next, err := p.otherQP()
	if err == nil {
		err = next.RestartQP(p.raw.QP, f.peer.Other, f.peer.PSN, f.psn)
	}
	if err != nil {
		p.giveUp()
		return
	}
	_ = p.live.LimitRate(qp.RateLimit{}) // there is none to end, at worst
	p.live = next
	f.stage = told
	f.count++
	for i := range f.receives.Len() {
		_ = p.live.PostRecv(f.receives.At(i)) // it has as much room as the other queue pair
	}
}

// resumePosting posts undelivered verbs again, and continues.
func (p *pair) resumePosting() {
	f := &p.failover
	if f.stage == steady {
		return
	}
	f.stage = steady
	f.task.SetTime(units.Never)
	for dir := range p.flow {
		if p.flow[dir] != nil {
			p.flow[dir].restartFlow()
		}
	}
	p.setLimiter()
	p.replayVerbs(int(int32(f.peer.Received - f.sent)))
	p.postAllowed()
}

// restartFlow restarts in slow start with nothing under way.
func (f *flow) restartFlow() {
	f.window.RestartSlowStart()
	f.meter.DiscardPosted()
	f.batches = queue.FIFO[batch]{}
	f.open, f.inFlight, f.posted, f.hold = batch{}, 0, 0, 0
	f.probing, f.waited, f.anchor = false, false, false
}

// replayVerbs posts again the verbs that were under way. The peer has received the first have of those
// that take a receive, and so all before them, except for the data of READs.
func (p *pair) replayVerbs(have int) {
	done := 0 // verbs that the peer has received
	for i := 0; i < p.verbs.Len() && have > 0; i++ {
		if v := p.verbs.At(i); v.last && consumesReceive(&v.request.wr) {
			have--
			done = i + 1
		}
	}
	now := p.layer.device.Now()
	for done > 0 && p.verbs.First().dir == out {
		p.completeVerb(cq.Success, &nicemu.Completion{Timestamp: now}, false)
		done--
	}
	p.silent = 0
	for i := range p.verbs.Len() {
		v := p.verbs.At(i)
		if i < done && v.dir == out { // nothing to do, but a completion must come in its turn
			p.wr = nicemu.SendWR{Op: nicemu.OpWrite}
		} else {
			p.list = v.request.makePart(&p.wr, p.list[:0], v.from, v.n, v.last)
			if len(p.list) > 0 {
				p.wr.SGL = p.list
			}
		}
		p.wr.ID = p.first + uint64(i)
		p.wr.Flags &^= nicemu.Signaled
		if v.signaled || i == p.verbs.Len()-1 {
			if !v.signaled {
				v.signaled, v.closes = true, true
				p.signals++
			}
			p.wr.Flags |= nicemu.Signaled
		}
		if f := p.flow[v.dir]; f != nil {
			f.recordPost(p, now, v)
		}
		_ = p.live.PostSend(&p.wr) // a failure shows in its completion
	}
}
