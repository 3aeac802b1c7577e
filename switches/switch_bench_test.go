package switches_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/forward"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/trim"
	"github.com/weftlab/weft/wire"
)

// hops is the number of links that a packet of the chain crosses.
const hops = 3

// chain is a host, two switches and a host in a row, at 100 Gb/s and 50 Gb/s
// on the last link. The first host sends bursts at even intervals; they queue
// at its port and before the last link.
type chain struct {
	network
	timer    sim.Timer
	from     *port.Port
	frame    []byte // nil for modelled packets
	template packet.Packet
	burst    int
	qos      bool
	interval units.Time

	arrived, marked uint64
}

// sink frees packets that arrive.
type sink struct{ c *chain }

func (s sink) InputPacket(_ units.Time, _ *port.Port, p *packet.Packet) {
	s.c.arrived++
	if p.ECN() == wire.CE {
		s.c.marked++
	}
	s.c.pool.Free(p)
}

func (s sink) PeekFate(units.Time, *port.Port, *packet.Packet) packet.Fate { return packet.Fine }

// chainConfig has the parameters of the benchmarks.
type chainConfig struct {
	frame bool // packets carry 1500 bytes and are parsed, instead of only having fields
	burst int
	ecmp  bool             // the first switch chooses among two cables
	red   bool             // the second switch marks
	load  float64          // of the last link
	mode  forward.Settings // nil means ECMP
	ports int              // more ports for each switch
	slow  bool             // plain ports that start every packet with an event, as if observed
	qos   bool             // eight classes, two of them lossless, DWRR, marking, a shared buffer with dynamic thresholds
}

// judge is a congestion point that could judge departures but does not.
type judge struct{ congestion.Passive }

func (judge) OnEnqueue(units.Time, congestion.Queue, *packet.Packet) packet.Fate { return packet.Fine }

// everything returns the classes of a switch with deep.
func everything() (list []class.Class) {
	red := congestion.RED{KMin: 0, KMax: units.MB, PMax: 1}
	for prio := range uint8(class.Count) {
		k := class.Class{Name: fmt.Sprint("c", prio), Priority: prio, Alpha: 1, Reserve: 4 * units.KB, Mark: congestion.Choice{Settings: &red}}
		switch {
		case prio < 3:
			k.Weight = int(prio) + 1
			k.Trim = &trim.Config{Keep: 44, DSCP: 7}
		case prio < 5:
			k.Alpha, k.PFC = 0, &pfc.Config{Alpha: 1, Offset: 3 * units.KB, Quanta: pfc.DefaultQuanta, Watchdog: pfc.Watchdog{Detect: units.Second, Restore: units.Second}}
		}
		list = append(list, k)
	}
	return list
}

func newChain(cfg chainConfig) *chain {
	const rate, last, size = 100 * units.Gbps, 50 * units.Gbps, 1514
	c := &chain{burst: cfg.burst, qos: cfg.qos}
	e, pool := &c.engine, &c.pool
	c.from = port.New(e, pool, "a:eth0", 0, sink{c}, plenty)
	to := port.New(e, pool, "b:eth0", 0, sink{c}, plenty)
	s1, s2 := switches.New("s1", 1, pool), switches.New("s2", 2, pool)
	s1.SetForwarding(cfg.mode, sim.NewRand(1, "forwarding s1"))
	c.join(c.from, c.addPort(s1, "s1:1", plenty), rate, units.Microsecond)
	group := []uint16{1}
	for i := range 2 {
		c.join(c.addPort(s1, fmt.Sprintf("s1:%d", i+2), plenty), c.addPort(s2, fmt.Sprintf("s2:%d", i+1), plenty), rate, units.Microsecond)
	}
	if cfg.ecmp {
		group = []uint16{1, 2}
	}
	c.join(c.addPort(s2, "s2:3", plenty), to, last, units.Microsecond)
	s1.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, group}, Route: []uint16{1, 2}, Tree: []bool{true, true, false}})
	s2.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {2}}, Route: []uint16{1, 2}, Tree: []bool{true, false, true}})
	if cfg.red && !cfg.qos {
		red := congestion.RED{KMin: 0, KMax: units.MB, PMax: 1}
		s2.Ports[2].SetPoint(e, func(func(units.Time)) congestion.Point {
			return congestion.New(congestion.Choice{Settings: &red}, congestion.Env{Rand: sim.NewRand(1, "mark"), Pool: pool})
		})
	}
	for i := range cfg.ports {
		c.addPort(s1, fmt.Sprint("s1:x", i), plenty)
		c.addPort(s2, fmt.Sprint("s2:x", i), plenty)
	}
	if cfg.slow {
		for _, s := range []*switches.Switch{s1, s2} {
			for _, p := range s.Ports {
				p.SetPoint(e, func(func(units.Time)) congestion.Point { return judge{} })
				p.SetObserver(0, nil) // the port decides again whether it may compute ahead
			}
		}
	}
	if cfg.qos {
		c.classes(s1, 64*units.MB, 20*units.KB, everything()...)
		c.classes(s2, 64*units.MB, 20*units.KB, everything()...)
	}
	c.template = packet.Packet{Size: size, Dest: 1, Version: 4, Ether: wire.EtherTypeIPv4, Proto: wire.ProtoUDP, TOS: wire.ECT0, TTL: 64, SrcPort: 40_000, DstPort: 5001, Hash: 1}
	if cfg.frame {
		c.frame = make([]byte, size)
		copy(c.frame, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, wire.ECT0, 0x05, 0xdc, 0, 0, 0, 0, 64, wire.ProtoUDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0x13, 0x89})
	}
	c.interval = units.Time(float64(last.TimeOf(packet.OnWire(size))) * float64(cfg.burst) / cfg.load)
	c.timer = e.NewTimer(c)
	c.timer.Arm(0)
	return c
}

