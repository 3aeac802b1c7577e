package port

import (
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/wire"
)

// flowControl handles the pauses by the peer of a port and of that peer. Its timer fires
// when a pause expires, must be refreshed, or has lasted too long.
type flowControl struct {
	port  *Port
	timer sim.Timer
	rx    *pfc.Receiver
	tx    *pfc.Sender
	mac   wire.MAC // source of the port's MAC control frames
	storm func(now units.Time, prio uint8, begins bool)

	paused func(now units.Time, prio uint8, begins bool)
	was    uint8 // classes that were paused when paused was last called

	asks units.Time // when the port reports what it has sent (credit.go); units.Never if never
}

func (f *flowControl) startControl(p *Port, env ClassEnv) {
	configs := new(pfc.Configs)
	for _, s := range p.classes.settings {
		configs[s.Priority] = s.PFC
	}
	if g := p.classes.Pause; g != nil {
		for i := range configs {
			configs[i] = g
		}
	}
	f.port, f.mac, f.storm, f.paused = p, env.MAC, env.Storm, env.Paused
	f.rx, f.tx = pfc.NewReceiver(configs, env.Obeys), pfc.NewSender(p.classes.Pause != nil, configs)
	f.timer = env.Engine.NewTimer(f)
	p.startCredits(&env.Peer)
}

// nominalRate is used for a link without a rate, where a pause time in bit times would mean
// nothing.
const nominalRate = 100 * units.Gbps

// bitRate is the rate that makes the bit times of pauses, by the node's clock.
func (p *Port) bitRate() units.Rate {
	if r := p.link.Rate(); r > 0 {
		return p.clock.TrueRate(r)
	}
	return nominalRate
}

// handleHeld handles a packet that came in through the port and for which Buffer.ChargePacket returned
// true: with credits, each packet; with pauses, the one that must pause the peer. cause is
// the port whose queue the packet has joined.
func (p *Port) handleHeld(now units.Time, prio uint8, size units.Bytes, cause int) {
	if p.classes.offersCredit(prio) {
		p.classes.queue[prio].gives.RecordWaiting(size)
		return
	}
	f := &p.classes.flow
	frame := f.tx.PauseClass(now, p.pauseClass(prio), cause, p.bitRate())
	p.sendPause(now, &frame, packet.Xoff)
	f.armTimer()
}

// handleFreed handles a packet that leaves and for which Buffer.DischargePacket returned true.
func (p *Port) handleFreed(now units.Time, prio uint8, size units.Bytes) {
	if p.classes.offersCredit(prio) {
		r := p.classes.queue[prio].gives
		if r.FreePacket(size); r.UpdateIsDue() {
			p.sendCredits(now)
		}
		return
	}
	f := &p.classes.flow
	frame := f.tx.ResumeClass(now, p.pauseClass(prio))
	p.sendPause(now, &frame, packet.Xon)
	f.armTimer()
}

// pauseClass returns the class that represents a class in flow control: with global PAUSE
// the first one represents all.
func (p *Port) pauseClass(prio uint8) uint8 {
	if p.classes.Pause != nil {
		return 0
	}
	return prio
}

// sendPause sends a MAC control frame after the packet being sent. A capture shows with it
// how much has come in and waits in the classes that it names.
func (p *Port) sendPause(now units.Time, frame *wire.Pause, fate packet.Fate) {
	if p.link == nil {
		return
	}
	c := p.classes
	pkt := p.pool.NewFrame(wire.PauseFrame)
	frame.PutFrame(pkt.Frame, c.flow.mac)
	pkt.Size, pkt.Dest, pkt.L3, pkt.Ether = wire.PauseFrame, packet.MACControl, wire.EthernetHeader, wire.EtherTypeMACControl
	pkt.Fate, pkt.Depth = fate, uint32(p.waitingBehind(frame))
	p.counters.Originated++
	pkt.ID = p.counters.Originated
	if p.freeAt <= now && c.control.Empty() {
		p.transmitPacket(now, pkt)
		p.armNext()
		return
	}
	c.control.Push(pkt)
	p.armNext()
}

