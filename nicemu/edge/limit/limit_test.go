package limit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestModel: whatever flows send, and however the port is paused: the packets of a flow leave in
// order, each once or counted as dropped; no flow leaves faster than its rate; none waits for
// another that may not leave; no work is left at the end.
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
		from  units.Time
		bytes units.Bytes
		size  units.Bytes
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
		// All packets of a flow with a rate that left before this packet, the first of them at the
		// start, took their time by now.
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
		w.engine.AdvanceTo(now)
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			w.blocked ^= 1 << rapid.IntRange(0, 2).Draw(t, "class")
			w.start(now)
		case 1:
			w.l.SetLineRate(now, units.Rate(rapid.IntRange(0, 2).Draw(t, "line"))*line/2)
		case 2:
			values := w.l.AppendGauges(now, nil)
			list := w.shown(now)
			if n := w.l.FlowCount(now); len(list) != n || float64(n) < values[0] || float64(n) > values[0]+1 {
				t.Fatalf("%d flows are shown of %d, and %v known", len(list), n, values[0])
			}
		default:
			k := rapid.IntRange(0, flows-1).Draw(t, "flow")
			for range rapid.IntRange(1, 8).Draw(t, "packets") {
				seq[k]++
				sent++
				size := units.Bytes(rapid.IntRange(60, 1514).Draw(t, "size"))
				w.l.SendPacket(now, w.modelled(int32(k), seq[k], size, uint8(rapid.IntRange(0, 2).Draw(t, "prio"))))
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
	if n, _ := w.l.HeldPackets(); n != 0 || left+w.dropped != sent || w.pool.LivePackets() != 0 {
		t.Fatalf("of %d packets %d left, %d are dropped, %d held", sent, left, w.dropped, n)
	}
}

// TestASlowFlowLeavesRoom: a slow flow fills its part of the host's queue, and others lose nothing
// and leave at once.
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
		w.engine.AdvanceTo(now)
		w.l.SendPacket(now, w.modelled(1, i+1, 1000, 0))
		sent[i+1] = now
		w.l.SendPacket(now, w.modelled(2, i+1, 1000, 0))
		w.sound(now)
	}
	list := w.shown(w.engine.Now())
	if list[0].Dropped < 900 || list[0].Bytes < 45*units.KB || list[1].Dropped != 0 || waited > 10*units.Microsecond {
		t.Errorf("%+v; the quick one waited up to %v", list, waited)
	}
}

// TestFlowsAreForgotten: flows are removed after their age, and when others need the place; one
// that returns is new. Flows beyond the table share a queue, in order.
func TestFlowsAreForgotten(t *testing.T) {
	made := 0
	c := &Config{Flows: 2, Age: units.Millisecond, Control: cc.Choice{Settings: &controls{make: func(cc.Flow) cc.Control {
		made++
		return &fixed{rate: 10 * units.Mbps}
	}}}}
	w := newWorld(t, c, units.Gbps, 0)
	var gone []string
	w.l.OnFlowEnd(func(_ units.Time, x *edge.Flow) {
		gone = append(gone, fmt.Sprintf("%d:%d sent %d aged %v", x.Number, x.Key.Flow, x.TxPackets, x.Aged))
	})
	var order []string
	w.left = func(_ units.Time, p *packet.Packet) { order = append(order, fmt.Sprint(p.Flow, ".", p.Seq)) }
	send := func(at units.Time, flow int32, seq uint32) {
		w.engine.Run(at, math.MaxInt)
		w.engine.AdvanceTo(at)
		w.l.SendPacket(at, w.modelled(flow, seq, 1000, 0))
		w.sound(at)
	}
	send(0, 1, 1)
	send(500*units.Microsecond, 1, 2) // it is known
	if made != 1 {
		t.Errorf("%d controls", made)
	}
	send(5*units.Millisecond, 1, 3) // too late: it is a new flow
	if made != 2 || w.l.forgotten != 1 {
		t.Errorf("%d controls, %d forgotten", made, w.l.forgotten)
	}
	if list := w.shown(5 * units.Millisecond); len(list) != 1 || list[0].Number != 2 || list[0].TxPackets != 1 {
		t.Errorf("%+v", list)
	}
	at := 10 * units.Millisecond
	for _, s := range [][2]int{{1, 4}, {1, 5}, {2, 1}, {2, 2}, {3, 1}, {4, 1}, {3, 2}} {
		send(at, int32(s[0]), uint32(s[1]))
	}
	if w.l.tableFull != 3 || made != 5 {
		t.Errorf("%d packets share, %d controls", w.l.tableFull, made)
	}
	at += 900 * units.Microsecond // the second packets of 1 and 2 have left, the shared queue has two
	send(at, 4, 2)
	if w.l.tableFull != 4 {
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
	if got, want := strings.Join(gone, ", "), "1:1 sent 2 aged true, 2:1 sent 1 aged true, 3:1 sent 2 aged false"; got != want {
		t.Errorf("forgotten are %s, want %s", got, want)
	}
}

// TestWhatPasses: packets that must not wait do not.
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
		w.l.SendPacket(0, c.p)
		if (w.passed > before) != c.pass {
			t.Errorf("%s passes: %v", c.what, !c.pass)
		}
	}
	p := frame(wire.EtherTypeIPv4, wire.ProtoUDP, 0)
	p.Dest = packet.Flood
	if w.l.SendPacket(0, p); w.passed != 4 {
		t.Error("multicast waits")
	}
}

