package switches_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/port"
)

// dumbbell is a switch with a sender, a receiver behind a port of 1 Gb/s that
// has a congestion point, and a bystander. Frames of 1476 bytes take 12 us
// there, frames of 101 bytes 1 us.
type dumbbell struct {
	network
	sw              *switches.Switch
	from, to, other *host
	bottleneck      *port.Port
	env             congestion.Env
	seen            []string
	feedback        int
}

const (
	bigFrame   = 1476
	bigTime    = 12 * units.Microsecond
	smallFrame = 101
	smallTime  = units.Microsecond
)

// newDumbbell calls point for the point of the bottleneck.
func newDumbbell(limit units.Bytes, point func(d *dumbbell) congestion.Point) *dumbbell {
	d := &dumbbell{}
	d.sw = switches.New("s1", 1, &d.pool)
	d.from, d.to, d.other = d.host("from:eth0"), d.host("to:eth0"), d.host("other:eth0")
	d.join(d.from.port, d.addPort(d.sw, "s1:from", plenty), 0, 0)
	d.bottleneck = d.addPort(d.sw, "s1:to", limit)
	// As in a fabric, the point is there before the links and the routes are.
	d.env = congestion.Env{Pool: &d.pool, Send: func(p *packet.Packet) { d.sw.OriginatePacket(d.engine.Now(), p) }}
	d.bottleneck.SetPoint(&d.engine, func(wake func(units.Time)) congestion.Point {
		d.env.Wake = wake
		return point(d)
	})
	d.join(d.to.port, d.bottleneck, units.Gbps, 0)
	d.join(d.other.port, d.addPort(d.sw, "s1:other", plenty), 0, 0)
	d.sw.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}, {2}}, Route: []uint16{1, 2, 3, 0}, Tree: []bool{true, true, true}})
	return d
}

// own returns a packet that the point generates.
func (d *dumbbell) own(to packet.Endpoint) *packet.Packet {
	p := d.env.Pool.New()
	p.ID, p.Dest, p.Size = 1000+uint64(d.feedback), to, smallFrame
	d.feedback++
	return p
}

// scripted is a point that records its calls and answers with functions; nil means
// Fine.
type scripted struct {
	d                *dumbbell
	enqueue, dequeue func(now units.Time, q congestion.Queue, p *packet.Packet) packet.Fate
	tick             units.Time // interval
	ticked           func(now units.Time, q congestion.Queue)
}

func (s *scripted) log(what string, now units.Time, q congestion.Queue, id any) {
	s.d.seen = append(s.d.seen, fmt.Sprintf("%v %s %v: %d packets, %d of %d bytes, %v", now, what, id, q.Packets, q.Bytes, q.Limit, q.Rate))
}

func (s *scripted) OnEnqueue(now units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	s.log("enqueue", now, q, p.ID)
	if s.enqueue == nil {
		return packet.Fine
	}
	return s.enqueue(now, q, p)
}

func (s *scripted) OnDequeue(now units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	s.log("dequeue", now, q, p.ID)
	if s.dequeue == nil {
		return packet.Fine
	}
	return s.dequeue(now, q, p)
}

func (s *scripted) OnRemoved(now units.Time, q congestion.Queue, p *packet.Packet, why packet.Fate) {
	s.log(fmt.Sprint("removed (", why, ")"), now, q, p.ID)
}

func (s *scripted) AppendGauges(_ units.Time, _ congestion.Queue, values []float64) []float64 {
	return values
}

func (s *scripted) OnTimer(now units.Time, q congestion.Queue) units.Time {
	if s.tick == 0 {
		return units.Never
	}
	s.log("tick", now, q, "-")
	if s.ticked != nil {
		s.ticked(now, q)
	}
	if now >= 3*s.tick {
		return units.Never
	}
	return now + s.tick
}