// waitingBehind returns how much has come in through the port and waits in the classes that a
// frame names.
func (p *Port) waitingBehind(frame *wire.Pause) (n units.Bytes) {
	classes := frame.Classes
	if frame.Global {
		classes = 1 // one account covers all classes
	}
	for m := classes; m != 0; m &= m - 1 {
		a := p.classes.Buffer.Ingress(uint16(p.Index), uint8(bits.TrailingZeros8(m)))
		n += a.Reserve + a.Shared + a.Headroom
	}
	return n
}

// takeControl acts on a MAC control frame and consumes it.
func (p *Port) takeControl(now units.Time, pkt *packet.Packet) {
	p.counters.Consumed++
	if frame, ok := wire.ParsePause(pkt.Frame); ok {
		p.takePause(now, &frame)
	} else if says, ok := wire.ParseCredits(pkt.Frame); ok && p.classes != nil {
		p.takeCredits(now, &says)
	}
	p.pool.Free(pkt)
}

// takePause acts on a PAUSE or PFC frame, as far as the port obeys it. A plain port obeys
// none.
func (p *Port) takePause(now units.Time, frame *wire.Pause) {
	c := p.classes
	if c == nil {
		if frame.Asks() {
			p.counters.PausesIgnored++
		}
		return
	}
	if c.flow.rx.ApplyFrame(now, frame, p.bitRate(), c.ready) {
		p.counters.PausesIgnored++
	}
	p.applyPermits(now)
}

// applyPermits applies the current state of the flow control's receiver.
func (p *Port) applyPermits(now units.Time) {
	c := p.classes
	c.flow.reportChanges(now)
	c.blocked, c.dropping = c.flow.rx.BlockedClasses()|c.lacking, c.flow.rx.DroppedClasses()
	c.flow.armTimer()
	if p.freeAt <= now {
		p.startClasses(now)
	} else {
		p.armNext()
	}
}

// reportChanges reports pauses that have begun or ended.
func (f *flowControl) reportChanges(now units.Time) {
	is := f.rx.PausedClasses()
	if f.paused != nil {
		for m := is ^ f.was; m != 0; m &= m - 1 {
			prio := uint8(bits.TrailingZeros8(m))
			f.paused(now, prio, is&(1<<prio) != 0)
		}
	}
	f.was = is
}

// setBacklog tells the receiver which classes have waiting packets.
func (f *flowControl) setBacklog(now units.Time, ready uint8) {
	f.rx.SetBacklog(now, ready)
	f.armTimer()
}

func (f *flowControl) armTimer() {
	if due := min(f.rx.NextExpiry(), f.tx.NextRefresh(), f.asks); due != units.Never {
		f.timer.Arm(due)
	} else {
		f.timer.Disarm()
	}
}

// Fire handles all events that are due.
func (f *flowControl) Fire(now units.Time) {
	p := f.port
	if f.asks <= now {
		p.reportSent(now)
	}
	if f.tx.NextRefresh() <= now {
		frame := f.tx.RefreshPauses(now, p.bitRate())
		p.sendPause(now, &frame, packet.Xoff)
	}
	if f.rx.NextExpiry() <= now {
		bitten, released := f.rx.ExpirePauses(now)
		f.reportWatchdog(now, bitten, true)
		f.reportWatchdog(now, released, false)
		for m := f.rx.DroppedClasses() &^ p.classes.dropping; m != 0; m &= m - 1 {
			p.discardQueue(now, p.classes.queue[bits.TrailingZeros8(m)])
		}
		p.applyPermits(now)
		return
	}
	f.armTimer()
}

// reportWatchdog reports that the watchdog has triggered for some classes, or released them.
func (f *flowControl) reportWatchdog(now units.Time, classes uint8, begins bool) {
	if f.storm == nil {
		return
	}
	for m := classes; m != 0; m &= m - 1 {
		f.storm(now, uint8(bits.TrailingZeros8(m)), begins)
	}
}

// discardQueue empties a queue whose class the watchdog discards.
func (p *Port) discardQueue(now units.Time, q *classQueue) {
	for q.count > 0 {
		pkt := p.removeFirst(now, q)
		p.informRemoved(now, q, pkt, packet.Watchdog)
		p.dropClass(now, q, pkt, packet.Watchdog)
	}
}
