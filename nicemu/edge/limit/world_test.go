package limit

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"pgregory.net/rapid"
)

// steps is a rate control whose rate changes with time: its timer expires periodically while the
// flow is active, and it checks its inputs.
type steps struct {
	cc.NopControl
	t      rapid.TB
	rates  []units.Rate
	every  units.Time
	next   units.Time
	now    units.Time
	active bool
	line   units.Rate
	sent   int
}

func (s *steps) input(now units.Time) {
	if now < s.now || s.next <= now {
		s.t.Fatalf("an input at %v, after one at %v, and the timer was due at %v", now, s.now, s.next)
	}
	s.now = now
}

func (s *steps) Rate() units.Rate      { return s.rates[int(s.next/s.every)%len(s.rates)] }
func (s *steps) NextTimer() units.Time { return s.next }

func (s *steps) OnTimer(now units.Time) {
	for s.next <= now {
		s.next += s.every
	}
}

func (s *steps) OnPacketSent(now units.Time, n units.Bytes) {
	s.input(now)
	if !s.active || n < wire.EthernetMin+wire.EthernetOverhead {
		s.t.Fatalf("%d bytes sent by a flow that is active: %v", n, s.active)
	}
	s.sent++
}

func (s *steps) SetActive(now units.Time, active bool) {
	s.input(now)
	if active == s.active {
		s.t.Fatalf("told twice that active is %v", active)
	}
	s.active = active
}

func (s *steps) SetLineRate(now units.Time, r units.Rate) {
	s.input(now)
	s.line = r
}

// controls makes the rate controls of a test.
type controls struct {
	make   func(cc.Flow) cc.Control
	traits cc.Traits
}

func (c *controls) Validate(units.Rate) error { return nil }
func (c *controls) Traits() cc.Traits         { return c.traits }
func (c *controls) New(f cc.Flow) cc.Control  { return c.make(f) }

// world is a host and its port: it provides what a service needs, and asks for packets as a port
// does.
type world struct {
	t      rapid.TB
	engine sim.Engine
	pool   *packet.Pool
	l      *limiter
	timer  sim.Timer
	port   sim.Timer

	rate    units.Rate
	free    units.Time // when the port is
	fed     [8]units.Bytes
	blocked uint8
	asking  bool

	left     func(now units.Time, p *packet.Packet)
	passed   int
	says     func(now units.Time, p *packet.Packet) // about passing packets; may be nil
	reached  bool                                   // addresses are known
	dropped  int
	consumed int
	waiting  units.Bytes
}

type portTimer world

func (p *portTimer) Fire(now units.Time) { (*world)(p).start(now) }

func newWorld(t rapid.TB, c *Config, line units.Rate, limit units.Bytes) *world {
	w := &world{t: t, pool: packet.NewPools(1)[0], rate: line, left: func(units.Time, *packet.Packet) {}}
	w.timer, w.port = w.engine.NewTimer(w), w.engine.NewTimer((*portTimer)(w))
	env := edge.Env{Host: w, Name: "h1:eth0", Line: line, MTU: 1500, Pool: w.pool}
	for i := range env.Limit {
		env.Limit[i] = limit
	}
	w.l = newLimiter(c, env)
	return w
}

func (w *world) Fire(now units.Time) { w.l.Fire(now) }
func (w *world) Arm(at units.Time)   { w.timer.Arm(at) }
func (w *world) Disarm()             { w.timer.Disarm() }

func (w *world) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	w.fed[prio] = size
	if !w.asking {
		w.start(now)
	}
}

// start asks for packets as long as the port is free: of the highest class first.
func (w *world) start(now units.Time) {
	for w.free <= now {
		prio := 7
		for ; prio >= 0 && (w.fed[prio] == 0 || w.blocked>>prio&1 != 0); prio-- {
		}
		if prio < 0 {
			return
		}
		size := w.fed[prio]
		w.asking = true
		p := w.l.Next(now, uint8(prio))
		w.asking = false
		if p == nil || p.Size != size || int(p.Prio) != prio {
			w.t.Fatalf("fed was a packet of %d bytes of class %d, and then came %+v", size, prio, p)
		}
		w.free = now + w.rate.TimeOf(packet.OnWire(p.Size))
		w.left(now, p)
		w.pool.Free(p)
	}
	w.port.Arm(w.free)
}

func (w *world) Pass(now units.Time, p *packet.Packet) {
	w.passed++
	if w.says != nil {
		w.says(now, p)
	}
	w.pool.Free(p)
}

func (w *world) Drop(_ units.Time, p *packet.Packet, why packet.Fate) {
	if why != packet.QueueFull {
		w.t.Fatalf("dropped as %v", why)
	}
	w.dropped++
	w.pool.Free(p)
}

func (w *world) DeliverPacket(units.Time, *packet.Packet) { w.t.Fatal("a packet is delivered") }

