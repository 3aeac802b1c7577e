package switches_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/trim"
	"github.com/weftlab/weft/wire"
)

// lossless returns a class that is paused at xoff bytes.
func lossless(prio uint8, xoff units.Bytes) class.Class {
	return class.Class{Name: fmt.Sprint("lossless", prio), Priority: prio, PFC: &pfc.Config{Xoff: xoff, Offset: xoff / 2, Quanta: pfc.DefaultQuanta}}
}

// log records MAC control frames and, with packets, other packets too.
type log struct {
	lines   []string
	packets bool
}

func (l *log) Observe(now units.Time, at *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	arrow := "<-"
	if dir == port.Out {
		arrow = "->"
	}
	if f, ok := wire.ParsePause(p.Frame); ok {
		kind := fmt.Sprintf("PFC %08b %v", f.Classes, f.Quanta)
		if f.Global {
			kind = fmt.Sprintf("PAUSE %d", f.Quanta[0])
		}
		l.lines = append(l.lines, fmt.Sprintf("%v %s %s %s", now, at.Name, arrow, kind))
	} else if l.packets {
		l.lines = append(l.lines, fmt.Sprintf("%v %s %s %d class %d %s", now, at.Name, arrow, p.ID, p.TOS>>2, fate))
	}
}

// incast is a switch with n senders and a receiver behind a slow link: frames
// of 1476 bytes take 1.2 us on the way in at 10 Gb/s and 12 us on the way out.
type incast struct {
	network
	sw   *switches.Switch
	from []*host
	to   *host
	out  *port.Port
}

func newIncast(n int, config buffer.Config, headroom units.Bytes, list ...class.Class) *incast {
	c := &incast{}
	c.global = config.Pause != nil
	c.sw = switches.New("s1", 1, &c.pool)
	table := switches.Table{Groups: [][]uint16{nil}}
	var ends []*port.Port
	for i := range n + 1 {
		name := fmt.Sprint("h", i+1)
		h := c.host(name + ":eth0")
		if i < n {
			c.from = append(c.from, h)
		} else {
			c.to = h
		}
		ends = append(ends, c.addPort(c.sw, "s1:"+name, plenty))
		table.Groups = append(table.Groups, []uint16{uint16(i)})
		table.Route = append(table.Route, uint16(i+1))
		table.Tree = append(table.Tree, true)
	}
	c.out = ends[n]
	for i, h := range c.hosts {
		rate := 10 * units.Gbps
		if i == n {
			rate = units.Gbps
		}
		c.join(h.port, ends[i], rate, units.Microsecond)
	}
	c.chassis(c.sw, config, headroom, list...)
	for _, h := range c.hosts {
		c.hostClasses(h, list...)
	}
	c.sw.SetTable(table)
	return c
}

// class returns one class of a port as of now.
func (c *incast) class(p *port.Port, prio uint8) port.ClassCounters {
	for _, k := range p.Classes(c.engine.Now()) {
		if k.Priority == prio {
			return k
		}
	}
	panic("no such class")
}