// busy is a limiter with flows that always have a waiting packet: turn makes a packet leave, and
// another arrive.
func busy(t rapid.TB, flows int, rate units.Rate) (w *world, turn func()) {
	w = newWorld(t, &Config{Flows: 65536, Age: units.Second, Rate: rate}, 10*units.Gbps, 0)
	frames := make([]packet.Packet, flows)
	for i := range frames {
		f := make([]byte, 1514)
		f[12], f[14], f[16], f[17], f[23] = 8, 0x45, 1500>>8, 1500&255, wire.ProtoTCP
		f[26], f[29], f[30], f[33] = 10, 1, 10, 2
		f[34], f[35] = byte(i>>8), byte(i)
		frames[i].Frame = f
		if !frames[i].Parse() {
			t.Fatal("no frame")
		}
	}
	sent, left := 0, 0
	w.left = func(units.Time, *packet.Packet) { left++ }
	send := func() {
		p := w.pool.NewFrame(1514)
		f := p.Frame
		*p = frames[sent%flows]
		p.Frame = f
		copy(f, frames[sent%flows].Frame[:64])
		w.l.SendPacket(w.engine.Now(), p)
		sent++
	}
	for range 2 * flows {
		send()
	}
	return w, func() {
		for before := left; left == before; {
			w.engine.Run(w.engine.Next(), 1)
		}
		send()
	}
}

// TestAPacketDoesNotAllocate tests packets of a known flow.
func TestAPacketDoesNotAllocate(t *testing.T) {
	_, turn := busy(t, 100, 90*units.Mbps)
	for range 1000 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// BenchmarkThousandFlows measures a packet through a limiter with a thousand flows, each of which
// always has waiting packets.
func BenchmarkThousandFlows(b *testing.B) {
	w, turn := busy(b, 1000, 9*units.Mbps)
	for b.Loop() {
		turn()
	}
	if len(w.l.flows) != 1000 {
		b.Fatalf("%d flows", len(w.l.flows))
	}
}

// TestFlowsTakeTurnsInBytes: flows that may always send have equal shares of the port,
// whatever their packets' size.
func TestFlowsTakeTurnsInBytes(t *testing.T) {
	w := newWorld(t, &Config{Flows: 10, Age: units.Second, Control: cc.Choice{Settings: &controls{make: func(cc.Flow) cc.Control { return &fixed{} }}}}, units.Gbps, 0)
	var sent [4]units.Bytes
	var seq [4]uint32
	sizes := [4]units.Bytes{100, 300, 1000, 1514}
	send := func(now units.Time, k int32) {
		seq[k]++
		w.l.SendPacket(now, w.modelled(k, seq[k], sizes[k], 0))
	}
	w.left = func(_ units.Time, p *packet.Packet) { sent[p.Flow] += packet.OnWire(p.Size) }
	for k := range int32(4) {
		for range 200 {
			send(0, k)
		}
	}
	for now := units.Time(0); now < 5*units.Millisecond; now += units.Microsecond {
		w.engine.Run(now, math.MaxInt)
		w.engine.AdvanceTo(now)
		for k := range int32(4) {
			for w.l.flows[packet.FlowKey{Flow: k, Proto: wire.ProtoUDP, SrcPort: uint16(k)}].count < 100 {
				send(now, k)
			}
		}
	}
	for k := range sent {
		if d := sent[k] - sent[0]; d < -2*w.l.quantum || d > 2*w.l.quantum {
			t.Errorf("on the wire are %v of the flows with packets of %v", sent, sizes)
		}
	}
}
