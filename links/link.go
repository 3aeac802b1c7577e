package links

import (
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Receiver is the port at the far end of a link.
type Receiver interface {
	// Receive is given a packet at the instant its last bit arrives, and
	// owns it from then on.
	Receive(now units.Time, p *packet.Packet)
}

// Counters counts what a link did, in packets. What it lost is counted by
// the sending port, which is told by Admit, except for Cut.
type Counters struct {
	Delivered  uint64
	Corrupted  uint64
	Duplicated uint64 // copies made
	Reordered  uint64 // held back on purpose
	Cut        uint64 // under way when the link went down
}

// Link is one direction of a cable. Its near half decides what becomes of a
// packet and belongs to the engine of the port that sends; its far half, the
// flight, holds the packets under way and belongs to the engine of the port
// that receives. The two may be different engines.
type Link struct {
	flight  *flight
	out     *Mailbox // to the far half's engine in the wall clock; nil when it is the same
	inbox   *Inbox   // of the far half's process in virtual time; nil when it is the same
	outbox  *Outbox  // on the way there; nil when its worker is the same
	delay   units.Time
	mtu     units.Bytes
	plain   bool        // the link does nothing to a packet but carry it
	instant bool        // plain, and it takes no time either
	early   units.Bytes // of a packet, that the receiver waits for; 0 is all of it
	epoch   uint8       // counts how often the link went down

	// What Admit has decided about the packet that Launch is to send.
	overtake, twice bool

	settings                         Settings
	rand                             *rand.Rand
	pool                             *packet.Pool
	corrupted, duplicated, reordered uint64
}

// Side is what one end of a link belongs to.
type Side struct {
	Engine *sim.Engine
	Pool   *packet.Pool
}

// New makes a link that delivers to the far port. random decides its losses
// and jitter. Where the two ends belong to different engines, out carries what
// is under way from one to the other; else it is nil.
func New(near, far Side, out *Mailbox, random *rand.Rand, s Settings, to Receiver) *Link {
	f := &flight{to: to, pool: far.Pool, up: s.Up}
	f.far, _ = to.(sim.Prefetcher)
	f.timer = far.Engine.NewTimer(f)
	l := &Link{flight: f, out: out, rand: random, pool: near.Pool}
	l.apply(s)
	return l
}

// Settings gives what the link does now.
func (l *Link) Settings() Settings { return l.settings }

// Rate is the link's rate, 0 when it has no limit.
func (l *Link) Rate() units.Rate { return l.settings.Rate }

// Delay is the propagation delay.
func (l *Link) Delay() units.Time { return l.delay }

// MTU is the largest layer-3 packet that the link carries.
func (l *Link) MTU() units.Bytes { return l.mtu }

// Predictable tells whether a packet's arrival follows from its departure
// alone and can still be taken back (Recall): the link neither loses, damages
// nor delays anything at random, and its far half is not in an engine that may
// be asked for in the wall clock.
func (l *Link) Predictable() bool { return l.plain && l.out == nil && l.early == 0 }

// Join has the link end in another process of a run in virtual time, in whose
// inbox its packets land. Outbox is on the way there if another worker runs that
// process, else nil. It is called before the link is given to its port.
func (l *Link) Join(inbox *Inbox, outbox *Outbox) {
	l.inbox, l.outbox, l.flight.inbox = inbox, outbox, inbox
	l.instant = false
}

// CutThrough has packets arrive when so many bytes of them have, with the
// preamble; the rest follows until their Tail. It is called before
// the link is given to its port.
func (l *Link) CutThrough(head units.Bytes) { l.early = head }

// hasten lets a packet whose serialisation takes tx arrive with its head.
func (l *Link) hasten(tx units.Time, p *packet.Packet) {
	if l.early == 0 {
		return
	}
	p.Tail = p.At
	if head := l.settings.Rate.TimeOf(l.early); head < tx {
		p.At -= tx - head
	}
}

// Crosses tells whether the two ends belong to different engines.
func (l *Link) Crosses() bool { return l.out != nil || l.inbox != nil }

// InFlight is how many packets are under way.
func (l *Link) InFlight() int { return l.flight.order.len() + l.flight.late.len() }

// Shrink gives up room that packets under way do not need now. It is called between runs.
func (l *Link) Shrink() { l.flight.order.shrink() }

// Counters counts what the link has done.
func (l *Link) Counters() Counters {
	return Counters{
		Delivered: l.flight.delivered, Cut: l.flight.cutCount,
		Corrupted: l.corrupted, Duplicated: l.duplicated, Reordered: l.reordered,
	}
}

// Set changes what the link does to packets sent from now on. Packets already
// under way keep their arrival, unless the link goes down: then they are lost.
// A shorter delay does not let later packets overtake earlier ones. Where the
// link Crosses, the far half's engine has to call Follow at the same time.
func (l *Link) Set(s Settings) {
	if l.settings.Up && !s.Up {
		l.epoch++
	}
	l.apply(s)
	if !l.Crosses() {
		l.Follow(s.Up)
	}
}

// Follow tells the far half whether the link is up: when it goes down, what is
// under way is lost. It belongs to the far half's engine.
func (l *Link) Follow(up bool) {
	if l.flight.up && !up {
		l.flight.cut()
	}
	l.flight.up = up
}

func (l *Link) apply(s Settings) {
	l.settings, l.delay, l.mtu = s, s.Delay, s.MTU
	l.plain = s.Up && s.Loss == 0 && s.Corrupt == 0 && s.Duplicate == 0 && s.Reorder == 0 && s.Jitter == 0 && s.DropMatch.Empty()
	l.instant = l.plain && !l.Crosses() && s.Rate == 0 && s.Delay == 0
	l.overtake, l.twice = false, false
}

// Admit decides about a packet whose first bit leaves the port at now and
// whose last bit leaves tx later. It answers Fine when the link takes it, and
// then Launch has to follow; otherwise the reason for the loss.
func (l *Link) Admit(now, tx units.Time, p *packet.Packet) packet.Fate {
	l.overtake, l.twice = false, false
	p.At = now + tx + l.delay
	if l.plain {
		if p.Layer3() > l.mtu {
			return packet.TooBig
		}
		l.hasten(tx, p)
		return packet.Fine
	}
	s := &l.settings
	switch {
	case !s.Up:
		return packet.LinkDown
	case p.Layer3() > s.MTU:
		return packet.TooBig
	case p.Version == 4 && s.DropMatch.IPID(p.IPID):
		return packet.LinkMatch
	case s.Loss > 0 && l.rand.Float64() < float64(s.Loss):
		return packet.LinkLoss
	}
	if s.Corrupt > 0 && l.rand.Float64() < float64(s.Corrupt) {
		p.BadFCS = true
		l.corrupted++
	}
	l.overtake = s.JitterReorder && s.Jitter > 0
	if s.Jitter > 0 {
		p.At += l.jitter()
	}
	if s.Reorder > 0 && l.rand.Float64() < float64(s.Reorder) {
		p.At += s.ReorderBy
		l.overtake = true
		l.reordered++
	}
	l.twice = s.Duplicate > 0 && l.rand.Float64() < float64(s.Duplicate)
	l.hasten(tx, p)
	return packet.Fine
}

// Launch puts a packet that was admitted under way, to arrive at its At.
func (l *Link) Launch(p *packet.Packet) {
	if l.twice {
		l.duplicated++
		l.send(l.pool.Clone(p))
	}
	l.send(p)
}

func (l *Link) send(p *packet.Packet) {
	p.Epoch = l.epoch
	switch {
	case l.inbox != nil:
		l.post(letter{l.flight, p, p.At, way{l.epoch, l.overtake}})
	case l.out != nil:
		l.out.put(letter{l.flight, p, p.At, way{l.epoch, l.overtake}})
	case l.overtake:
		l.flight.putLate(p)
	case l.instant:
		l.pass(p)
	default:
		l.flight.put(p.At, p)
	}
}

// post sends a letter to the far half's process.
func (l *Link) post(x letter) {
	if l.outbox != nil {
		l.outbox.put(l.inbox, x)
		return
	}
	l.inbox.put(x)
}

// LaunchAhead puts a packet under way whose first bit may have yet to leave.
// The caller has set its At, and the link is Predictable. On an instant link it may have
// to wait too, for one that began to leave when the link had a rate.
func (l *Link) LaunchAhead(now units.Time, p *packet.Packet) {
	p.Epoch = l.epoch
	if l.inbox != nil {
		l.post(letter{l.flight, p, p.At, way{epoch: l.epoch}})
		return
	}
	if l.instant && p.At <= now {
		l.pass(p)
		return
	}
	l.flight.put(p.At, p)
}

// pass carries a packet in no time. If nothing is under way there is nothing
// to wait for, and nothing to be overtaken.
func (l *Link) pass(p *packet.Packet) {
	if l.flight.empty() {
		l.flight.deliver(p.At, p)
		return
	}
	l.flight.put(p.At, p)
}

// Recall takes the last n packets back, which were launched ahead and have not
// begun to leave. They are the caller's again at once. Another process, which
// has them under way, hears of it in time: they would not have arrived before
// it reads its letters.
func (l *Link) Recall(n int) {
	if l.inbox != nil {
		l.post(letter{to: l.flight, at: units.Time(n)})
		return
	}
	l.flight.recall(n)
}

// jitter draws the extra delay of one packet.
func (l *Link) jitter() units.Time {
	j := float64(l.settings.Jitter)
	var x float64
	switch l.settings.JitterDistribution {
	case Uniform:
		x = j * l.rand.Float64()
	case Normal:
		x = j + j/4*l.rand.NormFloat64()
	case Exponential:
		x = j * l.rand.ExpFloat64()
	case Pareto:
		const shape = 3
		u := 1 - l.rand.Float64() // in (0, 1]
		x = j * (shape - 1) / shape / math.Cbrt(u)
	}
	return units.Time(max(x, 0))
}