// TestPauseTranscript: xoff, its expiry at a sender that hears nothing more,
// refreshes, xon.
func TestPauseTranscript(t *testing.T) {
	k := lossless(3, 4000)
	k.PFC.Quanta = 1000 // 51.2 us at 10 Gb/s, refreshed after half of that
	c := newIncast(1, buffer.Config{}, 20_000, k, class.Class{Name: "default", Priority: 0})
	seen := &log{}
	c.from[0].port.SetObserver(0, seen)
	for range 8 {
		c.from[0].send(c.packet(0, 1, bigFrame), 3)
	}
	c.finish()
	// The first packet leaves at once. The third waiting packet, which arrives at 1
	// + 4 x 1.2 us, begins the pause; the frame of 67.2 ns arrives 1 us later,
	// while the fifth is being sent. A pause ends when no more than 2000 bytes
	// wait: one packet. The last two then fill the queue again.
	want := []string{
		"6867.2ns h1:eth0 <- PFC 00001000 [0 0 0 1000 0 0 0 0]",
		"32467.2ns h1:eth0 <- PFC 00001000 [0 0 0 1000 0 0 0 0]",
		"51267.2ns h1:eth0 <- PFC 00001000 [0 0 0 0 0 0 0 0]",
		"55734.4ns h1:eth0 <- PFC 00001000 [0 0 0 1000 0 0 0 0]",
		"75267.2ns h1:eth0 <- PFC 00001000 [0 0 0 0 0 0 0 0]",
	}
	if diff := cmp.Diff(want, seen.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.to.got) != 8 || c.pool.LivePackets() != 0 {
		t.Errorf("%d packets arrived, %d are live", len(c.to.got), c.pool.LivePackets())
	}
	lasted := units.Time(51_267_200 - 6_867_200 + 75_267_200 - 55_734_400)
	if got := c.class(c.from[0].port, 3).Got; got.Pauses != 2 || got.PauseFrames != 3 || got.ResumeFrames != 2 || got.Time != lasted {
		t.Errorf("the sender was paused %+v", got)
	}
	sent := c.class(c.sw.Ports[0], 3).Sent
	if sent.Pauses != 2 || sent.PauseFrames != 3 || sent.ResumeFrames != 2 || sent.Time != lasted || len(sent.Causes) != 2 || sent.Causes[1] != sent.Time {
		t.Errorf("the switch paused it %+v", sent)
	}
}

// TestPauseExpires: without a refresh a pause ends by itself.
func TestPauseExpires(t *testing.T) {
	c := newIncast(1, buffer.Config{}, 0, lossless(3, 1<<20))
	h := c.from[0]
	frame := wire.Pause{Classes: 1 << 3, Quanta: [8]uint16{3: 100}} // 5.12 us at 10 Gb/s
	p := c.pool.NewFrame(wire.PauseFrame)
	frame.PutFrame(p.Frame, 1)
	p.Parse()
	p.Dest = packet.MACControl
	h.port.ReceivePacket(0, p)
	h.send(c.packet(0, 1, bigFrame), 3)
	c.finish()
	if want := []came{{units.Time(5_120_000+1_200_000+1_000_000) + bigTime + 1_000_000, 0}}; !cmp.Equal(want, c.to.got) {
		t.Errorf("got %v, want %v", c.to.got, want)
	}
}

// TestPauseStopsOneClass: while one class is paused the others continue.
func TestPauseStopsOneClass(t *testing.T) {
	c := newIncast(1, buffer.Config{}, 40_000, lossless(3, 3000), class.Class{Name: "default", Priority: 0})
	for range 10 {
		c.from[0].send(c.packet(0, 1, bigFrame), 3)
	}
	for range 3 {
		c.from[0].send(c.packet(0, 1, bigFrame), 0)
	}
	c.until(15 * units.Microsecond)
	if k := c.class(c.from[0].port, 3); !k.Got.Paused || k.QueuePackets == 0 {
		t.Errorf("the lossless class is not paused: %+v", k)
	}
	if k := c.class(c.from[0].port, 0); k.Got.Paused || k.TxPackets != 3 {
		t.Errorf("the other class has sent %d of 3 packets", k.TxPackets)
	}
	c.finish()
	if len(c.to.got) != 13 {
		t.Errorf("%d of 13 packets arrived", len(c.to.got))
	}
}

