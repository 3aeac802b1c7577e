package eqdsnic

import (
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/eqif"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// The EQIFs of a host: numbers in the order of an array, and sender IDs of tunnels.
const (
	tcpEQIF = iota
	rdmaEQIF
	nativeEQIF
	eqifCount
)

// pullClasses are the classes of the pacer by EQIF: native comes between TCP and RDMA, whichever of
// them is first.
var pullClasses = [eqifCount]uint8{tcpEQIF: 0, nativeEQIF: 1, rdmaEQIF: 2}

// service is EQDS at one interface of a host.
//
// A packet of the host waits in the sender of its tunnel, which takes turns in its EQIF, which
// takes turns at the port, while it has credit for its first packet. One agenda holds the pending
// work of tunnels, and one timer serves it and the pacer.
type service struct {
	*Config
	env  edge.Env
	mtu  units.Bytes // longest frame
	prio uint8       // class of data packets at the port
	fed  units.Bytes // size announced to the port for the next packet; 0 if none

	pulls pull.Config
	pacer *pull.Pacer[*tunnel.Receiver[*packet.Packet]]
	eqifs [eqifCount]queues
	turns *eqif.Rotation[*queues]
	table *tunnel.Table[*packet.Packet]
	nic   *port // the NIC's side; nil if there is no NIC

	native *Native

	settings map[path]*tunnel.Config
	last     *sender // result of the last lookup: mostly also of the next
	senders  map[address]*sender
	order    queue.List[sender]     // as they were made
	idle     queue.List[sender]     // those without packets, the longest idle first
	epochs   map[address]eqds.Epoch // of closed tunnels

	agenda  agenda.Agenda[end]
	armed   units.Time
	now     units.Time
	arrived packet.List // packets from tunnels, for the host

	packets int // held: waiting or not acknowledged
	bytes   units.Bytes

	marked, cnps, dropped, refused, tooLong uint64

	sweep          units.Time // when expire checks again
	opened, closed uint64     // senders so far
	past           totals     // of closed senders
	pastTrimmed    uint64     // counted by receivers that are gone
	onFlowEnd      func(now units.Time, x *edge.Flow)
}

// totals sums the counters of senders.
type totals struct{ data, resent, timeouts, requests uint64 }

func (t *totals) addCounters(c tunnel.Counters) {
	t.data += c.Packets
	t.resent += c.Resent
	t.timeouts += c.Timeouts
	t.requests += c.Requests
}

// end is one end of a tunnel.
type end interface {
	NextTimer() units.Time
	// onTimer does the work that is due by now.
	onTimer(s *service, now units.Time)
}

// queues is an EQIF: its tunnels take turns.
type queues struct {
	number     uint8
	discipline eqif.Discipline
	turn       eqif.Turn[*queues] // at the port
	turns      *eqif.Rotation[*sender]
}

func newService(c *Config, env edge.Env) *service {
	s := &service{
		Config: c, env: env, mtu: wire.EthernetHeader + env.MTU, armed: units.Never,
		settings: map[path]*tunnel.Config{}, senders: map[address]*sender{}, epochs: map[address]eqds.Epoch{},
	}
	if env.Classes != nil {
		s.prio = env.Classes.DSCP[c.DSCP]
	}
	s.pulls = c.pullConfig(env.Line, s.mtu)
	s.pacer = pull.New[*tunnel.Receiver[*packet.Packet]](&s.pulls)
	s.turns = eqif.NewRotation[*queues](s.mtu)
	for i := range s.eqifs {
		q := &s.eqifs[i]
		q.number, q.turn.Owner = uint8(i), q
		q.turns = eqif.NewRotation[*sender](s.mtu)
	}
	tcp := eqif.TCPDefault(s.mtu, env.Rand)
	if tcp.Packets = c.TCPPackets; c.TCPMark > 0 {
		tcp.RED.KMin, tcp.RED.KMax = c.TCPMark, 2*c.TCPMark
	}
	s.eqifs[tcpEQIF].discipline = &tcp
	s.eqifs[rdmaEQIF].discipline = &eqif.RDMA{
		Packets: c.RDMAPackets, CNP: eqif.Thresholds{KMin: c.KLow, KMax: c.KHigh, PMax: c.PMax}, Lossless: c.Lossless, Rand: env.Rand,
	}
	s.eqifs[nativeEQIF].discipline = &eqif.Native{Packets: c.NativePackets}
	s.native = &Native{service: s, sockets: map[uint16]*Socket{}}
	limits := tunnel.DefaultLimits()
	limits.Tunnels = c.Tunnels
	s.table = tunnel.NewTable(limits, s.openReceiver, s.removeReceiver)
	return s
}

// SendPacket implements edge.Service.
func (s *service) SendPacket(now units.Time, p *packet.Packet) {
	s.now = now
	x := s.senderOf(p)
	if x == nil {
		s.env.Pass(now, p)
		return
	}
	s.queuePacket(now, x, p)
	s.armTimer()
}

// queuePacket puts a packet into the queue of its tunnel, or drops it. It returns false, and changes
// nothing, if the packet has to wait with the NIC.
func (s *service) queuePacket(now units.Time, x *sender, p *packet.Packet) bool {
	size := x.frameLen(p)
	if size > s.mtu {
		s.tooLong++
		s.env.Drop(now, p, packet.TooBig)
		return true
	}
	waiting, bytes := x.Queue()
	switch x.eqif.discipline.JudgePacket(eqif.Queue{Packets: waiting, Bytes: bytes}, size, p.ECN() != wire.NotECT) {
	case eqif.Refuse:
		return false
	case eqif.Drop:
		s.dropped++
		x.dropped++
		s.env.Drop(now, p, packet.QueueFull)
		return true
	case eqif.Mark:
		if p.MarkCE() {
			s.marked++
		}
	case eqif.Notify:
		if s.env.Notify(now, p) {
			s.cnps++
		}
	}
	s.packets++
	s.bytes += p.Size
	x.Push(now, p, size)
	s.rescheduleSender(now, x)
	return true
}

// Next implements edge.Service.
func (s *service) Next(now units.Time, prio uint8) *packet.Packet {
	s.now = now
	if prio != s.prio {
		return nil
	}
	for t := s.turns.Head(); t != nil; t = s.turns.Head() {
		q, size := t.Owner, t.Size
		x := q.turns.Head().Owner
		h, p, _, _ := x.Next(now)
		q.turns.ChargeHead(size)
		s.turns.ChargeHead(size)
		x.turn.Size = 0 // that of the next one is not known yet
		m := s.makeDataPacket(x, &h)
		h.Next = nextOf(p.Version)
		m.Message.Body.(*header).data = h
		m.Message.Inner = s.env.Pool.ClonePacket(p)
		m.TOS |= p.ECN()
		known := s.env.Address(m)
		if known {
			s.env.Admit(now, m)
			x.from = m.Message.From
			x.txPackets++
			x.txBytes += uint64(m.Size)
		}
		s.rescheduleSender(now, x)
		if known {
			s.armTimer()
			return m
		}
		// The address is gone: the tunnel notices through its timeouts.
		s.env.Pool.Free(m)
	}
	s.armTimer()
	return nil
}

// rescheduleSender computes whether a sender takes turns, and when it has work. Every input to it ends here.
func (s *service) rescheduleSender(now units.Time, x *sender) {
	for x.NextSize() == tunnel.RequestLen {
		h, _, _, ok := x.Next(now)
		if !ok {
			break
		}
		s.sendRTS(now, x, &h)
	}
	q := x.eqif
	// Most packets are pushed behind others, and change nothing.
	changed := x.NextSize() != x.turn.Size || x.turn.Size == 0 && x.turn.IsWaiting()
	if changed {
		s.updateTurns(x)
	}
	s.agenda.WakeAt(&x.Task, x.NextTimer())
	if idle := x.IsIdle(); idle != x.inIdle.IsLinked() {
		if x.since = now; idle {
			s.idle.Push(&x.inIdle, x)
		} else {
			s.idle.Remove(&x.inIdle)
		}
	}
	if changed {
		s.announceNext(now)
	}
	switch {
	case q.number == rdmaEQIF && s.nic != nil:
		s.nic.retryWaiting(now)
	case q.number == nativeEQIF && x.out.first != nil:
		s.native.makePackets(now, x)
	}
}

// updateTurns updates the turns of a sender and its EQIF.
func (s *service) updateTurns(x *sender) {
	q := x.eqif
	if x.turn.Size = x.NextSize(); x.turn.Size > 0 {
		q.turns.AddTurn(&x.turn)
	} else {
		q.turns.RemoveTurn(&x.turn)
	}
	if first := q.turns.Head(); first != nil {
		q.turn.Size = first.Size
		s.turns.AddTurn(&q.turn)
	} else {
		s.turns.RemoveTurn(&q.turn)
	}
}

// announceNext announces the next data packet to the port, if that has changed.
func (s *service) announceNext(now units.Time) {
	size := units.Bytes(0)
	if t := s.turns.Head(); t != nil {
		size = t.Size
	}
	if size != s.fed {
		s.fed = size
		s.env.AnnouncePacket(now, s.prio, size)
	}
}

// Fire implements edge.Service.
func (s *service) Fire(now units.Time) {
	s.now, s.armed = now, units.Never
	for k := s.agenda.TakeDue(now); k != nil; k = s.agenda.TakeDue(now) {
		k.Owner.onTimer(s, now)
	}
	s.sendPulls(now)
	s.deliverPackets(now)
	s.armTimer()
}

// armTimer sets the timer. Every call from outside ends with it.
func (s *service) armTimer() {
	s.closeIdle(s.now)
	next := min(s.agenda.Next(), max(s.pacer.NextPull(), s.now))
	if next == s.armed {
		return
	}
	if s.armed = next; next == units.Never {
		s.env.Disarm()
	} else {
		s.env.Arm(next)
	}
}

// SetLineRate implements edge.Service. Existing tunnels keep their windows. Without a limit the last rate
// stays, which paces PULLs.
func (s *service) SetLineRate(now units.Time, r units.Rate) {
	if s.now = now; r == 0 || r == s.pulls.Line {
		return
	}
	s.pulls = s.Config.pullConfig(r, s.mtu)
	s.pacer.SetLineRate(&s.pulls)
	if s.nic != nil {
		s.nic.line = r
	}
	s.armTimer()
}

// HeldPackets implements edge.Service. A packet that was sent is held until it is acknowledged.
func (s *service) HeldPackets() (packets int, bytes units.Bytes) {
	if s.nic != nil && s.nic.stalled != nil {
		return s.packets + 1, s.bytes + s.nic.stalled.Size
	}
	return s.packets, s.bytes
}

// eqifOf returns the EQIF that a packet belongs to.
func eqifOf(p *packet.Packet) int {
	if p.Kind == packet.Protocol && p.Message.Protocol == nativeProtocol {
		return nativeEQIF
	}
	if p.Kind == packet.NIC || p.Kind == packet.Real && p.Proto == wire.ProtoUDP && p.DstPort == roce.Port {
		return rdmaEQIF
	}
	return tcpEQIF
}
