package eqdsnic

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/eqif"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// address identifies a tunnel: its destination, and the EQIF.
type address struct {
	to   netip.Addr
	eqif uint8
}

// path holds the properties of a path that the settings of a tunnel depend on.
type path struct {
	rtt  units.Time
	rate units.Rate
}

// sender is the sending end of a tunnel.
type sender struct {
	*tunnel.Sender[*packet.Packet]
	agenda.Task[end]
	address
	eqif *queues
	turn eqif.Turn[*sender]

	also                        []address          // further keys by which it is found
	inOrder                     queue.Link[sender] // in service.order
	inIdle                      queue.Link[sender] // in service.idle, if it has no packets
	since                       units.Time         // it has had no packets since then
	from                        netip.Addr         // once it has sent something
	number                      uint64
	txPackets, txBytes, dropped uint64

	out     outbox // of the native EQIF: messages not yet cut into packets
	filling bool
}

// receiver is the receiving end of a tunnel.
type receiver struct {
	*tunnel.Receiver[*packet.Packet]
	agenda.Task[end]
	from netip.Addr
}

// frameLen returns the length of the tunnel frame that carries a packet.
func (x *sender) frameLen(p *packet.Packet) units.Bytes {
	return protocol.HeaderLen(versionOf(x.to)) + eqds.HeaderLen + p.Layer3()
}

func versionOf(a netip.Addr) uint8 {
	if a.Is4() {
		return 4
	}
	return 6
}

func nextOf(version uint8) uint8 {
	if version == 4 {
		return eqds.NextIPv4
	}
	return eqds.NextIPv6
}

// senderOf returns the tunnel for a packet, nil if the packet bypasses tunnels.
func (s *service) senderOf(p *packet.Packet) *sender {
	if p.Version == 0 || p.L3 > wire.EthernetHeader || p.ToGroup() || p.IsMessage() || isDiscovery(p) {
		return nil
	}
	var k address
	if p.Kind == packet.Modelled {
		_, k.to = s.env.Ends(p.Flow)
	} else {
		k.to = p.FlowKey(roce.Port).To
	}
	k.eqif = uint8(eqifOf(p))
	return s.senderFor(k)
}

// knownSender returns the tunnel to an address, nil if there is none.
func (s *service) knownSender(k address) *sender {
	if s.last == nil || s.last.address != k {
		if x := s.senders[k]; x == nil || x.address != k {
			return x
		} else {
			s.last = x
		}
	}
	return s.last
}

// senderFor returns the tunnel to an address, nil if no host with EQDS has it.
func (s *service) senderFor(k address) *sender {
	x := s.knownSender(k)
	if x != nil || !k.to.IsValid() {
		return x
	}
	peer, ok := s.env.Peer(k.to)
	if !ok {
		return nil
	}
	// The peer answers from its first address. Packets to all its addresses share a tunnel.
	first := address{peer.Address, k.eqif}
	if x = s.senders[first]; x == nil {
		x = s.openSender(first)
	}
	s.senders[k] = x
	x.also = append(x.also, k)
	return x
}

// isDiscovery reports whether a packet belongs to neighbour discovery (RFC 4861 §4), which has no
// extension headers before it.
func isDiscovery(p *packet.Packet) bool {
	if p.Proto != wire.ProtoICMPv6 || p.Kind != packet.Real {
		return false
	}
	const first, last = 133, 137
	b, at := p.Ethernet(), int(p.L3)+wire.IPv6Header
	return len(b) > at && b[at] >= first && b[at] <= last
}

// openSender makes the sending end of a tunnel.
func (s *service) openSender(k address) *sender {
	s.opened++
	x := &sender{address: k, eqif: &s.eqifs[k.eqif], number: s.opened}
	x.turn.Owner = x
	x.Sender = tunnel.NewSender(s.settingsFor(k.to), k.eqif, s.env.Rand, func(p *packet.Packet, o tunnel.Outcome) { s.endPacket(p, o) })
	if e, ok := s.epochs[k]; ok {
		x.ResumeAfter(e)
		delete(s.epochs, k)
	}
	s.agenda.EnrolTask(&x.Task, x)
	s.senders[k] = x
	s.order.Push(&x.inOrder, x)
	return x
}

const (
	// maxClosed is the number of tunnels closed at once: each needs a packet of the class of
	// control packets.
	maxClosed = 8
	// sweeps is how often idle tunnels are checked while one grows old.
	sweeps = 64
)