// TestPFC_PausesBeforeTheDropWithHeadroomBelowAFrame: where the headroom takes no packet, the
// first that finds no room begins the pause. So few are lost, and the sender keeps its rate.
func TestPFC_PausesBeforeTheDropWithHeadroomBelowAFrame(t *testing.T) {
	k := lossless(3, 4*bigFrame-100) // no number of frames reaches it exactly
	c := newIncast(1, buffer.Config{}, 1, k)
	const packets = 300
	for range packets {
		c.from[0].send(c.packet(0, 1, bigFrame), 3)
	}
	c.finish()
	in := c.class(c.sw.Ports[0], 3)
	lost := c.out.Counters(c.engine.Now()).Drops[packet.HeadroomFull]
	if in.Sent.Pauses == 0 || in.Ingress.Refused != lost || lost == 0 {
		t.Errorf("%d pauses, %d found no room, %d lost", in.Sent.Pauses, in.Ingress.Refused, lost)
	}
	// Each pause lasts until two frames have left, and then the sender finds room for two; until
	// it takes effect, 2 us at 1.2 us a frame arrive. Without pauses nine of ten are lost.
	if len(c.to.got) != packets-int(lost) || lost > packets*2/3 || c.class(c.sw.Ports[0], 3).Sent.Asking || c.pool.LivePackets() != 0 {
		t.Errorf("%d of %d packets arrived, %d were lost", len(c.to.got), packets, lost)
	}
}

// pauseFrame returns a frame that asks for a long pause of some classes, or of all by PAUSE.
func (n *network) pauseFrame(classes uint8, global bool) *packet.Packet {
	frame := wire.Pause{Global: global, Classes: classes}
	for i := range frame.Quanta {
		frame.Quanta[i] = pfc.DefaultQuanta
	}
	p := n.pool.NewFrame(wire.PauseFrame)
	frame.PutFrame(p.Frame, 1)
	p.Parse()
	p.Dest = packet.MACControl
	return p
}

// TestPause_StopsOnlyWhatThePortObeys: a peer that asks for pauses of every class by PFC, or of
// the whole port by PAUSE, stops the classes for which the port has that, at switches and hosts.
func TestPause_StopsOnlyWhatThePortObeys(t *testing.T) {
	lossy := class.Class{Name: "default", Priority: 0}
	for _, x := range []struct {
		name    string
		pause   *pfc.Config
		classes []class.Class
		global  bool // what the peer sends
		stopped uint8
	}{
		{"PFC for all classes where one has it", nil, []class.Class{lossy, lossless(3, 1<<20)}, false, 1 << 3},
		{"PFC where no class has it", nil, []class.Class{lossy, {Name: "other", Priority: 3}}, false, 0},
		{"PAUSE at ports with PFC", nil, []class.Class{lossy, lossless(3, 1<<20)}, true, 0},
		{"PAUSE where none has flow control", nil, []class.Class{lossy, {Name: "other", Priority: 3}}, true, 0},
		{"PAUSE at ports with PAUSE", &pfc.Config{Xoff: 1 << 20, Quanta: 100}, []class.Class{lossy, {Name: "other", Priority: 3}}, true, 1 | 1<<3},
		{"PFC at ports with PAUSE", &pfc.Config{Xoff: 1 << 20, Quanta: 100}, []class.Class{lossy, {Name: "other", Priority: 3}}, false, 0},
	} {
		for _, at := range []string{"switch", "host"} {
			c := newIncast(1, buffer.Config{Pause: x.pause}, 0, x.classes...)
			p := map[string]*port.Port{"switch": c.out, "host": c.from[0].port}[at]
			p.ReceivePacket(0, c.pauseFrame(0xff, x.global))
			for _, k := range x.classes {
				for range 2 {
					c.from[0].send(c.packet(0, 1, bigFrame), k.Priority)
				}
			}
			c.until(100 * units.Microsecond)
			ignored := x.stopped != 1|1<<3 && !(x.global && x.pause != nil)
			if n := p.Counters(c.engine.Now()).PausesIgnored; n != map[bool]uint64{true: 1}[ignored] {
				t.Errorf("%s at a %s: %d frames ignored", x.name, at, n)
			}
			for _, k := range p.Classes(c.engine.Now()) {
				stops := x.stopped>>k.Priority&1 != 0
				if k.Got.Paused != stops || (k.QueuePackets > 0) != stops || (k.TxPackets == 2) == stops || k.Got.Ignored > 0 == stops {
					t.Errorf("%s at a %s: class %d has sent %d packets: %+v", x.name, at, k.Priority, k.TxPackets, k.Got)
				}
			}
		}
	}
}

