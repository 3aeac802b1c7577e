package roguenic

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/rogue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// unreliable is the additional state of a pair of type UC (§3.4). UC acknowledges nothing, so the
// last verb of a batch becomes a WRITE with immediate data, which the peer's layer answers with an
// empty one. Both would take receives of the program, and an echo would wait behind the batches
// that its sender has posted itself; so batches of plain WRITEs and echoes have separate queue
// pairs. Verbs that take a receive of the peer's program use the program's queue pair; an empty
// WRITE after each such batch asks for the echo. Before verbs move to another queue pair than
// earlier ones, these must have left, so that the order stays.
type unreliable struct {
	pair *pair
	data nicemu.Raw // for plain WRITEs; the zero Raw until the peer has the layer
	echo nicemu.Raw // for echoes

	greeting greeting
	nonce    uint32        // of this side's Hello
	psn      uint32        // of the first packet that this side sends
	peer     rogue.Message // its Hello, or the reply; the zero Message before it
	tries    int
	greet    *nicemu.Task

	number uint32     // of the next batch
	left   units.Time // when the last batch had left
	probes int        // unanswered in a row
	timer  *nicemu.Task
	timed  bool // it runs

	peerRequests []ask    // by the peer, to be answered
	answers      []answer // of the peer, not yet handled
	spent        [2]int   // receives of data and echo to post again
	wr           nicemu.SendWR
}

// greeting is the progress of the handshake between two layers.
type greeting uint8

const (
	idle        greeting = iota
	established          // both layers know each other's queue pairs
	failed               // no answer any more
)

// ask is a batch of the peer that wants an echo.
type ask struct {
	number uint32
	at     units.Time
}

// answer is an echo.
type answer struct {
	echo rogue.Echo
	at   units.Time
}

const (
	sideReceives = 256 // of each of the queue pairs
	maxProbes    = 8   // unanswered, until a pair does without echoes
	silentID     = 1<<64 - 1
)

func newUnreliable(p *pair) *unreliable {
	u := &unreliable{pair: p}
	u.greet = p.layer.device.NewTask(u.greetDue)
	u.timer = p.layer.device.NewTask(u.giveUpBatches)
	return u
}

// findPeerLayer looks for the peer's layer. Until it has answered, WRITEs and SENDs go two batches at a
// time, and nothing is known about the path.
func (u *unreliable) findPeerLayer(to qp.GID) {
	d := u.pair.layer.device
	u.nonce, u.psn = uint32(d.Rand()), uint32(d.Rand())&roce.PSNMask
	u.pair.layer.findPeer(to, u.pair)
}

// clearState clears all state.
func (u *unreliable) clearState() {
	for _, side := range [...]nicemu.Raw{u.data, u.echo} {
		if side.QP != nil {
			_ = side.Destroy() // it is attached to no group
		}
	}
	u.greet.SetTime(units.Never)
	u.timer.SetTime(units.Never)
	*u = unreliable{pair: u.pair, greet: u.greet, timer: u.timer}
}

// stopSides takes the sides to ERR, as the program's queue pair goes there.
func (u *unreliable) stopSides() {
	for _, side := range [...]nicemu.Raw{u.data, u.echo} {
		if side.QP != nil {
			side.Stop()
		}
	}
	u.greet.SetTime(units.Never)
	u.disarmTimer()
}

// createQPs makes the sides; false if the NIC has no room for them.
func (u *unreliable) createQPs() bool {
	if u.data.QP != nil {
		return true
	}
	data, err := u.pair.raw.AuxQP(sideReceives)
	if err != nil {
		return false
	}
	echo, err := u.pair.raw.AuxQP(sideReceives)
	if err != nil {
		_ = data.Destroy()
		return false
	}
	u.data, u.echo = data, echo
	return true
}

// greetDue repeats the Hello until the peer replies.
func (u *unreliable) greetDue(now units.Time) {
	to, _ := u.pair.raw.Peer()
	if u.greeting == established || u.pair.dying || !u.pair.layer.knowsPeer(to) || u.tries >= maxTries || !u.createQPs() {
		return
	}
	u.sendMessage(rogue.Hello, u.nonce)
	wait := max(firstWait, 4*u.pair.raw.IdleRTT()) << min(u.tries, 10)
	u.tries++
	u.greet.SetTime(now + min(wait, longWait))
}

