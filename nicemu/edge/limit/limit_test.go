package limit

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// steps is a rate control whose rate changes with time: its timer goes off every so often
// while the flow is active, and it checks what it is told.
type steps struct {
	cc.Deaf
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

func (s *steps) Rate() units.Rate  { return s.rates[int(s.next/s.every)%len(s.rates)] }
func (s *steps) Timer() units.Time { return s.next }

func (s *steps) Tick(now units.Time) {
	for s.next <= now {
		s.next += s.every
	}
}

func (s *steps) Sent(now units.Time, n units.Bytes) {
	s.input(now)
	if !s.active || n < wire.EthernetMin+wire.EthernetOverhead {
		s.t.Fatalf("%d bytes sent by a flow that is active: %v", n, s.active)
	}
	s.sent++
}

func (s *steps) Active(now units.Time, active bool) {
	s.input(now)
	if active == s.active {
		s.t.Fatalf("told twice that active is %v", active)
	}
	s.active = active
}

func (s *steps) Line(now units.Time, r units.Rate) {
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

// world is a host and its port: it has what a service is lent, and asks for packets as a
// port does.
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

func (w *world) Feed(now units.Time, prio uint8, size units.Bytes) {
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

func (w *world) Pass(_ units.Time, p *packet.Packet) {
	w.passed++
	w.pool.Free(p)
}

func (w *world) Drop(_ units.Time, p *packet.Packet, why packet.Fate) {
	if why != packet.QueueFull {
		w.t.Fatalf("dropped as %v", why)
	}
	w.dropped++
	w.pool.Free(p)
}

func (w *world) Deliver(units.Time, *packet.Packet) { w.t.Fatal("a packet is delivered") }

func (w *world) Consume(_ units.Time, p *packet.Packet) {
	w.consumed++
	w.pool.Free(p)
}
func (w *world) Waits(_ units.Time, p *packet.Packet)  { w.waiting += p.Size }
func (w *world) Leaves(_ units.Time, p *packet.Packet) { w.waiting -= p.Size }
func (w *world) Admit(units.Time, *packet.Packet)      {}
func (w *world) Address(*packet.Packet) bool           { return false }
func (w *world) Trip(packet.FlowKey, units.Bytes, units.Bytes) cc.Path {
	return cc.Path{RTT: 1}
}

// modelled makes a packet of a modelled flow.
func (w *world) modelled(flow int32, seq uint32, size units.Bytes, prio uint8) *packet.Packet {
	p := w.pool.New()
	p.Flow, p.Seq, p.Size, p.Prio, p.Version, p.Proto = flow, seq, size, prio, 4, wire.ProtoUDP
	p.SrcPort = uint16(flow)
	return p
}

// sound holds the limiter's lists to one another.
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
	for f := l.order.first; f != nil; f = f.inOrder.behind {
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
		if f.turns != f.inTurn.in || f.turns && n == 0 || may && !f.turns {
			w.t.Fatalf("a flow with %d packets that may leave: %v, takes turns: %v", n, may, f.turns)
		}
		if n > 0 && !f.turns && f.Want() > f.pace.Next(f.control.Rate(), l.traits.Burst) {
			w.t.Fatal("a flow is woken too late")
		}
		if idle := n == 0 && f != l.shared; f.inIdle.in != idle {
			w.t.Fatalf("a flow with %d packets is idle: %v", n, f.inIdle.in)
		}
		if n == 0 && f.Want() != units.Never {
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

// TestModel: whatever flows send, and whatever pauses the port: the packets of a flow leave
// in their order, each once or is counted as dropped; no flow leaves faster than its rate;
// none waits for another that may not leave; nothing is left to do at the end.
func TestModel(t *testing.T) { rapid.Check(t, model) }

func model(t *rapid.T) {
	const line = units.Gbps
	c := &Config{
		Flows: rapid.IntRange(1, 12).Draw(t, "table"), Age: units.Time(rapid.IntRange(1, 400).Draw(t, "age")) * units.Microsecond,
	}
	if rapid.Bool().Draw(t, "bounded") {
		c.Queue = 10 * units.KB
	}
	changing := rapid.Bool().Draw(t, "changing")
	burst := units.Bytes(rapid.SampledFrom([]int{0, 0, 5000}).Draw(t, "burst"))
	made := 0
	rates := []units.Rate{5 * units.Mbps, 50 * units.Mbps, 333_333_333, 0, 20 * units.Mbps}
	settings := &controls{traits: cc.Traits{Burst: burst}, make: func(f cc.Flow) cc.Control {
		made++
		s := &steps{t: t, rates: rates[made%len(rates):], every: 30 * units.Microsecond, next: units.Never}
		if changing {
			s.next = s.every
		} else {
			s.rates = s.rates[:1]
		}
		return s
	}}
	c.Control = cc.Choice{Name: "test", Settings: settings}
	w := newWorld(t, c, line, units.Bytes(rapid.IntRange(5, 100).Draw(t, "limit"))*units.KB)
	const flows = 16
	var seq, last [flows]uint32
	left := 0
	type span struct {
		from, to units.Time
		bytes    units.Bytes
		size     units.Bytes
	}
	spans := map[*flow]*span{}
	w.left = func(now units.Time, p *packet.Packet) {
		left++
		if p.Seq <= last[p.Flow] {
			t.Fatalf("packet %d of flow %d left behind %d", p.Seq, p.Flow, last[p.Flow])
		}
		last[p.Flow] = p.Seq
		f := w.l.flows[packet.FlowKey{Flow: p.Flow, Proto: wire.ProtoUDP, SrcPort: uint16(p.Flow)}]
		if f == nil || changing || burst > 0 || f.control.Rate() == 0 {
			return
		}
		// Of a flow with a rate all that left before this packet, the first of it at
		// the start, took its time by now.
		s := spans[f]
		if s == nil {
			spans[f] = &span{from: now, bytes: packet.OnWire(p.Size), size: packet.OnWire(p.Size)}
			return
		}
		if due := s.from + f.control.Rate().TimeOf(s.bytes-s.size); now < due {
			t.Fatalf("flow %d has left %d bytes by %v, before %v", p.Flow, s.bytes, now, due)
		}
		s.bytes += packet.OnWire(p.Size)
		s.size = max(s.size, packet.OnWire(p.Size))
	}
	now, sent := units.Time(0), 0
	for range rapid.IntRange(1, 300).Draw(t, "steps") {
		now += units.Time(rapid.IntRange(0, 40).Draw(t, "gap")) * units.Microsecond
		w.engine.Run(now, math.MaxInt)
		w.engine.Advance(now)
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			w.blocked ^= 1 << rapid.IntRange(0, 2).Draw(t, "class")
			w.start(now)
		case 1:
			w.l.Line(now, units.Rate(rapid.IntRange(0, 2).Draw(t, "line"))*line/2)
		case 2:
			values := w.l.Gauges(now, nil)
			if list := w.l.Flows(now); float64(len(list)) < values[0] {
				t.Fatalf("%d flows are shown, and %v known", len(list), values[0])
			}
		default:
			k := rapid.IntRange(0, flows-1).Draw(t, "flow")
			for range rapid.IntRange(1, 8).Draw(t, "packets") {
				seq[k]++
				sent++
				size := units.Bytes(rapid.IntRange(60, 1514).Draw(t, "size"))
				w.l.Send(now, w.modelled(int32(k), seq[k], size, uint8(rapid.IntRange(0, 2).Draw(t, "prio"))))
			}
		}
		w.sound(now)
	}
	w.blocked = 0
	w.start(now)
	if w.engine.Run(units.Never-1, 1e6) == 1e6 {
		t.Fatal("there is no end")
	}
	w.sound(units.Never - 1)
	if n, _ := w.l.Held(); n != 0 || left+w.dropped != sent || w.pool.Live() != 0 {
		t.Fatalf("of %d packets %d left, %d are dropped, %d held", sent, left, w.dropped, n)
	}
}

// TestASlowFlowLeavesRoom: a flow that is slow fills its part of the host's queue, and
// others lose nothing and leave at once.
func TestASlowFlowLeavesRoom(t *testing.T) {
	made := 0
	c := &Config{Flows: 10, Age: units.Second, Control: cc.Choice{Settings: &controls{make: func(cc.Flow) cc.Control {
		made++
		if made == 1 {
			return &fixed{rate: units.Mbps}
		}
		return &fixed{}
	}}}}
	w := newWorld(t, c, units.Gbps, 100*units.KB)
	var waited units.Time
	sent := map[uint32]units.Time{}
	w.left = func(now units.Time, p *packet.Packet) {
		if p.Flow == 2 {
			waited = max(waited, now-sent[p.Seq])
		}
	}
	for i := range uint32(1000) {
		now := units.Time(i) * 20 * units.Microsecond
		w.engine.Run(now, math.MaxInt)
		w.engine.Advance(now)
		w.l.Send(now, w.modelled(1, i+1, 1000, 0))
		sent[i+1] = now
		w.l.Send(now, w.modelled(2, i+1, 1000, 0))
		w.sound(now)
	}
	list := w.l.Flows(w.engine.Now())
	if list[0].Dropped < 900 || list[0].Bytes < 45*units.KB || list[1].Dropped != 0 || waited > 10*units.Microsecond {
		t.Errorf("%+v; the quick one waited up to %v", list, waited)
	}
}

// TestFlowsAreForgotten: after their age, and when others need the place; one that comes
// again is new. Flows beyond the table share a queue, in order.
func TestFlowsAreForgotten(t *testing.T) {
	made := 0
	c := &Config{Flows: 2, Age: units.Millisecond, Control: cc.Choice{Settings: &controls{make: func(cc.Flow) cc.Control {
		made++
		return &fixed{rate: 10 * units.Mbps}
	}}}}
	w := newWorld(t, c, units.Gbps, 0)
	var order []string
	w.left = func(_ units.Time, p *packet.Packet) { order = append(order, fmt.Sprint(p.Flow, ".", p.Seq)) }
	send := func(at units.Time, flow int32, seq uint32) {
		w.engine.Run(at, math.MaxInt)
		w.engine.Advance(at)
		w.l.Send(at, w.modelled(flow, seq, 1000, 0))
		w.sound(at)
	}
	send(0, 1, 1)
	send(500*units.Microsecond, 1, 2) // it is known
	if made != 1 {
		t.Errorf("%d controls", made)
	}
	send(5*units.Millisecond, 1, 3) // too late: it is as new
	if made != 2 || w.l.forgotten != 1 {
		t.Errorf("%d controls, %d forgotten", made, w.l.forgotten)
	}
	at := 10 * units.Millisecond
	for _, s := range [][2]int{{1, 4}, {1, 5}, {2, 1}, {2, 2}, {3, 1}, {4, 1}, {3, 2}} {
		send(at, int32(s[0]), uint32(s[1]))
	}
	if w.l.crowded != 3 || made != 5 {
		t.Errorf("%d packets share, %d controls", w.l.crowded, made)
	}
	at += 900 * units.Microsecond // the second packets of 1 and 2 have left, the shared queue has two
	send(at, 4, 2)
	if w.l.crowded != 4 {
		t.Errorf("a packet passes by one of its flow in the shared queue")
	}
	w.engine.Run(units.Never-1, math.MaxInt)
	want := "1.1 1.2 1.3 1.4 2.1 3.1 1.5 2.2 4.1 3.2 4.2"
	got := ""
	for i, o := range order {
		if i > 0 {
			got += " "
		}
		got += o
	}
	if got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

// TestWhatPasses: what must not wait does not.
func TestWhatPasses(t *testing.T) {
	w := newWorld(t, &Config{Flows: 10, Age: units.Second, Rate: units.Kbps}, units.Gbps, 0)
	frame := func(ether uint16, proto, kind uint8) *packet.Packet {
		p := w.pool.NewFrame(100)
		clear(p.Frame)
		p.Frame[0], p.Frame[6] = 2, 2
		p.Frame[12], p.Frame[13] = byte(ether>>8), byte(ether)
		switch ether {
		case wire.EtherTypeIPv4:
			p.Frame[14], p.Frame[17], p.Frame[23] = 0x45, 86, proto
		case wire.EtherTypeIPv6:
			p.Frame[14], p.Frame[19], p.Frame[20], p.Frame[54] = 0x60, 46, proto, kind
		}
		if !p.Parse() {
			t.Fatal("no frame")
		}
		return p
	}
	for _, c := range []struct {
		what string
		p    *packet.Packet
		pass bool
	}{
		{"ARP", frame(0x0806, 0, 0), true},
		{"neighbour solicitation", frame(wire.EtherTypeIPv6, wire.ProtoICMPv6, 135), true},
		{"neighbour advertisement", frame(wire.EtherTypeIPv6, wire.ProtoICMPv6, 136), true},
		{"echo request", frame(wire.EtherTypeIPv6, wire.ProtoICMPv6, 128), false},
		{"ping", frame(wire.EtherTypeIPv4, wire.ProtoICMP, 0), false},
		{"TCP", frame(wire.EtherTypeIPv6, wire.ProtoTCP, 0), false},
	} {
		before := w.passed
		w.l.Send(0, c.p)
		if (w.passed > before) != c.pass {
			t.Errorf("%s passes: %v", c.what, !c.pass)
		}
	}
	p := frame(wire.EtherTypeIPv4, wire.ProtoUDP, 0)
	p.Dest = packet.Flood
	if w.l.Send(0, p); w.passed != 4 {
		t.Error("multicast waits")
	}
}

// BenchmarkThousandFlows: a packet through a limiter with a thousand flows, each of which
// always has some that wait for their time.
func BenchmarkThousandFlows(b *testing.B) {
	const flows = 1000
	c := &Config{Flows: 65536, Age: units.Second, Rate: 9 * units.Mbps}
	w := newWorld(b, c, 10*units.Gbps, 0)
	frames := make([]packet.Packet, flows)
	a, z := netip.MustParseAddr("10.0.0.1").As4(), netip.MustParseAddr("10.0.0.2").As4()
	for i := range frames {
		f := make([]byte, 1514)
		f[12], f[13], f[14], f[16], f[17], f[23] = 8, 0, 0x45, 1500>>8, 1500&255, wire.ProtoTCP
		copy(f[26:], a[:])
		copy(f[30:], z[:])
		f[34], f[35], f[36] = byte(i>>8), byte(i), 20
		frames[i].Frame = f
		frames[i].Parse()
	}
	next := 0
	w.left = func(units.Time, *packet.Packet) { next++ }
	send := func(now units.Time, i int) {
		p := w.pool.NewFrame(1514)
		f := p.Frame
		copy(f[:64], frames[i].Frame)
		*p = frames[i]
		p.Frame = f
		w.l.Send(now, p)
	}
	for i := range 2 * flows {
		send(0, i%flows)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		// A packet leaves at its time, and its flow gets another.
		for before := next; next == before; {
			w.engine.Run(w.engine.Next(), 1)
		}
		send(w.engine.Now(), i%flows)
	}
	b.StopTimer()
	b.ReportMetric(float64(w.l.packets), "waiting")
}
