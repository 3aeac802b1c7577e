package switches_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/trim"
	"github.com/weftlab/weft/wire"
)

// books is a congestion point that keeps a list of the packets in its queue, as a
// point with a flow table does, and does anything to packets that a point may do.
type books struct {
	t     rapid.TB
	judge func(p *packet.Packet) packet.Fate // may be nil; may also change the packet, or send one
	inbox map[uint64]units.Bytes
	bytes units.Bytes
	left  map[packet.Fate]int // shared by the points of a port
}

// check compares the list with the port's counts of the queue.
func (b *books) check(what string, q congestion.Queue) {
	if len(b.inbox) != q.Packets || b.bytes != q.Bytes {
		b.t.Fatalf("%s: by the books %d packets of %v wait, by the port %d of %v", what, len(b.inbox), b.bytes, q.Packets, q.Bytes)
	}
}

func (b *books) leave(what string, q congestion.Queue, p *packet.Packet) {
	n, ok := b.inbox[p.ID]
	if !ok {
		b.t.Fatalf("%s: packet %d leaves and was not there", what, p.ID)
	}
	delete(b.inbox, p.ID)
	b.bytes -= n
	b.check(fmt.Sprint(what, " ", p.ID), q)
}

// act judges a packet of a host.
func (b *books) act(p *packet.Packet) packet.Fate {
	if b.judge == nil || p.ID >= 1<<32 {
		return packet.Fine
	}
	return b.judge(p)
}

func (b *books) OnEnqueue(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	b.check(fmt.Sprint("enqueue ", p.ID), q)
	if _, ok := b.inbox[p.ID]; ok {
		b.t.Fatalf("packet %d joins twice", p.ID)
	}
	fate := b.act(p)
	if !fate.IsDrop() {
		b.inbox[p.ID] = p.Size
		b.bytes += p.Size
	}
	return fate
}

func (b *books) OnDequeue(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	b.leave("dequeue", q, p)
	b.left[packet.Fine]++
	return b.act(p)
}

func (b *books) OnRemoved(_ units.Time, q congestion.Queue, p *packet.Packet, why packet.Fate) {
	b.leave("removed", q, p)
	b.left[why]++
	if why != packet.Trimmed && !why.IsDrop() {
		b.t.Fatalf("packet %d is removed: %v", p.ID, why)
	}
}

func (b *books) AppendGauges(_ units.Time, _ congestion.Queue, values []float64) []float64 {
	return values
}

func (b *books) OnTimer(_ units.Time, q congestion.Queue) units.Time {
	b.check("tick", q)
	return units.Never
}

// bench is a switch whose port 2, the bottleneck, has books as congestion points.
type bench struct {
	network
	t     rapid.TB
	rand  *rand.Rand
	sw    *switches.Switch
	from  [2]*host
	to    *host
	own   uint64
	books []*books // by priority; a plain port uses the first
	left  map[packet.Fate]int
}

// newBench makes a switch without classes, whose bottleneck queues up to limit.
func newBench(t rapid.TB, seed uint64, limit units.Bytes) *bench {
	b := &bench{t: t, rand: rand.New(rand.NewPCG(seed, 1)), left: map[packet.Fate]int{}}
	b.sw = switches.New("s1", 1, &b.pool)
	b.from, b.to = [2]*host{b.host("a:eth0"), b.host("b:eth0")}, b.host("to:eth0")
	b.join(b.from[0].port, b.addPort(b.sw, "s1:a", plenty), 10*units.Gbps, 0)
	b.join(b.from[1].port, b.addPort(b.sw, "s1:b", plenty), 10*units.Gbps, 0)
	b.addPort(b.sw, "s1:to", limit)
	b.sw.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}, {2}}, Route: []uint16{1, 2, 3}, Tree: []bool{true, true, true}})
	return b
}

// keepBooks gives the next priority books, or the port if it has no classes.
func (b *bench) keepBooks(judge func(p *packet.Packet) packet.Fate) {
	b.books = append(b.books, &books{t: b.t, judge: judge, inbox: map[uint64]units.Bytes{}, left: b.left})
}

// setPoints gives the bottleneck its points. With classes, those of priority 0, 1 and so on, the switch
// has a buffer.
func (b *bench) setPoints(buffers units.Bytes, classes ...class.Class) {
	out := b.sw.Ports[2]
	defer b.join(b.to.port, out, units.Gbps, 0)
	if len(classes) == 0 {
		out.SetPoint(&b.engine, func(func(units.Time)) congestion.Point { return b.books[0] })
		return
	}
	b.observes = func(p *port.Port, k class.Class) congestion.Point {
		if p.Index != 2 {
			return nil
		}
		return b.books[k.Priority]
	}
	b.chassis(b.sw, buffer.Config{Size: buffers}, 3000, classes...)
}

