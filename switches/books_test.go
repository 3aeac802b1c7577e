package switches_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/trim"
)

// books is a congestion point that keeps a list of the packets in its queue, as a
// point with a flow table does, and does anything to packets that a point may do.
type books struct {
	t     rapid.TB
	rand  *rand.Rand
	acts  int // how many times in a hundred it does something
	inbox map[uint64]units.Bytes
	bytes units.Bytes
	left  map[packet.Fate]int
	send  func() // sends a packet of the point to any endpoint
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

// act judges a packet.
func (b *books) act(p *packet.Packet) packet.Fate {
	if p.ID >= 1<<32 || b.rand.IntN(100) >= b.acts {
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
		b.send()
	}
	return packet.Fine
}

func (b *books) Enqueue(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	b.check(fmt.Sprint("enqueue ", p.ID), q)
	if _, ok := b.inbox[p.ID]; ok {
		b.t.Fatalf("packet %d joins twice", p.ID)
	}
	fate := b.act(p)
	if !fate.Dropped() {
		b.inbox[p.ID] = p.Size
		b.bytes += p.Size
	}
	return fate
}

func (b *books) Dequeue(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	b.leave("dequeue", q, p)
	b.left[packet.Fine]++
	return b.act(p)
}

func (b *books) Removed(_ units.Time, q congestion.Queue, p *packet.Packet, why packet.Fate) {
	b.leave("removed", q, p)
	b.left[why]++
	if why != packet.Trimmed && !why.Dropped() {
		b.t.Fatalf("packet %d is removed: %v", p.ID, why)
	}
}

func (b *books) Gauges(_ units.Time, _ congestion.Queue, values []float64) []float64 { return values }

func (b *books) Tick(_ units.Time, q congestion.Queue) units.Time {
	b.check("tick", q)
	return units.Never
}

// bench is a switch whose port 2, the bottleneck, has books as congestion points.
type bench struct {
	network
	t     *rapid.T
	rand  *rand.Rand
	sw    *switches.Switch
	from  [2]*host
	to    *host
	own   uint64
	books []*books // by priority; a plain port uses the first
	left  map[packet.Fate]int
}

func (b *bench) point() *books {
	k := &books{t: b.t, rand: b.rand, inbox: map[uint64]units.Bytes{}, left: b.left, acts: rapid.SampledFrom([]int{0, 5, 40}).Draw(b.t, "acts")}
	k.send = func() {
		p := b.pool.New()
		b.own++
		p.ID, p.Dest, p.Size, p.Version = 1<<32+b.own, packet.Endpoint(b.rand.IntN(3)), smallFrame, 4
		p.Flow, p.L3 = 0, wire.EthernetHeader
		p.TOS = uint8(b.rand.IntN(3)) << 2
		b.sw.Originate(b.engine.Now(), p)
	}
	return k
}

func newBench(t *rapid.T, deep bool) *bench {
	b := &bench{t: t, rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), left: map[packet.Fate]int{}}
	b.sw = switches.New("s1", 1, &b.pool)
	limit := plenty
	if !deep {
		limit = units.Bytes(rapid.IntRange(1500, 9000).Draw(t, "limit"))
	}
	b.from, b.to = [2]*host{b.host("a:eth0"), b.host("b:eth0")}, b.host("to:eth0")
	b.join(b.from[0].port, b.addPort(b.sw, "s1:a", plenty), 10*units.Gbps, 0)
	b.join(b.from[1].port, b.addPort(b.sw, "s1:b", plenty), 10*units.Gbps, 0)
	out := b.addPort(b.sw, "s1:to", limit)
	if !deep {
		b.books = []*books{b.point()}
		out.SetPoint(&b.engine, func(func(units.Time)) congestion.Point { return b.books[0] })
	}
	b.join(b.to.port, out, units.Gbps, 0)
	b.sw.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}, {2}}, Route: []uint16{1, 2, 3}, Tree: []bool{true, true, true}})
	if deep {
		b.deepen()
	}
	return b
}