func (u *unreliable) sendMessage(kind rogue.Kind, nonce uint32) {
	to, _ := u.pair.raw.Peer()
	a, _ := u.pair.raw.Query()
	u.pair.layer.sendMessage(to, &rogue.Message{
		Kind: kind, From: u.pair.raw.Number(), To: a.DestQPN, Epoch: nonce, Other: u.data.Number(), PSN: u.psn, Echoes: u.echo.Number(),
	})
}

// receiveHello takes the peer's Hello, or its reply to one.
func (u *unreliable) receiveHello(m *rogue.Message) {
	if u.pair.flow[out] == nil || !u.createQPs() {
		return
	}
	if m.Other != u.peer.Other || m.Echoes != u.peer.Echoes || m.PSN != u.peer.PSN {
		u.peer = *m
		if !u.joinSides() {
			return
		}
	}
	switch {
	case m.Kind == rogue.Hello:
		u.sendMessage(rogue.HelloReply, m.Epoch)
		if u.greeting != established { // it may not have existed when this side said hello
			u.tries = 0
			u.greet.SetTime(u.pair.layer.device.Now())
		}
	case m.Epoch == u.nonce:
		u.greeting = established
		u.greet.SetTime(units.Never)
		u.pair.postAllowed()
	}
}

// joinSides connects the sides with the peer's, with nothing under way.
func (u *unreliable) joinSides() bool {
	p := u.pair
	if p.live.QP != p.raw.QP {
		now := p.layer.device.Now()
		for p.verbs.Len() > 0 {
			p.completeVerb(cq.Success, &nicemu.Completion{Timestamp: now}, false)
		}
		p.live = p.raw
	}
	u.disarmTimer()
	p.flow[out].restartFlow()
	err := u.data.RestartQP(p.raw.QP, u.peer.Other, u.peer.PSN, u.psn)
	if err == nil {
		err = u.echo.RestartQP(p.raw.QP, u.peer.Echoes, u.peer.PSN, u.psn)
	}
	if err != nil {
		u.greeting = idle
		return false
	}
	u.spent = [2]int{sideReceives, sideReceives}
	u.repostReceives()
	return true
}

// repostReceives posts used receives again. They are for immediate data only.
func (u *unreliable) repostReceives() {
	for i, side := range [...]nicemu.Raw{u.data, u.echo} {
		for ; u.spent[i] > 0; u.spent[i]-- {
			_ = side.PostRecv(&nicemu.RecvWR{}) // in ERR it is flushed
		}
	}
}

// takeReceive takes a completion of a receive queue; false if it is the program's.
func (u *unreliable) takeReceive(c *nicemu.Completion) bool {
	var side int
	switch {
	case c.QP == u.pair.raw.Number():
		return false
	case u.echo.QP != nil && c.QP == u.echo.Number():
		side = 1
	}
	if c.Status != cq.Success {
		return true // flushed
	}
	if side == 0 {
		u.peerRequests = append(u.peerRequests, ask{c.Imm, c.Timestamp})
	} else {
		u.answers = append(u.answers, answer{rogue.EchoOf(c.Imm), c.Timestamp})
	}
	u.spent[side]++
	return true
}

// exchangeEchoes answers the peer, and handles its answers.
func (u *unreliable) exchangeEchoes(now units.Time) {
	u.repostReceives()
	for _, a := range u.peerRequests {
		u.pair.layer.work.Echoes++
		u.sendImmediate(u.echo, rogue.Echo{Batch: uint16(a.number % rogue.EchoBatches), Response: now - a.at}.Immediate())
	}
	u.peerRequests = u.peerRequests[:0]
	for _, a := range u.answers {
		u.handleEcho(a.echo, a.at)
	}
	u.answers = u.answers[:0]
}

// sendImmediate sends only immediate data through a side.
func (u *unreliable) sendImmediate(side nicemu.Raw, imm uint32) {
	u.wr = nicemu.SendWR{ID: silentID, Op: nicemu.OpWriteImm, Imm: imm, Flags: nicemu.Signaled}
	_ = side.PostSend(&u.wr) // a full queue is like a loss
}

