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

// frame returns the length of the tunnel frame that carries a packet.
func (x *sender) frame(p *packet.Packet) units.Bytes {
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
	if p.Flow >= 0 {
		_, k.to = s.env.Ends(p.Flow)
	} else {
		k.to = p.FlowKey(roce.Port).To
	}
	k.eqif = uint8(eqifOf(p))
	return s.sender(k)
}

// known returns the tunnel to an address, nil if there is none.
func (s *service) known(k address) *sender {
	if s.last == nil || s.last.address != k {
		if x := s.senders[k]; x == nil || x.address != k {
			return x
		} else {
			s.last = x
		}
	}
	return s.last
}

// sender returns the tunnel to an address, nil if no host with EQDS has it.
func (s *service) sender(k address) *sender {
	x := s.known(k)
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
		x = s.open(first)
	}
	s.senders[k] = x
	x.also = append(x.also, k)
	return x
}

// isDiscovery reports whether a packet belongs to neighbour discovery (RFC 4861 §4), which has no
// extension headers before it.
func isDiscovery(p *packet.Packet) bool {
	if p.Proto != wire.ProtoICMPv6 || p.Flow != packet.Real {
		return false
	}
	const first, last = 133, 137
	b, at := p.Ethernet(), int(p.L3)+wire.IPv6Header
	return len(b) > at && b[at] >= first && b[at] <= last
}

// open makes the sending end of a tunnel.
func (s *service) open(k address) *sender {
	s.opened++
	x := &sender{address: k, eqif: &s.eqifs[k.eqif], number: s.opened}
	x.turn.Owner = x
	x.Sender = tunnel.NewSender(s.settingsFor(k.to), k.eqif, s.env.Rand, func(p *packet.Packet, o tunnel.Outcome) { s.done(p, o) })
	if e, ok := s.epochs[k]; ok {
		x.Resume(e)
		delete(s.epochs, k)
	}
	s.agenda.Enrol(&x.Task, x)
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

// expire closes tunnels that have been idle for too long (Appendix A: either end may drop its state
// at any time). It has no timer, which would keep a run from its end: every event at the interface
// triggers the check. The receiving host is told, and drops its end later, including the record
// against senders that ask for more than they use. Of a closed tunnel only the epoch stays, so that
// the next incarnation has a greater one and is accepted at once.
func (s *service) expire(now units.Time) {
	if now < s.sweep {
		return
	}
	s.sweep = now + s.Idle/sweeps
	for n := 0; s.idle.First() != nil && now-s.idle.First().since >= s.Idle; n++ {
		if n == maxClosed {
			s.sweep = now
			break
		}
		s.close(now, s.idle.First())
	}
	if s.table.Expire(now-2*s.Idle, maxClosed) == maxClosed {
		s.sweep = now
	}
}

// close ends a sender that is idle.
func (s *service) close(now units.Time, x *sender) {
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
	s.past.add(x.Counters())
	if s.gone != nil {
		shown := s.flow(x, nil)
		s.gone(now, &shown)
	}
	if open {
		s.request(now, x, &h)
	}
}

// aged reports whether a sender will be closed at the next event of the interface.
func (s *service) aged(now units.Time, x *sender) bool { return x.inIdle.In() && now-x.since >= s.Idle }

// live returns how many senders are not aged.
func (s *service) live(now units.Time) int {
	n := s.order.Len()
	for x := s.idle.First(); x != nil && s.aged(now, x); x = s.idle.Next(&x.inIdle) {
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
		made := s.Config.tunnel(k.rate, s.mtu, k.rtt)
		c = &made
		s.settings[k] = c
	}
	return c
}

// done ends a packet of a sender: its copy has arrived, or the packet is given up.
func (s *service) done(p *packet.Packet, o tunnel.Outcome) {
	s.packets--
	s.bytes -= p.Size
	if eqifOf(p) == nativeEQIF {
		s.native.done(s.now, p, o)
	}
	if o.Delivered {
		s.env.Finish(p)
	} else {
		s.env.Drop(s.now, p, packet.NoReceiver)
	}
}

func (x *sender) tick(s *service, now units.Time) {
	if x.Sender.Timer() <= now {
		x.Tick(now)
	}
	s.rescheduleSender(now, x)
}

// accept makes the receiving end of a new tunnel.
func (s *service) accept(k tunnel.Key) *tunnel.Receiver[*packet.Packet] {
	r := tunnel.NewReceiver(s.settingsFor(k.From), s.pacer, k.Sender, pullClasses[k.Sender], s.arrived.Push)
	x := &receiver{Receiver: r, from: k.From}
	s.agenda.Enrol(&x.Task, x)
	r.Owner = x
	return r
}

// removeReceiver removes the receiving end of a tunnel.
func (s *service) removeReceiver(_ tunnel.Key, r *tunnel.Receiver[*packet.Packet]) {
	s.pastTrimmed += r.Receipts().Trimmed
	s.agenda.Remove(&r.Owner.(*receiver).Task)
}

func (x *receiver) tick(s *service, now units.Time) {
	if x.Receiver.Timer() <= now {
		x.Tick(now)
		if c, ok := x.Delayed(now); ok {
			s.sendControl(now, x.from, &c)
		}
	}
	s.agenda.At(&x.Task, x.Timer())
}

// Timer implements end.
func (x *sender) Timer() units.Time { return x.Sender.Timer() }

// Timer implements end.
func (x *receiver) Timer() units.Time { return x.Receiver.Timer() }