// deepen gives the switch classes: 0 and 1 of any kind, 2 for trimmed packets.
func (b *bench) deepen() {
	var list []class.Class
	for prio := range uint8(3) {
		k := class.Class{Name: fmt.Sprint("c", prio), Priority: prio, Weight: b.rand.IntN(3)}
		kinds := []string{"plain", "limit", "trim", "lossless"}
		if prio == 2 {
			kinds = kinds[:2]
		}
		switch rapid.SampledFrom(kinds).Draw(b.t, "kind") {
		case "limit":
			k.Limit = units.Bytes(rapid.IntRange(1500, 9000).Draw(b.t, "limit"))
		case "trim":
			k.Limit = units.Bytes(rapid.IntRange(1500, 9000).Draw(b.t, "limit"))
			k.Trim = &trim.Config{Keep: 44, DSCP: uint8(rapid.SampledFrom([]uint8{2, 2, prio}).Draw(b.t, "class of trimmed"))}
			k.Trim.Tail = units.Fraction(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(b.t, "tail"))
			k.Trim.Return = rapid.Bool().Draw(b.t, "return")
		case "lossless":
			k.PFC = &pfc.Config{Xoff: 3000, Offset: 1500, Quanta: 100}
			k.PFC.Watchdog = pfc.Watchdog{Detect: 20 * units.Microsecond, Restore: 50 * units.Microsecond}
			k.PFC.Watchdog.Action = rapid.SampledFrom([]pfc.Action{pfc.Drop, pfc.Drop, pfc.Forward}).Draw(b.t, "action")
		}
		k.Fair = rapid.Bool().Draw(b.t, "fair")
		list = append(list, k)
		b.books = append(b.books, b.point())
	}
	b.observes = func(p *port.Port, k class.Class) congestion.Point {
		if p.Index != 2 {
			return nil
		}
		return b.books[k.Priority]
	}
	b.chassis(b.sw, buffer.Config{Size: units.Bytes(rapid.IntRange(8000, 40_000).Draw(b.t, "buffer"))}, 3000, list...)
}

// storm makes the receiver pause some classes.
func (b *bench) storm() {
	out := b.sw.Ports[2]
	frame := wire.Pause{Classes: uint8(1 + b.rand.IntN(7))}
	for i := range frame.Quanta {
		frame.Quanta[i] = uint16(b.rand.IntN(200)) // up to 102 us
	}
	p := b.pool.NewFrame(wire.PauseFrame)
	frame.Put(p.Frame, 1)
	p.Size, p.Dest = wire.PauseFrame, packet.MACControl
	out.Receive(b.engine.Now(), p)
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
	n, bytes := out.Queued(now)
	b.books[0].check("port", congestion.Queue{Packets: n, Bytes: bytes})
}

// TestPointHearsOfEveryDeparture: a congestion point hears exactly once of each
// admitted packet that leaves its queue, for whatever reason. Its list and the
// port's counts agree at all times, and are empty at the end.
func TestPointHearsOfEveryDeparture(t *testing.T) {
	left := map[packet.Fate]int{}
	check := func(t *rapid.T) {
		deep := rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "deep")
		b := newBench(t, deep)
		out := b.sw.Ports[2]
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				up := rapid.Bool().Draw(t, "up")
				out.SetLink(b.engine.Now(), links.Settings{Rate: units.Gbps, MTU: 9000, Up: up})
			case 1:
				if deep {
					b.storm()
				}
			default:
				from := b.from[b.rand.IntN(2)]
				for range b.rand.IntN(12) {
					p := b.packet(from.id, b.to.id, units.Bytes(smallFrame+b.rand.IntN(1400)))
					p.Flow, p.L3 = 0, wire.EthernetHeader
					p.Hash = packet.Mix(uint64(b.rand.IntN(5)))
					from.send(p, uint8(b.rand.IntN(2)))
				}
			}
			// Run the engine event by event to check after each.
			for end := b.engine.Now() + units.Time(b.rand.IntN(40))*units.Microsecond; b.engine.Run(end, 1) > 0; {
				b.check()
			}
		}
		b.finish()
		b.check()
		for _, k := range b.books {
			if len(k.inbox) != 0 {
				t.Fatalf("at the end %d packets have not left: %v", len(k.inbox), k.inbox)
			}
		}
		if b.pool.Live() != 0 {
			t.Fatalf("%d packets live", b.pool.Live())
		}
		for why, n := range b.left {
			left[why] += n
		}
	}
	all := func() bool {
		return left[packet.Fine] > 0 && left[packet.Trimmed] > 0 && left[packet.QueueFull] > 0 && left[packet.Watchdog] > 0
	}
	// Some reasons are rare: draw more settings until each has occurred.
	for try := 0; try < 20 && !all() && !t.Failed(); try++ {
		rapid.Check(t, check)
	}
	if !all() {
		t.Errorf("packets left for too few reasons: %v", left)
	}
}