// switchQP switches to the queue pair that a request uses; false if verbs on the other have not left.
func (u *unreliable) switchQP(r *request) bool {
	p, next, by := u.pair, u.pair.raw, unheard
	if u.greeting == established {
		by = byEchoes
		if r.wr.Op == nicemu.OpWrite {
			next = u.data
		}
	}
	f := p.flow[out]
	if by == f.by && next.QP == p.live.QP {
		return true
	}
	if p.verbs.Len() > 0 {
		return false
	}
	if by != f.by {
		f.restartFlow()
		f.by = by
	}
	p.live = next
	p.setLimiter()
	return true
}

// numberBatch numbers a batch that is closed by a verb about to be posted, whose signal does not mean
// that it arrived.
func (u *unreliable) numberBatch(v *verb) {
	v.batch = u.number
	u.number++
	if p := u.pair; p.live.QP == u.data.QP {
		p.wr.Op, p.wr.Imm = nicemu.OpWriteImm, v.batch
	}
}

// recordSent records that a verb has left, at time at.
func (u *unreliable) recordSent(f *flow, v *verb, at units.Time) {
	if !v.closes {
		return
	}
	for i := range f.batches.Len() {
		b := f.batches.At(i)
		if b.number != v.batch {
			continue
		}
		f.meter.SkipCompletion(at, b.wire)
		b.start, u.left = max(b.at, u.left), at
		b.left = true
		if u.pair.live.QP != u.data.QP {
			// From here on the RTT is that of the empty WRITE.
			b.start, b.pos, b.separateEcho = u.pair.layer.device.Now(), f.meter.PostedBytes(), true
			u.sendImmediate(u.data, b.number)
		}
		if !u.timed {
			u.armTimer(f, at)
		}
		return
	}
}

// handleEcho handles an echo that arrived at time at.
func (u *unreliable) handleEcho(e rogue.Echo, at units.Time) {
	p := u.pair
	f := p.flow[out]
	if f == nil || f.by != byEchoes || f.batches.Len() == 0 {
		return
	}
	before := int((uint32(e.Batch) - f.batches.First().number) % rogue.EchoBatches)
	if before >= f.batches.Len() || !f.batches.At(before).left {
		return // of a batch that was given up
	}
	for range before { // echoes arrive in order: these, or their batches, are lost
		f.inFlight -= f.batches.Pop().bytes
		p.layer.work.Lost++
	}
	b := f.batches.Pop()
	f.inFlight -= b.bytes
	u.probes, f.probing = 0, false
	if before > 0 && f.window.OnLoss() {
		p.limitChanged(f)
	}
	if !b.slow && !e.Late {
		wire := b.wire
		if b.separateEcho {
			wire = 0
		}
		p.recordRTT(f, &b, f.meter.RecordEcho(b.pos, wire, b.start, at, e.Response))
	}
	if u.disarmTimer(); f.batches.Len() > 0 && f.batches.First().left {
		u.armTimer(f, at)
	}
}

// armTimer starts the timer from a given time.
func (u *unreliable) armTimer(f *flow, from units.Time) {
	wait := max(f.config.EchoTimeout, 2*f.window.RTT()) << u.probes
	u.timed = true
	u.timer.SetTime(max(from, u.pair.layer.device.Now()) + wait)
}

func (u *unreliable) disarmTimer() {
	u.timed = false
	u.timer.SetTime(units.Never)
}

// giveUpBatches gives up the batches under way, since no echo has arrived. Nothing is posted until an
// empty WRITE has been answered.
func (u *unreliable) giveUpBatches(now units.Time) {
	p := u.pair
	f := p.flow[out]
	u.timed = false
	if f == nil || f.by != byEchoes || p.dying {
		return
	}
	w := &p.layer.work
	w.Lost += uint64(f.batches.Len())
	w.Timeouts++
	f.restartFlow()
	p.setLimiter()
	if u.probes++; u.probes > maxProbes {
		u.greeting = failed // until it says hello
		p.postAllowed()
		return
	}
	f.probing = true
	f.batches.Push(batch{number: u.number, at: now, start: now, left: true, separateEcho: true})
	u.sendImmediate(u.data, u.number)
	u.number++
	u.armTimer(f, now)
}