// TestGlobalPause: a PAUSE frame stops all classes.
func TestGlobalPause(t *testing.T) {
	c := newIncast(2, buffer.Config{Pause: &pfc.Config{Xoff: 6000, Offset: 3000, Quanta: pfc.DefaultQuanta}}, 40_000,
		class.Class{Name: "a", Priority: 0, Weight: 1}, class.Class{Name: "b", Priority: 5, Weight: 1})
	seen := &log{}
	c.from[0].port.SetObserver(0, seen)
	for range 30 {
		c.from[0].send(c.packet(0, 2, bigFrame), 0)
		c.from[0].send(c.packet(0, 2, bigFrame), 5)
	}
	c.until(40 * units.Microsecond)
	for _, k := range c.from[0].port.Classes(c.engine.Now()) {
		if !k.Got.Paused {
			t.Errorf("class %s is not paused", k.Name)
		}
	}
	c.finish()
	if len(seen.lines) < 2 || seen.lines[0] != "9267.2ns h1:eth0 <- PAUSE 65535" {
		t.Errorf("the sender heard %q", seen.lines)
	}
	if len(c.to.got) != 60 || c.pool.LivePackets() != 0 {
		t.Errorf("%d of 60 packets arrived, %d are live", len(c.to.got), c.pool.LivePackets())
	}
}

// TestStrictPriorityWaitsForOnePacket: a packet of the highest class waits for
// no more than the packet that is being sent.
func TestStrictPriorityWaitsForOnePacket(t *testing.T) {
	c := newIncast(2, buffer.Config{}, 0, class.Class{Name: "bulk", Priority: 0}, class.Class{Name: "urgent", Priority: 7})
	for range 200 {
		c.from[0].send(c.packet(0, 2, bigFrame), 0)
	}
	idle := units.Time(67_200+67_200*10) + 2*units.Microsecond // 60 bytes over both links
	for i := range 20 {
		c.until(units.Time(100+37*i) * units.Microsecond)
		p := c.packet(1, 2, 60)
		p.ID = uint64(1000 + i)
		p.Created = c.engine.Now()
		c.from[1].send(p, 7)
	}
	c.to.keep = func(p *packet.Packet) {
		if p.ID < 1000 {
			return
		}
		if took := c.engine.Now() - p.Created; took < idle || took > idle+bigTime {
			t.Errorf("packet %d took %v, idle %v", p.ID, took, idle)
		}
	}
	c.finish()
	if len(c.to.got) != 220 {
		t.Errorf("%d of 220 packets arrived", len(c.to.got))
	}
}

// TestClassWeights: continuously backlogged classes share by weight, below a strict
// one.
func TestClassWeights(t *testing.T) {
	c := newIncast(4, buffer.Config{}, 0, class.Class{Name: "one", Priority: 1, Weight: 1}, class.Class{Name: "two", Priority: 2, Weight: 2},
		class.Class{Name: "four", Priority: 3, Weight: 4}, class.Class{Name: "strict", Priority: 4})
	sizes := []units.Bytes{1476, 300, 900, 1000}
	for i, h := range c.from[:3] {
		for range 6_000_000 / sizes[i] {
			h.send(c.packet(packet.Endpoint(i), 4, sizes[i]), uint8(i+1))
		}
	}
	for range 1000 {
		c.from[3].send(c.packet(3, 4, sizes[3]), 4)
	}
	c.until(60 * units.Millisecond)
	k := c.out.Classes(c.engine.Now())
	if k[3].TxPackets != 1000 {
		t.Errorf("the strict class has sent %d of 1000 packets", k[3].TxPackets)
	}
	on := func(i int) float64 { return float64(k[i].TxBytes + k[i].TxPackets*wire.EthernetOverhead) }
	total := on(0) + on(1) + on(2)
	for i, want := range []float64{1. / 7, 2. / 7, 4. / 7} {
		if got := on(i) / total; got < want*0.98 || got > want*1.02 {
			t.Errorf("class %s has %.4f of the link, want %.4f", k[i].Name, got, want)
		}
	}
}