// TestPointSees checks the transcript of all calls of a point: the queue excludes
// the packet in question and the one being sent.
func TestPointSees(t *testing.T) {
	d := newDumbbell(3000, func(d *dumbbell) congestion.Point {
		return &scripted{d: d, tick: 10 * units.Microsecond, ticked: func(units.Time, congestion.Queue) { d.env.Send(d.own(d.from.id)) }}
	})
	d.until(0)
	for range 4 {
		d.from.port.Send(0, d.packet(d.from.id, d.to.id, bigFrame))
	}
	d.finish()
	want := []string{
		"0s tick -: 0 packets, 0 of 3000 bytes, 1Gbps",
		"0s enqueue 0: 0 packets, 0 of 3000 bytes, 1Gbps",
		"0s dequeue 0: 0 packets, 0 of 3000 bytes, 1Gbps",
		"0s enqueue 1: 0 packets, 0 of 3000 bytes, 1Gbps",
		"0s enqueue 2: 1 packets, 1476 of 3000 bytes, 1Gbps",
		// The fourth packet does not fit, so the point is not asked.
		"10us tick -: 2 packets, 2952 of 3000 bytes, 1Gbps",
		"12us dequeue 1: 1 packets, 1476 of 3000 bytes, 1Gbps",
		"20us tick -: 1 packets, 1476 of 3000 bytes, 1Gbps",
		"24us dequeue 2: 0 packets, 0 of 3000 bytes, 1Gbps",
		"30us tick -: 0 packets, 0 of 3000 bytes, 1Gbps",
	}
	if diff := cmp.Diff(want, d.seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The packets that it sent at its ticks reached the sender.
	us := units.Microsecond
	if diff := cmp.Diff([]came{{0, 1000}, {10 * us, 1001}, {20 * us, 1002}, {30 * us, 1003}}, d.from.got); diff != "" {
		t.Errorf("feedback (-want +got):\n%s", diff)
	}
	if d.sw.OriginatedPackets() != 4 {
		t.Errorf("%d packets originated, want 4", d.sw.OriginatedPackets())
	}
}

// TestPointDropsAtDequeue: a packet dropped at its turn takes no time on the link;
// the next is sent at once.
func TestPointDropsAtDequeue(t *testing.T) {
	d := newDumbbell(plenty, func(d *dumbbell) congestion.Point {
		return &scripted{d: d, dequeue: func(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
			if p.ID%3 == 0 {
				return packet.EarlyDrop
			}
			return packet.Fine
		}}
	})
	for range 8 {
		d.from.port.Send(0, d.packet(d.from.id, d.to.id, bigFrame))
	}
	d.finish()
	// 0 is dropped while the port is idle; 1, 2, 4, 5, 7 follow one another.
	want := []came{{bigTime, 1}, {2 * bigTime, 2}, {3 * bigTime, 4}, {4 * bigTime, 5}, {5 * bigTime, 7}}
	if diff := cmp.Diff(want, d.to.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c := d.bottleneck.Counters(0)
	if c.Drops[packet.EarlyDrop] != 3 || c.TxPackets != 5 || d.pool.LivePackets() != 0 {
		t.Errorf("counters %+v, live %d", c, d.pool.LivePackets())
	}
}

// TestPointRewrites: a point's change of a packet's length counts.
func TestPointRewrites(t *testing.T) {
	// Trimmed to 101 bytes, eight frames fit where two did.
	d := newDumbbell(3000, func(d *dumbbell) congestion.Point {
		return &scripted{d: d, enqueue: func(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
			if q.Packets > 0 {
				p.Size = smallFrame
			}
			return packet.Fine
		}}
	})
	for range 9 {
		d.from.port.Send(0, d.packet(d.from.id, d.to.id, bigFrame))
	}
	d.until(0)
	// One is being sent and one waits untrimmed; the rest join while a whole frame
	// would fit in addition.
	if n, b := d.bottleneck.QueueLength(d.engine.Now()); n != 2 || b != bigFrame+smallFrame {
		t.Errorf("%d packets of %d bytes wait", n, b)
	}
	d.finish()
	want := []came{{bigTime, 0}, {2 * bigTime, 1}, {2*bigTime + smallTime, 2}}
	if diff := cmp.Diff(want, d.to.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Stamped with 100 bytes more, the second waiting frame does not fit.
	d = newDumbbell(2*bigFrame+150, func(d *dumbbell) congestion.Point {
		return &scripted{d: d, enqueue: func(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
			p.Size += 100
			return packet.Fine
		}}
	})
	for range 3 {
		d.from.port.Send(0, d.packet(d.from.id, d.to.id, bigFrame))
	}
	d.until(0)
	if n, b := d.bottleneck.QueueLength(d.engine.Now()); n != 1 || b != bigFrame+100 {
		t.Errorf("%d packets of %d bytes wait, the limit is %d", n, b, d.bottleneck.Limit())
	}
	if c := d.bottleneck.Counters(0); c.Drops[packet.QueueFull] != 1 {
		t.Errorf("counters %+v", c)
	}
}

// TestPointSendsThroughItsOwnPort: feedback for each packet through the port that
// is handling it. No two packets are sent at the same time, and none is lost.
func TestPointSendsThroughItsOwnPort(t *testing.T) {
	reply := func(d *dumbbell) func(units.Time, congestion.Queue, *packet.Packet) packet.Fate {
		return func(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
			if p.ID < 1000 {
				d.env.Send(d.own(d.to.id))
			}
			return packet.Fine
		}
	}
	for name, c := range map[string]struct {
		point func(d *dumbbell) congestion.Point
		want  []came
	}{
		// A packet sent at Enqueue is in the queue before the packet.
		"enqueue": {func(d *dumbbell) congestion.Point { return &scripted{d: d, enqueue: reply(d)} }, []came{
			{smallTime, 1000}, {smallTime + bigTime, 0}, {2*smallTime + bigTime, 1001}, {2*smallTime + 2*bigTime, 1}}},
		// A packet sent at Dequeue is queued after all that wait.
		"dequeue": {func(d *dumbbell) congestion.Point { return &scripted{d: d, dequeue: reply(d)} }, []came{
			{bigTime, 0}, {bigTime + smallTime, 1000}, {2*bigTime + smallTime, 1}, {2*bigTime + 2*smallTime, 1001}}},
		"dequeue, dropped": {func(d *dumbbell) congestion.Point {
			s := &scripted{d: d}
			s.dequeue = func(now units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
				reply(d)(now, q, p)
				if p.ID == 0 {
					return packet.EarlyDrop
				}
				return packet.Fine
			}
			return s
		}, []came{{smallTime, 1000}, {smallTime + bigTime, 1}, {2*smallTime + bigTime, 1001}}},
	} {
		d := newDumbbell(plenty, c.point)
		for range 2 {
			d.from.port.Send(0, d.packet(d.from.id, d.to.id, bigFrame))
		}
		d.finish()
		if diff := cmp.Diff(c.want, d.to.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if d.pool.LivePackets() != 0 {
			t.Errorf("%s: %d live", name, d.pool.LivePackets())
		}
	}
}

// watch records what leaves the ports it observes, and checks that nothing is seen
// twice.
type watch struct {
	t    *rapid.T
	seen map[string]bool
	out  map[*port.Port][]departure
	ends map[packet.Fate]int // packets whose end was seen
}

type departure struct {
	at units.Time
	tx units.Time
}

func (w *watch) Observe(now units.Time, at *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	key := fmt.Sprint(at.Name, dir, p.ID, p.Dest)
	if w.seen[key] {
		w.t.Fatalf("packet %d is seen twice at %s", p.ID, at.Name)
	}
	w.seen[key] = true
	if fate.IsDrop() {
		w.ends[fate]++
	}
	if dir == port.Out && (!fate.IsDrop() || fate >= packet.LinkLoss && fate <= packet.TooBig) {
		w.out[at] = append(w.out[at], departure{now, at.Link().Settings().Rate.TimeOf(packet.OnWire(p.Size))})
	}
}

// TestPointMisbehaves: a point that marks, trims, drops and sends packets at
// random, to any endpoint, does not corrupt the port's accounts or its timing.
func TestPointMisbehaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := units.Bytes(rapid.IntRange(1500, 6000).Draw(t, "limit"))
		w := &watch{t: t, seen: map[string]bool{}, out: map[*port.Port][]departure{}, ends: map[packet.Fate]int{}}
		d := newDumbbell(limit, func(d *dumbbell) congestion.Point {
			act := func(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
				if p.ID >= 1000 {
					return packet.Fine
				}
				for range rapid.IntRange(0, 2).Draw(t, "own packets") {
					// 3 has no route.
					d.env.Send(d.own(packet.Endpoint(rapid.IntRange(-1, 3).Draw(t, "to"))))
				}
				switch rapid.IntRange(0, 5).Draw(t, "act") {
				case 0:
					return packet.EarlyDrop
				case 1:
					p.MarkCE()
					return packet.Marked
				case 2:
					p.Size = smallFrame
				}
				return packet.Fine
			}
			s := &scripted{d: d, tick: 7 * units.Microsecond}
			if rapid.Bool().Draw(t, "at enqueue") {
				s.enqueue = act
			}
			if rapid.Bool().Draw(t, "at dequeue") {
				s.dequeue = act
			}
			s.ticked = func(units.Time, congestion.Queue) { d.env.Send(d.own(d.to.id)) }
			return s
		})
		for _, p := range append(d.sw.Ports, d.from.port, d.to.port, d.other.port) {
			p.SetObserver(0, w)
		}
		var now units.Time
		var sent int
		for range rapid.IntRange(1, 40).Draw(t, "packets") {
			now += units.Time(rapid.SampledFrom([]int64{0, 0, 1_000_000, 5_000_000, 12_000_000, 40_000_000}).Draw(t, "gap"))
			d.until(now)
			d.from.port.Send(now, d.packet(d.from.id, d.to.id, bigFrame))
			sent++
			d.until(now)
			if _, b := d.bottleneck.QueueLength(d.engine.Now()); b > limit {
				t.Fatalf("%d bytes wait, the limit is %d", b, limit)
			}
		}
		d.finish()
		for p, list := range w.out {
			for i := 1; i < len(list); i++ {
				if list[i].at < list[i-1].at+list[i-1].tx {
					t.Fatalf("%s sends at %v and again at %v, within %v", p.Name, list[i-1].at, list[i].at, list[i-1].tx)
				}
			}
		}
		if n, b := d.bottleneck.QueueLength(d.engine.Now()); n != 0 || b != 0 || d.pool.LivePackets() != 0 {
			t.Fatalf("at the end %d packets of %d bytes wait, %d are live", n, b, d.pool.LivePackets())
		}
		// Every packet of the sender and every packet of the point reached a host
		// or was seen to be dropped.
		arrived := len(d.from.got) + len(d.to.got) + len(d.other.got)
		var ends int
		for _, n := range w.ends {
			ends += n
		}
		if in := sent + int(d.sw.OriginatedPackets()+d.sw.ReplicatedPackets()); in != arrived+ends+int(d.sw.UnsentPackets()) {
			t.Fatalf("%d sent, %d of the switch, %d copies: %d arrived, %d dropped %v", sent, d.sw.OriginatedPackets(), d.sw.ReplicatedPackets(), arrived, ends, w.ends)
		}
		if c := d.bottleneck.Counters(now); c.TxPackets != uint64(len(w.out[d.bottleneck])) || c.DroppedPackets() != uint64(ends) {
			t.Fatalf("counters %+v; seen %d leave, %d dropped", c, len(w.out[d.bottleneck]), ends)
		}
	})
}