// closeIdle closes tunnels that have been idle for too long (Appendix A: either end may drop its state
// at any time). It has no timer, which would keep a run from its end: every event at the interface
// triggers the check. The receiving host is told, and drops its end later, including the record
// against senders that ask for more than they use. Of a closed tunnel only the epoch stays, so that
// the next incarnation has a greater one and is accepted at once.
func (s *service) closeIdle(now units.Time) {
	if now < s.sweep {
		return
	}
	s.sweep = now + s.Idle/sweeps
	for n := 0; s.idle.First() != nil && now-s.idle.First().since >= s.Idle; n++ {
		if n == maxClosed {
			s.sweep = now
			break
		}
		s.closeSender(now, s.idle.First())
	}
	if s.table.ExpireUnused(now-2*s.Idle, maxClosed) == maxClosed {
		s.sweep = now
	}
}

// closeSender ends a sender that is idle.
func (s *service) closeSender(now units.Time, x *sender) {
	s.idle.Remove(&x.inIdle)
	s.order.Remove(&x.inOrder)
	s.agenda.Remove(&x.Task)
	if s.last == x {
		s.last = nil
	}
	delete(s.senders, x.address)
	for _, k := range x.also {
		delete(s.senders, k)
	}
	h, open := x.Close()
	s.epochs[x.address] = x.Epoch()
	s.closed++
	s.past.addCounters(x.Counters())
	if s.onFlowEnd != nil {
		shown := s.flowState(x, nil)
		s.onFlowEnd(now, &shown)
	}
	if open {
		s.sendRTS(now, x, &h)
	}
}

// isAged reports whether a sender will be closed at the next event of the interface.
func (s *service) isAged(now units.Time, x *sender) bool {
	return x.inIdle.IsLinked() && now-x.since >= s.Idle
}

// countLive returns how many senders are not aged.
func (s *service) countLive(now units.Time) int {
	n := s.order.Len()
	for x := s.idle.First(); x != nil && s.isAged(now, x); x = s.idle.Next(&x.inIdle) {
		n--
	}
	return n
}

// settingsFor returns the settings of tunnels to or from an address. Tunnels with similar paths
// share them. Packets take all paths, so the links of both hosts bound their rate, and no single
// link between them does.
func (s *service) settingsFor(a netip.Addr) *tunnel.Config {
	full, answer := packet.OnWire(s.mtu), packet.OnWire(protocol.HeaderLen(versionOf(a))+eqds.HeaderLen)
	trip := s.env.Trip(packet.FlowKey{To: a, Flow: -1}, full, answer)
	k := path{trip.RTT, s.env.Line}
	if peer, ok := s.env.Peer(a); ok && peer.Line > 0 {
		k.rate = min(k.rate, peer.Line)
	}
	c := s.settings[k]
	if c == nil {
		made := s.Config.tunnelConfig(k.rate, s.mtu, k.rtt)
		c = &made
		s.settings[k] = c
	}
	return c
}

// endPacket ends a packet of a sender: its copy has arrived, or the packet is given up.
func (s *service) endPacket(p *packet.Packet, o tunnel.Outcome) {
	s.packets--
	s.bytes -= p.Size
	if eqifOf(p) == nativeEQIF {
		s.native.handleOutcome(s.now, p, o)
	}
	if o.Delivered {
		s.env.Finish(p)
	} else {
		s.env.Drop(s.now, p, packet.GivenUp)
	}
}

func (x *sender) onTimer(s *service, now units.Time) {
	if x.Sender.NextTimer() <= now {
		x.OnTimer(now)
	}
	s.rescheduleSender(now, x)
}

// openReceiver makes the receiving end of a new tunnel.
func (s *service) openReceiver(k tunnel.Key) *tunnel.Receiver[*packet.Packet] {
	r := tunnel.NewReceiver(s.settingsFor(k.From), s.pacer, k.Sender, pullClasses[k.Sender], s.arrived.Push)
	x := &receiver{Receiver: r, from: k.From}
	s.agenda.EnrolTask(&x.Task, x)
	r.Owner = x
	return r
}

// removeReceiver removes the receiving end of a tunnel.
func (s *service) removeReceiver(_ tunnel.Key, r *tunnel.Receiver[*packet.Packet]) {
	s.pastTrimmed += r.Receipts().Trimmed
	s.agenda.Remove(&r.Owner.(*receiver).Task)
}

func (x *receiver) onTimer(s *service, now units.Time) {
	if x.Receiver.NextTimer() <= now {
		x.OnTimer(now)
		if c, ok := x.TakeDelayedAck(now); ok {
			s.sendControl(now, x.from, &c)
		}
	}
	s.agenda.WakeAt(&x.Task, x.NextTimer())
}

// NextTimer implements end.
func (x *sender) NextTimer() units.Time { return x.Sender.NextTimer() }

// NextTimer implements end.
func (x *receiver) NextTimer() units.Time { return x.Receiver.NextTimer() }