// TestAClassThatWasAloneIsNotPunished: a class that has had the link to itself
// shares it from the moment that another class sends.
func TestAClassThatWasAloneIsNotPunished(t *testing.T) {
	c := newIncast(2, buffer.Config{}, 0, class.Class{Name: "a", Priority: 1, Weight: 1}, class.Class{Name: "b", Priority: 2, Weight: 1})
	for range 4000 {
		c.from[0].send(c.packet(0, 2, bigFrame), 1)
	}
	c.until(20 * units.Millisecond)
	alone := c.class(c.out, 1).TxPackets
	if alone < 1600 {
		t.Fatalf("alone it has sent %d packets in 20 ms of 12 us each", alone)
	}
	for range 1000 {
		c.from[1].send(c.packet(1, 2, bigFrame), 2)
	}
	c.until(26 * units.Millisecond)
	a, b := c.class(c.out, 1).TxPackets-alone, c.class(c.out, 2).TxPackets
	if a+b < 490 || a > b+10 || b > a+10 {
		t.Errorf("in the next 6 ms they have sent %d and %d", a, b)
	}
}

// sentPacket is what a generator of random traffic records about a packet.
type sentPacket struct {
	id   uint64
	prio uint8
	size units.Bytes
}

// TestLosslessLosesNothing: with the headroom that its links require, a lossless
// class loses nothing, whatever the traffic, and packets of a host and class arrive
// in order. Every packet is accounted for.
func TestLosslessLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "senders")
		xoff := units.Bytes(rapid.SampledFrom([]int{1500, 10_000, 40_000}).Draw(t, "xoff"))
		// Bytes sent in two propagation delays, while each side finishes a packet,
		// and while a PFC frame waits for one.
		headroom := units.Bytes(2*1250 + 3*(1476+24) + 100)
		guarded := lossless(3, xoff)
		if rapid.Bool().Draw(t, "dynamic") {
			guarded.PFC.Xoff, guarded.PFC.Alpha = 0, rapid.SampledFrom([]float64{1. / 16, 0.5, 2}).Draw(t, "alpha")
		}
		guarded.PFC.Quanta = uint16(rapid.SampledFrom([]int{200, 3000, 65535}).Draw(t, "quanta"))
		config := buffer.Config{Size: units.Bytes(n+1)*headroom + units.Bytes(rapid.IntRange(2000, 80_000).Draw(t, "shared"))}
		c := newIncast(n, config, headroom, guarded, class.Class{Name: "default", Priority: 0, Alpha: 0.5, Weight: 1})
		sent := make([][]sentPacket, n)
		var now units.Time
		for range rapid.IntRange(1, 60).Draw(t, "bursts") {
			now += units.Time(rapid.SampledFrom([]int64{0, 500_000, 12_000_000, 90_000_000}).Draw(t, "gap"))
			c.until(now)
			h := rapid.IntRange(0, n-1).Draw(t, "sender")
			prio := uint8(rapid.SampledFrom([]int{0, 3, 3}).Draw(t, "class"))
			for range rapid.IntRange(1, 40).Draw(t, "packets") {
				p := c.packet(packet.Endpoint(h), packet.Endpoint(n), units.Bytes(rapid.SampledFrom([]int{60, 700, bigFrame}).Draw(t, "size")))
				sent[h] = append(sent[h], sentPacket{p.ID, prio, p.Size})
				c.from[h].send(p, prio)
			}
		}
		c.finish()
		if c.pool.LivePackets() != 0 {
			t.Fatalf("%d packets are live at the end", c.pool.LivePackets())
		}
		place := map[uint64]int{}
		for i, g := range c.to.got {
			place[g.ID] = i + 1
		}
		for h, list := range sent {
			last := map[uint8]int{}
			for _, s := range list {
				at := place[s.id]
				if at == 0 {
					if s.prio == 3 {
						t.Fatalf("packet %d of h%d is lost in the lossless class; %+v", s.id, h+1, c.out.Counters(c.engine.Now()).Drops)
					}
					continue
				}
				if at < last[s.prio] {
					t.Fatalf("packet %d of h%d, class %d, was overtaken", s.id, h+1, s.prio)
				}
				last[s.prio] = at
			}
		}
	})
}

