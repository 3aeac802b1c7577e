package links

import (
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/prefetch"
	"github.com/weftlab/weft/sim/units"
)

// Receiver is the port at the far end of a link.
type Receiver interface {
	// ReceivePacket is called when the last bit of a packet arrives, and owns the packet
	// from then on.
	ReceivePacket(now units.Time, p *packet.Packet)
}

// Counters counts a link's events, in packets. Except for Cut, losses are counted by
// the sending port, which learns of them from DecideFate.
type Counters struct {
	Delivered  uint64
	Corrupted  uint64
	Duplicated uint64 // copies made
	Reordered  uint64 // deliberately held back
	Cut        uint64 // in flight when the link went down
}

// Link is one direction of a cable. Its near half decides the fate of a packet and
// belongs to the sending port's engine; its far half, the flight, holds the packets
// in flight and belongs to the receiving port's engine. The two may be different
// engines.
//
// Its last cache line is what a packet needs.
type Link struct {
	settings                         Settings
	rand                             *rand.Rand
	pool                             *packet.Pool
	corrupted, duplicated, reordered uint64

	_ [40]byte // aligns the rest

	flight  *Flight
	out     *Mailbox // to the far half's engine in the wall clock; nil when it is the same
	inbox   *Inbox   // of the far half's process in virtual time; nil when it is the same
	outbox  *Outbox  // to the inbox's worker; nil when it is the same
	delay   units.Time
	mtu     units.Bytes
	early   units.Bytes // bytes of a packet that the receiver waits for; 0 means all
	plain   bool        // the link only carries packets and does nothing else to them
	instant bool        // plain and without delay
	epoch   uint8       // counts how often the link went down

	// Admit's decisions about the packet that LaunchPacket will send.
	overtake, duplicate bool
}

// How many bytes of a link a packet needs.
const (
	NearSize = prefetch.Line     // at the end of Link
	FarSize  = 2 * prefetch.Line // at the beginning of Flight
)

// End is the engine and the pool of one end of a link.
type End struct {
	Engine *sim.Engine
	Pool   *packet.Pool
	// Salt determines, at the far end, the order among packets of several links that arrive
	// at one instant (sim.Engine.NewArrival).
	Salt uint64
}

// InitLink makes l, with f, a link that delivers to the far port, and returns it. random
// determines its losses and jitter. If the two ends belong to different engines, out
// carries the packets in flight from one to the other; else it is nil.
func (l *Link) InitLink(f *Flight, near, far End, out *Mailbox, random *rand.Rand, s Settings, to Receiver) *Link {
	*f = Flight{to: to, reads: packet.Forwarded, pool: far.Pool, up: s.Up}
	f.far, _ = to.(sim.Prefetcher)
	f.timer = far.Engine.NewArrival(f, far.Salt)
	*l = Link{flight: f, out: out, rand: random, pool: near.Pool}
	l.applySettings(s)
	return l
}

// Settings returns the current settings.
func (l *Link) Settings() Settings { return l.settings }

// Rate returns the link's rate, 0 when it has no limit.
func (l *Link) Rate() units.Rate { return l.settings.Rate }

// Delay returns the propagation delay.
func (l *Link) Delay() units.Time { return l.delay }

// MTU returns the size of the largest layer-3 packet that the link carries.
func (l *Link) MTU() units.Bytes { return l.mtu }

// IsPredictable reports whether a packet's arrival depends only on its departure and
// the packet can still be recalled (Recall): the link neither loses, damages nor
// delays packets at random, and its far half is not in another engine in the wall
// clock.
func (l *Link) IsPredictable() bool { return l.plain && l.out == nil && l.early == 0 }

// JoinProcess makes the link end in another process of a virtual-time run, in whose inbox
// its packets land. outbox leads to that process if another worker runs it, else it
// is nil. Join is called before the link is given to its port.
func (l *Link) JoinProcess(inbox *Inbox, outbox *Outbox) {
	l.inbox, l.outbox, l.flight.inbox = inbox, outbox, inbox
	l.instant = false
}

// CutThrough makes packets arrive when their first head bytes, with the preamble,
// have arrived; the rest follows until their Tail. It is called before the link is
// given to its port.
func (l *Link) CutThrough(head units.Bytes) { l.early = head }

// SetReadPart tells the link how much of a packet its receiver reads, which is prefetched. It is
// called before the link is given to its port.
func (l *Link) SetReadPart(part packet.Part) { l.flight.reads = part }

// applyCutThrough makes a packet whose serialisation takes tx arrive with its head.
func (l *Link) applyCutThrough(tx units.Time, p *packet.Packet) {
	if l.early == 0 {
		return
	}
	p.Tail = p.At
	if head := l.settings.Rate.TimeOf(l.early); head < tx {
		p.At -= tx - head
	}
}

// CrossesEngines reports whether the two ends belong to different engines.
func (l *Link) CrossesEngines() bool { return l.out != nil || l.inbox != nil }

// InFlight returns the number of packets in flight.
func (l *Link) InFlight() int { return l.flight.order.Len() + l.flight.late.length() }

// ReleaseMemory releases memory that packets in flight do not need. It is called between runs.
func (l *Link) ReleaseMemory() { l.flight.order.ReleaseMemory() }

// Counters returns the link's counters.
func (l *Link) Counters() Counters {
	return Counters{
		Delivered: l.flight.delivered, Cut: l.flight.cutCount,
		Corrupted: l.corrupted, Duplicated: l.duplicated, Reordered: l.reordered,
	}
}