func (w *world) Peer(netip.Addr) (p edge.Peer, ok bool) { return p, false }
func (w *world) Unwrap(units.Time, *packet.Packet, packet.Fate) {
	w.t.Fatal("a packet comes out of another")
}
func (w *world) Finish(*packet.Packet)                  { w.t.Fatal("a packet ends") }
func (w *world) Notify(units.Time, *packet.Packet) bool { return false }

func (w *world) Consume(_ units.Time, p *packet.Packet) {
	w.consumed++
	w.pool.Free(p)
}
func (w *world) Waits(_ units.Time, p *packet.Packet)  { w.waiting += p.Size }
func (w *world) Leaves(_ units.Time, p *packet.Packet) { w.waiting -= p.Size }
func (w *world) Admit(units.Time, *packet.Packet)      {}
func (w *world) Address(p *packet.Packet) bool {
	if !w.reached {
		return false
	}
	p.Message.From, _ = w.Ends(0)
	p.SetFields()
	return true
}
func (w *world) Ends(int32) (from, to netip.Addr) {
	return netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
}
func (w *world) Trip(packet.FlowKey, units.Bytes, units.Bytes) cc.Path {
	return cc.Path{RTT: 1}
}

// modelled makes a packet of a modelled flow.
func (w *world) modelled(flow int32, seq uint32, size units.Bytes, prio uint8) *packet.Packet {
	p := w.pool.New()
	p.Kind, p.Flow, p.Seq, p.Size, p.Prio, p.Version, p.Proto = packet.Modelled, flow, seq, size, prio, 4, wire.ProtoUDP
	p.SrcPort = uint16(flow)
	return p
}

// shown returns the flows that are not aged.
func (w *world) shown(now units.Time) (list []edge.Flow) {
	w.l.EachFlow(now, func(x *edge.Flow) bool {
		if !x.Aged {
			list = append(list, *x)
		}
		return true
	})
	return list
}

// sound checks that the limiter's lists are consistent.
func (w *world) sound(now units.Time) {
	l := w.l
	if err := l.agenda.Check(); err != nil {
		w.t.Fatal(err)
	}
	if l.armed != l.agenda.Next() {
		w.t.Fatalf("the timer is armed for %v, and the agenda begins at %v", l.armed, l.agenda.Next())
	}
	if len(l.flows) > l.Config.Flows {
		w.t.Fatalf("%d flows, more than %d", len(l.flows), l.Config.Flows)
	}
	var held [8]units.Bytes
	packets, bytes, waiting, flows := 0, units.Bytes(0), 0, 0
	for f := range l.order.All() {
		if flows++; f != l.shared && l.flows[f.key] != f {
			w.t.Fatalf("a flow of the order is not in the table: %+v", f.key)
		}
		n, sum := 0, units.Bytes(0)
		for p := f.queue.First(); p != nil; p = p.Next {
			n++
			sum += p.Size
			held[p.Prio] += p.Size
		}
		if n != f.count || sum != f.bytes {
			w.t.Fatalf("a flow has %d packets of %d bytes and says %d of %d", n, sum, f.count, f.bytes)
		}
		packets, bytes = packets+n, bytes+sum
		may := n > 0 && f.pace.Next(f.control.Rate(), l.traits.Burst) <= now
		if n > 0 {
			waiting++
			if f.prio != f.queue.First().Prio {
				w.t.Fatal("a flow is in another lane than its first packet")
			}
		}
		if f.inTurn.IsLinked() && n == 0 || may && !f.inTurn.IsLinked() {
			w.t.Fatalf("a flow with %d packets that may leave: %v, takes turns: %v", n, may, f.inTurn.IsLinked())
		}
		if n > 0 && !f.inTurn.IsLinked() && f.WantedTime() > f.pace.Next(f.control.Rate(), l.traits.Burst) {
			w.t.Fatal("a flow is woken too late")
		}
		if idle := n == 0 && f != l.shared; f.inIdle.IsLinked() != idle {
			w.t.Fatalf("a flow with %d packets is idle: %v", n, f.inIdle.IsLinked())
		}
		if n == 0 && f.WantedTime() != units.Never {
			w.t.Fatal("a flow that rests has something due")
		}
	}
	want := len(l.flows)
	if l.shared != nil {
		want++
	}
	if packets != l.packets || bytes != l.bytes || held != l.held || waiting != l.waiting || flows != want || bytes != w.waiting {
		w.t.Fatalf("%d packets of %d bytes in %d of %d flows, counted are %d of %d in %d of %d; %d wait", packets, bytes, waiting, flows, l.packets, l.bytes, l.waiting, want, w.waiting)
	}
	if w.free <= now {
		for prio, size := range w.fed {
			if size > 0 && w.blocked>>prio&1 == 0 {
				w.t.Fatal("the port is idle, and it is fed")
			}
		}
	}
}