// send makes a host send n packets of a flow.
func (b *bench) send(host int, flow uint64, prio uint8, n int, size units.Bytes) {
	for range n {
		p := b.packet(b.from[host].id, b.to.id, size)
		p.Kind, p.L3 = packet.Modelled, wire.EthernetHeader
		p.Hash = sim.MixBits(flow)
		b.from[host].send(p, prio)
	}
}

// run runs the engine for some time, event by event, to check after each.
func (b *bench) run(d units.Time) {
	for end := b.engine.Now() + d; b.engine.Run(end, 1) > 0; {
		b.check()
	}
}

// checkEnd runs until nothing is left, and checks that.
func (b *bench) checkEnd() {
	b.finish()
	b.check()
	for _, k := range b.books {
		if len(k.inbox) != 0 {
			b.t.Fatalf("at the end %d packets have not left: %v", len(k.inbox), k.inbox)
		}
	}
	if b.pool.LivePackets() != 0 {
		b.t.Fatalf("%d packets live", b.pool.LivePackets())
	}
}

// drawJudge draws how often a point does something to packets.
func (b *bench) drawJudge(t *rapid.T) func(p *packet.Packet) packet.Fate {
	percent := rapid.SampledFrom([]int{0, 5, 40}).Draw(t, "acts")
	return func(p *packet.Packet) packet.Fate {
		if b.rand.IntN(100) >= percent {
			return packet.Fine
		}
		switch b.rand.IntN(5) {
		case 0:
			return packet.EarlyDrop
		case 1:
			return packet.Marked
		case 2:
			p.Size = max(smallFrame, p.Size-300)
		case 3:
			p.Size += 200
		case 4:
			b.originatePacket()
		}
		return packet.Fine
	}
}

// originatePacket sends a packet of a point to any endpoint.
func (b *bench) originatePacket() {
	p := b.pool.New()
	b.own++
	p.ID, p.Dest, p.Size, p.Version = 1<<32+b.own, packet.Endpoint(b.rand.IntN(3)), smallFrame, 4
	p.Kind, p.L3 = packet.Modelled, wire.EthernetHeader
	p.TOS = uint8(b.rand.IntN(3)) << 2
	b.sw.OriginatePacket(b.engine.Now(), p)
}

// drawClasses draws classes: 0 and 1 of any kind, 2 for trimmed packets.
func (b *bench) drawClasses(t *rapid.T) (list []class.Class) {
	for prio := range uint8(3) {
		k := class.Class{Name: fmt.Sprint("c", prio), Priority: prio, Weight: b.rand.IntN(3)}
		kinds := []string{"plain", "limit", "trim", "lossless"}
		if prio == 2 {
			kinds = kinds[:2]
		}
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case "limit":
			k.Limit = units.Bytes(rapid.IntRange(1500, 9000).Draw(t, "limit"))
		case "trim":
			k.Limit = units.Bytes(rapid.IntRange(1500, 9000).Draw(t, "limit"))
			k.Trim = &trim.Config{Keep: 44, DSCP: uint8(rapid.SampledFrom([]uint8{2, 2, prio}).Draw(t, "class of trimmed"))}
			k.Trim.Tail = units.Fraction(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "tail"))
			k.Trim.Return = rapid.Bool().Draw(t, "return")
		case "lossless":
			k.PFC = watched(rapid.SampledFrom([]pfc.Action{pfc.Drop, pfc.Drop, pfc.Forward}).Draw(t, "action"))
		}
		k.Fair = rapid.Bool().Draw(t, "fair")
		list = append(list, k)
	}
	return list
}

// watched returns PFC with a watchdog that does something after 20 us.
func watched(a pfc.Action) *pfc.Config {
	return &pfc.Config{
		Xoff: 3000, Offset: 1500, Quanta: 100,
		Watchdog: pfc.Watchdog{Detect: 20 * units.Microsecond, Restore: 50 * units.Microsecond, Action: a},
	}
}

// storm makes the receiver pause some classes, for quanta of 0.5 us.
func (b *bench) storm(classes uint8, quanta [8]uint16) {
	out := b.sw.Ports[2]
	frame := wire.Pause{Classes: classes, Quanta: quanta}
	p := b.pool.NewFrame(wire.PauseFrame)
	frame.PutFrame(p.Frame, 1)
	p.Size, p.Dest = wire.PauseFrame, packet.MACControl
	out.ReceivePacket(b.engine.Now(), p)
}