// Set changes what the link does to packets sent from now on. Packets in flight keep
// their arrival, unless the link goes down: then they are lost. A shorter delay does
// not let later packets overtake earlier ones. If the link CrossesEngines, the far half's
// engine must call Follow at the same time.
func (l *Link) Set(s Settings) {
	if l.settings.Up && !s.Up {
		l.epoch++
	}
	l.applySettings(s)
	if !l.CrossesEngines() {
		l.SetFarHalf(s.Up)
	}
}

// SetFarHalf tells the far half whether the link is up: when it goes down, the packets
// in flight are lost. The far half's engine calls it.
func (l *Link) SetFarHalf(up bool) {
	if l.flight.up && !up {
		l.flight.cutInFlight()
	}
	l.flight.up = up
}

func (l *Link) applySettings(s Settings) {
	l.settings, l.delay, l.mtu = s, s.Delay, s.MTU
	l.plain = s.Up && s.Loss == 0 && s.Corrupt == 0 && s.Duplicate == 0 && s.Reorder == 0 && s.Jitter == 0 && s.DropMatch.IsEmpty()
	l.instant = l.plain && !l.CrossesEngines() && s.Rate == 0 && s.Delay == 0
	l.overtake, l.duplicate = false, false
}

// DecideFate decides the fate of a packet whose first bit leaves the port at now and
// whose last bit leaves tx later. It returns Fine if the link takes the packet, and
// then LaunchPacket must follow; otherwise the reason for the loss.
func (l *Link) DecideFate(now, tx units.Time, p *packet.Packet) packet.Fate {
	l.overtake, l.duplicate = false, false
	p.At = now + tx + l.delay
	if l.plain {
		if p.Layer3() > l.mtu {
			return packet.TooBig
		}
		l.applyCutThrough(tx, p)
		return packet.Fine
	}
	s := &l.settings
	switch {
	case !s.Up:
		return packet.LinkDown
	case p.Layer3() > s.MTU:
		return packet.TooBig
	case p.Version == 4 && s.DropMatch.MatchesIPID(p.IPID):
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
		p.At += l.drawJitter()
	}
	if s.Reorder > 0 && l.rand.Float64() < float64(s.Reorder) {
		p.At += s.ReorderBy
		l.overtake = true
		l.reordered++
	}
	l.duplicate = s.Duplicate > 0 && l.rand.Float64() < float64(s.Duplicate)
	l.applyCutThrough(tx, p)
	return packet.Fine
}

// LaunchPacket sends an admitted packet, which arrives at its At.
func (l *Link) LaunchPacket(p *packet.Packet) {
	if l.duplicate {
		l.duplicated++
		l.sendPacket(l.pool.ClonePacket(p))
	}
	l.sendPacket(p)
}

func (l *Link) sendPacket(p *packet.Packet) {
	p.Epoch = l.epoch
	switch {
	case l.inbox != nil:
		l.sendMessage(message{l.flight, p, p.At, sent{l.epoch, l.overtake}})
	case l.out != nil:
		l.out.putMessage(message{l.flight, p, p.At, sent{l.epoch, l.overtake}})
	case l.overtake:
		l.flight.putLate(p)
	case l.instant:
		l.passPacket(p)
	default:
		l.flight.putPacket(p.At, p)
	}
}

// sendMessage sends a message to the far half's process.
func (l *Link) sendMessage(x message) {
	if l.outbox != nil {
		l.outbox.putMessage(l.inbox, x)
		return
	}
	l.inbox.putMessage(x)
}

// PassesAtOnce reports whether packets with l3 bytes of layer 3 arrive in the instant in which they are
// sent.
func (l *Link) PassesAtOnce(l3 units.Bytes) bool {
	return l.instant && l3 <= l.mtu && l.flight.isEmpty()
}

// PassTrain carries a train over a link that PassesAtOnce its packets.
func (l *Link) PassTrain(now units.Time, p *packet.Packet) {
	p.Epoch = l.epoch
	l.flight.delivered += uint64(p.PacketCount() - 1)
	l.flight.deliverPacket(now, p)
}

// LaunchAhead sends a packet whose first bit may not have left yet. The caller has set
// its At, and the link is IsPredictable. Even on an instant link the packet may have to
// wait, for one that began to leave when the link had a rate.
func (l *Link) LaunchAhead(now units.Time, p *packet.Packet) {
	p.Epoch = l.epoch
	if l.inbox != nil {
		l.sendMessage(message{l.flight, p, p.At, sent{epoch: l.epoch}})
		return
	}
	if l.instant && p.At <= now {
		l.passPacket(p)
		return
	}
	l.flight.putPacket(p.At, p)
}

// passPacket carries a packet in zero time. If nothing is in flight, there is nothing to
// wait for and nothing to overtake.
func (l *Link) passPacket(p *packet.Packet) {
	if l.flight.isEmpty() {
		l.flight.deliverPacket(p.At, p)
		return
	}
	l.flight.putPacket(p.At, p)
}

// RecallLast takes back the last n packets, which were launched ahead and have not begun
// to leave. The caller owns them again at once. If the flight belongs to another
// process, that learns of the recall in time: the packets would not have arrived
// before it reads its messages.
func (l *Link) RecallLast(n int) {
	if l.inbox != nil {
		l.sendMessage(message{to: l.flight, at: units.Time(n)})
		return
	}
	l.flight.removeLast(n)
}

// drawJitter draws a packet's extra delay.
func (l *Link) drawJitter() units.Time {
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