// TestWatchdog: the watchdog triggers for a class that is paused too long, and
// releases it when the peer is quiet.
func TestWatchdog(t *testing.T) {
	for _, action := range []pfc.Action{pfc.Drop, pfc.Forward} {
		k := lossless(3, 1<<20)
		k.PFC.Watchdog = pfc.Watchdog{Detect: 100 * units.Microsecond, Restore: 50 * units.Microsecond, Action: action}
		c := newIncast(1, buffer.Config{}, 0, k, class.Class{Name: "default", Priority: 0})
		// The receiver asks for a pause for 300 us, every 20 us.
		storm := wire.Pause{Classes: 1 << 3, Quanta: [8]uint16{3: 100}} // 51 us at 1 Gb/s
		for i := range 15 {
			c.until(units.Time(20*i) * units.Microsecond)
			p := c.pool.NewFrame(wire.PauseFrame)
			storm.PutFrame(p.Frame, 1)
			p.Parse()
			p.Dest = packet.MACControl
			c.out.ReceivePacket(c.engine.Now(), p)
			// The first packet arrives at 3 us and waits, so the watchdog triggers
			// at 103 us.
			c.from[0].send(c.packet(0, 1, bigFrame), 3)
		}
		c.until(400 * units.Microsecond)
		for range 2 {
			c.from[0].send(c.packet(0, 1, bigFrame), 3)
		}
		c.finish()
		got := c.class(c.out, 3)
		drops := c.out.Counters(c.engine.Now()).Drops[packet.Watchdog]
		wantDrops, wantArrived := uint64(15), 2
		if action == pfc.Forward {
			wantDrops, wantArrived = 0, 17
		}
		if got.Got.Storms != 1 || drops != wantDrops || len(c.to.got) != wantArrived || c.pool.LivePackets() != 0 {
			t.Errorf("%v: %d storms, %d dropped, %d arrived, %d live", action, got.Got.Storms, drops, len(c.to.got), c.pool.LivePackets())
		}
	}
}

// TestTrimming: packets that do not fit are cut to their headers; every packet is
// accounted for once, and no trimmed packet that arrives is longer than configured.
func TestTrimming(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := trim.Config{Keep: 22, DSCP: 6}
		config.Tail = units.Fraction(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "tail"))
		config.Return = rapid.Bool().Draw(t, "return")
		limit := units.Bytes(rapid.SampledFrom([]int{1500, 12_000}).Draw(t, "limit"))
		headers := units.Bytes(rapid.SampledFrom([]int{60, 200, 4000}).Draw(t, "header queue"))
		n := rapid.IntRange(1, 4).Draw(t, "senders")
		data := class.Class{Name: "data", Priority: 0, Limit: limit, Trim: &config}
		c := newIncast(n, buffer.Config{}, 0, data, class.Class{Name: "headers", Priority: 6, Limit: headers})
		for _, h := range c.from { // hosts have no limits
			c.hostClasses(h, class.Class{Name: "data", Priority: 0}, class.Class{Name: "headers", Priority: 6})
		}
		trimmed, whole, returned := 0, 0, 0
		c.to.keep = func(p *packet.Packet) {
			if !p.Trimmed {
				whole++
				return
			}
			trimmed++
			if p.Size != 14+20+22 || p.Whole != bigFrame || p.TOS>>2 != 6 || p.Returned {
				t.Fatalf("trimmed to %d of %d, ToS %d, returned %v", p.Size, p.Whole, p.TOS, p.Returned)
			}
		}
		for _, h := range c.from {
			h.keep = func(p *packet.Packet) {
				returned++
				if !p.Returned || p.Size != 14+20+22 || p.Dest != h.id {
					t.Fatalf("%d bytes came back to %d: returned %v, for %d", p.Size, h.id, p.Returned, p.Dest)
				}
			}
		}
		sent := 0
		for range rapid.IntRange(1, 60).Draw(t, "packets") {
			h := rapid.IntRange(0, n-1).Draw(t, "sender")
			p := c.packet(packet.Endpoint(h), packet.Endpoint(n), bigFrame)
			p.L3, p.Kind = 14, packet.Modelled
			c.from[h].send(p, 0)
			sent++
		}
		c.finish()
		drops := 0
		for _, p := range c.sw.Ports {
			k := p.Counters(c.engine.Now())
			drops += int(k.DroppedPackets())
			if k.Drops[packet.QueueFull] > 0 {
				t.Fatalf("%s dropped what it might have trimmed", p.Name)
			}
		}
		k := c.out.Counters(c.engine.Now())
		if whole+trimmed+returned+drops != sent || int(k.Trimmed) != trimmed+returned+drops || c.pool.LivePackets() != 0 {
			t.Fatalf("%d sent: %d whole, %d trimmed, %d returned, %d dropped; the port trimmed %d, %d live", sent, whole, trimmed, returned, drops, k.Trimmed, c.pool.LivePackets())
		}
		if config.Return && k.Returned == 0 && k.DroppedPackets() > 0 {
			t.Fatalf("headers were dropped and not returned")
		}
	})
}