// check compares the books with the port's counts.
func (b *bench) check() {
	now, out := b.engine.Now(), b.sw.Ports[2]
	if list := out.Classes(now); list != nil {
		for i, c := range list {
			b.books[i].check(c.Name, congestion.Queue{Packets: c.QueuePackets, Bytes: c.QueueBytes})
		}
		return
	}
	n, bytes := out.QueueLength(now)
	b.books[0].check("port", congestion.Queue{Packets: n, Bytes: bytes})
}

// TestCongestionPoint_HearsOfEveryDeparture: a congestion point hears exactly once of each admitted
// packet that leaves its queue, for whatever reason. Its list and the port's counts agree at all
// times, and are empty at the end.
func TestCongestionPoint_HearsOfEveryDeparture(t *testing.T) {
	left := map[packet.Fate]int{}
	rapid.Check(t, func(t *rapid.T) {
		qos := rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "deep")
		b := newBench(t, rapid.Uint64().Draw(t, "seed"), units.Bytes(rapid.IntRange(1500, 9000).Draw(t, "limit of a plain port")))
		var classes []class.Class
		b.keepBooks(b.drawJudge(t))
		if qos {
			classes = b.drawClasses(t)
			b.keepBooks(b.drawJudge(t))
			b.keepBooks(b.drawJudge(t))
		}
		b.setPoints(units.Bytes(rapid.IntRange(8000, 40_000).Draw(t, "buffer")), classes...)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				up := rapid.Bool().Draw(t, "up")
				b.sw.Ports[2].SetLink(b.engine.Now(), links.Settings{Rate: units.Gbps, MTU: 9000, Up: up})
			case 1:
				if qos {
					var quanta [8]uint16
					for i := range quanta {
						quanta[i] = uint16(b.rand.IntN(200))
					}
					b.storm(uint8(1+b.rand.IntN(7)), quanta)
				}
			default:
				host := b.rand.IntN(2)
				for range b.rand.IntN(12) {
					b.send(host, uint64(b.rand.IntN(5)), uint8(b.rand.IntN(2)), 1, units.Bytes(smallFrame+b.rand.IntN(1400)))
				}
			}
			b.run(units.Time(b.rand.IntN(40)) * units.Microsecond)
		}
		b.checkEnd()
		for why, n := range b.left {
			left[why] += n
		}
	})
	t.Logf("packets left for these reasons: %v", left)
}

// TestCongestionPoint_HearsWhyAPacketLeft: each reason for which a packet leaves a queue.
func TestCongestionPoint_HearsWhyAPacketLeft(t *testing.T) {
	grow := func(p *packet.Packet) packet.Fate {
		p.Size += 200
		return packet.Fine
	}
	for name, c := range map[string]struct {
		limit   units.Bytes // of a port without classes
		judge   func(p *packet.Packet) packet.Fate
		classes []class.Class
		do      func(b *bench)
		want    map[packet.Fate]int
	}{
		"sent": {
			limit: plenty,
			do:    func(b *bench) { b.send(0, 1, 0, 5, 1000) },
			want:  map[packet.Fate]int{packet.Fine: 5},
		},
		"grown by the point beyond the queue's limit": {
			limit: 3500, judge: grow,
			do:   func(b *bench) { b.send(0, 1, 0, 4, 1000) }, // the first leaves at once, two wait with 1200 B each
			want: map[packet.Fate]int{packet.Fine: 3, packet.QueueFull: 1},
		},
		"of the fattest flow, to make room": {
			classes: []class.Class{{Name: "fair", Fair: true, Limit: 3000}},
			do: func(b *bench) {
				b.send(0, 1, 0, 4, 1000)
				b.run(5 * units.Microsecond) // the first is being sent, three wait
				b.send(1, 2, 0, 1, 1000)
			},
			want: map[packet.Fate]int{packet.Fine: 4, packet.QueueFull: 1},
		},
		"trimmed, in exchange for the one that arrives": {
			classes: []class.Class{{Name: "data", Limit: 3000, Trim: &trim.Config{Keep: 44, DSCP: 1, Tail: 1}}, {Name: "headers", Priority: 1}},
			do:      func(b *bench) { b.send(0, 1, 0, 6, 1000) },
			want:    map[packet.Fate]int{packet.Fine: 6, packet.Trimmed: 2},
		},
		"discarded by the watchdog": {
			classes: []class.Class{{Name: "lossless", PFC: watched(pfc.Drop)}},
			do: func(b *bench) {
				b.storm(1, [8]uint16{200})
				b.send(0, 1, 0, 3, 1000)
			},
			want: map[packet.Fate]int{packet.Watchdog: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1, c.limit)
			for range max(1, len(c.classes)) {
				b.keepBooks(c.judge)
			}
			b.setPoints(20_000, c.classes...)
			c.do(b)
			b.run(units.Millisecond)
			b.checkEnd()
			if diff := cmp.Diff(c.want, b.left); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