// Fire sends a burst.
func (c *chain) Fire(now units.Time) {
	for range c.burst {
		var p *packet.Packet
		if c.frame == nil {
			p = c.pool.New()
			*p = c.template
		} else {
			p = c.pool.NewFrame(len(c.frame))
			copy(p.Frame, c.frame)
			p.Parse()
			p.Dest = 1
		}
		p.SrcPort += uint16(c.sent)
		p.Hash = sim.MixBits(c.sent)
		p.ID, p.Created = c.sent, now
		if c.qos {
			p.TOS = uint8(c.sent%class.Count)<<2 | wire.ECT0
		}
		c.sent++
		c.from.Send(now, p)
	}
	c.timer.Arm(now + c.interval)
}

// move runs until n more packets have arrived.
func (c *chain) move(n uint64) {
	for goal := c.arrived + n; c.arrived < goal; {
		c.engine.Run(units.Never-1, 64)
	}
}

var chains = []struct {
	name string
	chainConfig
}{
	{"modelled", chainConfig{burst: 1, load: 0.9}},
	{"modelled, queueing", chainConfig{burst: 64, load: 0.9}},
	{"modelled, ECMP and RED", chainConfig{burst: 64, load: 0.9, ecmp: true, red: true}},
	{"modelled, queueing, event by event", chainConfig{burst: 64, load: 0.9, slow: true}},
	{"modelled, everything", chainConfig{burst: 1, load: 0.9, qos: true}},
	{"modelled, everything, queueing", chainConfig{burst: 64, load: 0.9, red: true, qos: true}},
	{"modelled, everything, queueing, 64 ports", chainConfig{burst: 64, load: 0.9, ports: 61, red: true, qos: true}},
	{"frame", chainConfig{burst: 1, load: 0.9, frame: true}},
	{"frame, ECMP and RED", chainConfig{burst: 64, load: 0.9, frame: true, ecmp: true, red: true}},
	{"ECMP", chainConfig{burst: 1, load: 0.9, ecmp: true}},
	{"random", chainConfig{burst: 1, load: 0.9, ecmp: true, mode: modes["random"]}},
	{"round-robin", chainConfig{burst: 1, load: 0.9, ecmp: true, mode: modes["round-robin"]}},
	{"flowlet", chainConfig{burst: 1, load: 0.9, ecmp: true, mode: modes["flowlet"]}},
	{"entropy", chainConfig{burst: 1, load: 0.9, ecmp: true, mode: modes["entropy"]}},
}

// BenchmarkChain measures the cost of moving a packet over three links and through
// two switches in virtual time, including creating, parsing and freeing the packet.
func BenchmarkChain(b *testing.B) {
	for _, cfg := range chains {
		b.Run(cfg.name, func(b *testing.B) {
			c := newChain(cfg.chainConfig)
			c.move(10_000)
			b.ReportAllocs()
			b.ResetTimer()
			c.move(uint64(b.N))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
		})
	}
}

// TestNoAllocation: once the pool is filled, moving packets allocates nothing.
func TestNoAllocation(t *testing.T) {
	for _, cfg := range chains {
		c := newChain(cfg.chainConfig)
		c.move(2000)
		const packets = 500
		if n := testing.AllocsPerRun(5, func() { c.move(packets) }); n != 0 {
			t.Errorf("%s: %v allocations for %d packets over %d hops", cfg.name, n, packets, hops)
		}
		if cfg.red != (c.marked > 0) {
			t.Errorf("%s: %d marked", cfg.name, c.marked)
		}
	}
}

// TestChainArrival: the packets of the benchmarks arrive on time.
func TestChainArrival(t *testing.T) {
	for _, cfg := range chains {
		c := newChain(cfg.chainConfig)
		c.timer.Disarm()
		c.Fire(0)
		c.timer.Disarm()
		c.engine.Run(units.Never-1, math.MaxInt)
		// 1 us of propagation on each link; serialisation takes 123.04 ns,
		// and twice that on the last link, where a burst queues.
		last := units.Time(hops*1_000_000 + 2*123_040 + cfg.burst*246_080)
		if c.arrived != uint64(cfg.burst) || c.engine.Now() != last || c.pool.LivePackets() != 0 {
			t.Errorf("%s: %d arrived, the last at %v; want %d, %v", cfg.name, c.arrived, c.engine.Now(), cfg.burst, last)
		}
	}
}