// cutThrough makes packets that a port sends arrive with their heads.
func cutThrough(p *port.Port, head units.Bytes) {
	p.Link().CutThrough(head)
	p.SetLink(0, p.Link().Settings())
}

// TestCutThrough: a switch forwards a packet when its head has arrived, but not
// faster than the rest follows.
func TestCutThrough(t *testing.T) {
	const head = 72
	us := units.Microsecond
	for _, c := range []struct {
		name    string
		out     units.Rate
		through bool
		want    units.Time // of one frame of 1476 bytes
	}{
		// 1.2 us to receive it whole, 1.2 us to send it.
		{"store and forward", 10 * units.Gbps, false, 2*us + 2_400_000},
		// 57.6 ns for the head, and 1.2 us to send it.
		{"same rate", 10 * units.Gbps, true, 2*us + 57_600 + 1_200_000},
		// Slower: the head, then 12 us.
		{"slower link out", units.Gbps, true, 2*us + 57_600 + 12_000_000},
		// Faster: it must not end before it has arrived.
		{"faster link out", 40 * units.Gbps, true, 2*us + 1_200_000},
	} {
		n := &network{}
		sw := switches.New("s1", 1, &n.pool)
		a, b := n.host("a:eth0"), n.host("b:eth0")
		n.join(a.port, n.addPort(sw, "s1:1", plenty), 10*units.Gbps, us)
		n.join(b.port, n.addPort(sw, "s1:2", plenty), c.out, us)
		chassis := n.classes(sw, 0, 0, class.Class{})
		chassis.CutThrough = c.through
		if c.through {
			cutThrough(a.port, head)
		}
		sw.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}}, Route: []uint16{1, 2}, Tree: []bool{true, true}})
		a.send(n.packet(a.id, b.id, bigFrame), 0)
		n.finish()
		if want := []came{{c.want, 0}}; !cmp.Equal(b.got, want) {
			t.Errorf("%s: %v, want %v", c.name, b.got, want)
		}
		// A burst stays in order and keeps the slower of the two rates.
		start := n.engine.Now()
		for range 20 {
			a.send(n.packet(a.id, b.id, bigFrame), 0)
		}
		b.got = nil
		n.finish()
		slower := min(10*units.Gbps, c.out).TimeOf(packet.OnWire(bigFrame))
		if got := b.got[len(b.got)-1].At; len(b.got) != 20 || got != start+c.want+19*slower {
			t.Errorf("%s: the last of %d came at %v, want %v", c.name, len(b.got), got, start+c.want+19*slower)
		}
		if n.pool.LivePackets() != 0 {
			t.Errorf("%s: %d live", c.name, n.pool.LivePackets())
		}
	}
}

// TestCutThroughPassesDamage: a damaged packet is forwarded, and dropped where it
// is received completely.
func TestCutThroughPassesDamage(t *testing.T) {
	c := newIncast(1, buffer.Config{}, 0, class.Class{})
	c.sw.Chassis().CutThrough = true
	cutThrough(c.from[0].port, 72)
	p := c.packet(0, 1, bigFrame)
	p.BadFCS = true
	c.from[0].send(p, 0)
	c.finish()
	at := func(p *port.Port) uint64 { return p.Counters(c.engine.Now()).Drops[packet.BadFCS] }
	if at(c.sw.Ports[0]) != 0 || at(c.to.port) != 1 || len(c.to.got) != 0 {
		t.Errorf("dropped at the switch %d, at the host %d", at(c.sw.Ports[0]), at(c.to.port))
	}
}

// TestFairQueue: two flows of one class share it equally, though one sends four
// times as much: the flow that sends too much bears the drops. Without fair
// queueing the shares are random.
func TestFairQueue(t *testing.T) {
	for _, fair := range []bool{true, false} {
		c := newIncast(2, buffer.Config{}, 0, class.Class{Fair: fair, Limit: 60 * units.KB})
		for _, h := range c.from {
			c.hostClasses(h, class.Class{})
		}
		got := [2]int{}
		c.to.keep = func(p *packet.Packet) { got[p.Origin]++ }
		for i := range 2000 {
			c.until(units.Time(i) * 20 * units.Microsecond) // the link takes 12 us for a packet
			for j := range 5 {
				h := packet.Endpoint(min(j, 1))
				p := c.packet(h, 2, bigFrame)
				p.Hash = sim.MixBits(uint64(h))
				c.from[h].send(p, 0)
			}
		}
		c.until(c.engine.Now())
		share := float64(got[0]) / float64(got[0]+got[1])
		if equal := share > 0.49 && share < 0.51; fair != equal {
			t.Errorf("fair %v: the modest flow has %.3f of the link, %v packets", fair, share, got)
		}
	}
}

// TestClassify: IP packets are classified by their DSCP, others by the priority of
// their outermost tag, the rest by neither.
func TestClassify(t *testing.T) {
	var c port.Chassis
	for i := range c.Map.DSCP {
		c.Map.DSCP[i] = uint8(i / 8)
	}
	for i := range c.Map.PCP {
		c.Map.PCP[i] = uint8(7 - i)
	}
	c.Map.Untagged = 4
	ip := []byte{0x45, 46 << 2, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	macs := make([]byte, 12)
	tag := func(kind byte, pcp byte) []byte {
		return []byte{kind, map[byte]byte{0x81: 0, 0x88: 0xa8}[kind], pcp << 5, 7}
	}
	for _, k := range []struct {
		name  string
		frame [][]byte
		want  uint8
	}{
		{"IPv4", [][]byte{macs, {8, 0}, ip}, 5},
		{"IPv4 with a tag", [][]byte{macs, tag(0x81, 6), {8, 0}, ip}, 5},
		{"ARP with a tag", [][]byte{macs, tag(0x81, 6), {8, 6}, make([]byte, 28)}, 1},
		{"two tags", [][]byte{macs, tag(0x88, 2), tag(0x81, 6), {8, 6}, make([]byte, 28)}, 5},
		{"ARP", [][]byte{macs, {8, 6}, make([]byte, 28)}, 4},
	} {
		p := packet.Packet{Frame: bytes.Join(k.frame, nil)}
		if !p.Parse() {
			t.Fatal(k.name)
		}
		if c.ClassifyPacket(&p); p.Prio != k.want {
			t.Errorf("%s: priority %d, want %d", k.name, p.Prio, k.want)
		}
	}
}
