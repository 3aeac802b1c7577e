package links

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// rig is a link between a test that sends and a list of what arrived.
type rig struct {
	engine sim.Engine
	pool   packet.Pool
	link   *Link
	sent   uint64
	got    []landed
	fates  [packet.FateCount]uint64
}

// landed is a packet that arrived from the link.
type landed struct {
	at  units.Time
	id  uint64
	bad bool
}

func newRig(s Settings) *rig {
	r := &rig{}
	side := End{Engine: &r.engine, Pool: &r.pool}
	r.link = new(Link).InitLink(new(Flight), side, side, nil, sim.NewRand(1, "link"), s, r)
	return r
}

func (r *rig) ReceivePacket(now units.Time, p *packet.Packet) {
	r.got = append(r.got, landed{now, p.ID, p.BadFCS})
	r.pool.Free(p)
}

// carry sends the next packet, an IPv4 packet of size bytes, at now.
func (r *rig) carry(now, tx units.Time, size units.Bytes) packet.Fate {
	r.until(now)
	p := r.pool.New()
	p.ID, p.Size, p.Version = r.sent, size+wire.EthernetHeader, 4
	r.sent++
	fate := r.admit(now, tx, p)
	r.fates[fate]++
	if fate != packet.Fine {
		r.pool.Free(p)
	}
	return fate
}

// admit hands p to the link; if the link refuses it, it stays the caller's.
func (r *rig) admit(now, tx units.Time, p *packet.Packet) packet.Fate {
	fate := r.link.DecideFate(now, tx, p)
	if fate == packet.Fine {
		r.link.LaunchPacket(p)
	}
	return fate
}

// until runs all events up to and including now.
func (r *rig) until(now units.Time) {
	r.engine.Run(now, math.MaxInt)
	r.engine.AdvanceTo(now)
}

// finish lets everything arrive.
func (r *rig) finish() { r.engine.Run(units.Never-1, math.MaxInt) }

// good are settings that do not affect packets.
var good = Settings{Rate: units.Gbps, MTU: 1500, Up: true}

func with(change func(*Settings)) Settings {
	s := good
	change(&s)
	return s
}

func ids(got []landed) (ids []uint64) {
	for _, a := range got {
		ids = append(ids, a.id)
	}
	return ids
}

// TestAgainstModel changes delay, MTU and state at random while packets of random
// length are sent back to back. In the model a packet arrives at start +
// serialisation + delay, or with its predecessor if that is later; going down loses
// all packets that have not arrived.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(good)
		var now units.Time
		var want, flying []landed
		var cut uint64
		land := func() {
			for len(flying) > 0 && flying[0].at <= now {
				want, flying = append(want, flying[0]), flying[1:]
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := r.link.Settings()
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); op {
			case 0:
				s.Delay = units.Time(rapid.Int64Range(0, 50_000).Draw(t, "delay"))
			case 1:
				s.MTU = units.Bytes(rapid.SampledFrom([]int{100, 576, 1500}).Draw(t, "mtu"))
			case 2:
				s.Up = !s.Up
				s.Delay = units.Time(rapid.Int64Range(0, 50_000).Draw(t, "delay"))
			default:
				now += units.Time(rapid.SampledFrom([]int{0, 0, 7, 900}).Draw(t, "gap"))
				tx := units.Time(rapid.Int64Range(0, 12_000).Draw(t, "tx"))
				size := units.Bytes(rapid.SampledFrom([]int{46, 100, 101, 576, 577, 1500, 1501}).Draw(t, "size"))
				land()
				id, fate := r.sent, packet.Fine
				switch {
				case !s.Up:
					fate = packet.LinkDown
				case size > s.MTU:
					fate = packet.TooBig
				default:
					at := now + tx + s.Delay
					if len(flying) > 0 {
						at = max(at, flying[len(flying)-1].at)
					}
					flying = append(flying, landed{at: at, id: id})
				}
				if got := r.carry(now, tx, size); got != fate {
					t.Fatalf("packet %d of %d bytes: %v, want %v", id, size, got, fate)
				}
				now += tx
				continue
			}
			r.until(now)
			land()
			if !s.Up {
				cut += uint64(len(flying))
				flying = nil
			}
			r.link.Set(s)
			if r.link.InFlight() != len(flying) || r.pool.LivePackets() != len(flying) || r.link.Counters().Cut != cut {
				t.Fatalf("%d under way and %d live, cut %d; want %d, %d", r.link.InFlight(), r.pool.LivePackets(), r.link.Counters().Cut, len(flying), cut)
			}
		}
		r.finish()
		now = units.Never
		land()
		if diff := gocmp.Diff(want, r.got, gocmp.AllowUnexported(landed{})); diff != "" {
			t.Fatalf("landings (-want +got):\n%s", diff)
		}
		if r.link.Counters().Delivered != uint64(len(want)) || r.pool.LivePackets() != 0 {
			t.Fatalf("delivered %d, live %d; want %d, 0", r.link.Counters().Delivered, r.pool.LivePackets(), len(want))
		}
	})
}

// drawSettings returns settings with any effects; with disorder only if disorder is set.
func drawSettings(t *rapid.T, disorder bool) Settings {
	share := func(name string) units.Fraction {
		return rapid.SampledFrom([]units.Fraction{0, 0, 0.1, 0.5}).Draw(t, name)
	}
	s := Settings{
		Delay: units.Time(rapid.Int64Range(0, 50_000).Draw(t, "delay")), MTU: 1500, Up: true,
		Loss: share("loss"), Corrupt: share("corrupt"), Duplicate: share("duplicate"),
		Jitter:             units.Time(rapid.SampledFrom([]int{0, 300, 30_000}).Draw(t, "jitter")),
		JitterDistribution: rapid.SampledFrom([]Distribution{Uniform, Normal, Exponential, Pareto}).Draw(t, "law"),
	}
	if rapid.Bool().Draw(t, "match") {
		s.DropMatch = Match{[]pattern{{0x000f, 3}}}
	}
	if disorder {
		s.Reorder, s.ReorderBy = share("reorder"), 20_000
		s.JitterReorder = rapid.Bool().Draw(t, "jitter reorders")
	}
	return s
}

// TestOrderIsKept: without disorder, no change of settings lets a packet overtake or
// arrive before its delay is over.
func TestOrderIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(good)
		var now units.Time
		var earliest []units.Time
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			r.until(now)
			r.link.Set(drawSettings(t, false))
			for range rapid.IntRange(1, 30).Draw(t, "packets") {
				tx := units.Time(rapid.SampledFrom([]int{0, 67, 1200}).Draw(t, "tx"))
				r.carry(now, tx, 1500)
				earliest = append(earliest, now+tx+r.link.Settings().Delay)
				now += tx
			}
		}
		r.finish()
		if !slices.IsSortedFunc(r.got, func(a, b landed) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) }) {
			t.Fatalf("out of order: %v", r.got)
		}
		for _, a := range r.got {
			if a.at < earliest[a.id] {
				t.Fatalf("packet %d arrives at %d, its delay is over at %d", a.id, a.at, earliest[a.id])
			}
		}
	})
}

// TestNothingIsLostFromTheBooks: at every moment, each packet carried or copied was
// delivered, lost, cut or is in flight.
func TestNothingIsLostFromTheBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(good)
		var now units.Time
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			s := drawSettings(t, true)
			s.Up = rapid.IntRange(0, 3).Draw(t, "down") > 0
			r.until(now)
			r.link.Set(s)
			for range rapid.IntRange(1, 30).Draw(t, "packets") {
				tx := units.Time(rapid.SampledFrom([]int{0, 67, 1200, 30_000}).Draw(t, "tx"))
				r.carry(now, tx, units.Bytes(rapid.SampledFrom([]int{46, 1500, 1501}).Draw(t, "size")))
				now += tx
				c := r.link.Counters()
				lost := r.sent - r.fates[packet.Fine]
				if in, out := r.sent+c.Duplicated, c.Delivered+lost+c.Cut+uint64(r.link.InFlight()); in != out {
					t.Fatalf("%d carried and copied, %d accounted for: %+v, lost %d, under way %d", in, out, c, lost, r.link.InFlight())
				}
				if uint64(len(r.got)) != c.Delivered || r.pool.LivePackets() != r.link.InFlight() {
					t.Fatalf("%d arrived, counted %d; %d live, under way %d", len(r.got), c.Delivered, r.pool.LivePackets(), r.link.InFlight())
				}
			}
		}
		r.finish()
		if r.link.InFlight() != 0 || r.pool.LivePackets() != 0 {
			t.Fatalf("all has arrived, but %d are under way and %d live", r.link.InFlight(), r.pool.LivePackets())
		}
	})
}

// within fails unless n of trials matches a probability of p, within four and a half
// standard deviations.
func within(t *testing.T, what string, n, trials uint64, p float64) {
	t.Helper()
	mean := p * float64(trials)
	if spread := 4.5 * math.Sqrt(mean*(1-p)); math.Abs(float64(n)-mean) > spread {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", what, n, trials, mean, spread)
	}
}

// TestShares measures the share of each random setting over many packets, overall
// and after an affected packet: packets are affected independently.
func TestShares(t *testing.T) {
	const packets = 100_000
	for _, p := range []units.Fraction{0.0005, 0.25, 1} {
		for name, set := range map[string]func(*Settings){
			"loss":      func(s *Settings) { s.Loss = p },
			"corrupt":   func(s *Settings) { s.Corrupt = p },
			"duplicate": func(s *Settings) { s.Duplicate = p },
			"reorder":   func(s *Settings) { s.Reorder, s.ReorderBy = p, 10*units.Nanosecond },
		} {
			r := newRig(with(set))
			hit := make([]bool, packets)
			for i := range hit {
				before := r.link.Counters()
				fate := r.carry(units.Time(i)*units.Microsecond, 0, 100)
				after := r.link.Counters()
				hit[i] = fate == packet.LinkLoss || after.Corrupted+after.Duplicated+after.Reordered > before.Corrupted+before.Duplicated+before.Reordered
				if fate != packet.Fine && fate != packet.LinkLoss {
					t.Fatalf("%s: %v", name, fate)
				}
			}
			r.finish()
			var hits, pairs, bad, late uint64
			for i, h := range hit {
				if h {
					hits++
				}
				if h && i > 0 && hit[i-1] {
					pairs++
				}
			}
			for _, a := range r.got {
				if a.bad {
					bad++
				}
				if a.at%units.Microsecond != 0 {
					late++
				}
			}
			title := name + " " + p.String()
			within(t, title, hits, packets, float64(p))
			within(t, title+" twice in a row", pairs, packets-1, float64(p*p))
			c := r.link.Counters()
			want := map[string]landings{
				"loss":      {packets - hits, 0, 0},
				"corrupt":   {packets, hits, 0},
				"duplicate": {packets + hits, 0, 0},
				"reorder":   {packets, 0, hits},
			}[name]
			if got := (landings{uint64(len(r.got)), bad, late}); got != want || c.Corrupted != bad || c.Reordered != late {
				t.Errorf("%s: arrived %+v, counted %+v; want %+v", title, got, c, want)
			}
		}
	}
}

// landings counts the packets that arrived, and how many of them were damaged or late.
type landings struct{ all, bad, late uint64 }

// TestJitterLaws measures the extra delay of each distribution: mean, spread,
// bounds, and the share beyond some values.
func TestJitterLaws(t *testing.T) {
	const packets = 100_000
	const jitter = 10 * units.Microsecond
	const unbounded = math.MaxFloat64
	type beyond struct{ x, share float64 }
	for _, c := range []struct {
		law                          Distribution
		mean, sd, minDelay, maxDelay float64 // in units of the jitter; sd 0: not measured
		tail                         []beyond
	}{
		{Uniform, 0.5, 1 / math.Sqrt(12), 0, 1, []beyond{{0.25, 0.75}, {0.9, 0.1}}},
		// 0 is four standard deviations away, so the cut does not show.
		{Normal, 1, 0.25, 0, unbounded, []beyond{{1, 0.5}, {1.25, 0.158655}, {1.5, 0.02275}}},
		{Exponential, 1, 1, 0, unbounded, []beyond{{1, 1 / math.E}, {3, math.Exp(-3)}}},
		// The fourth moment is infinite, so the sample's spread says little; the
		// tail is checked instead.
		{Pareto, 1, 0, 2. / 3, unbounded, []beyond{{1, 8. / 27}, {2, 1. / 27}, {4, 1. / 216}}},
	} {
		t.Run(c.law.String(), func(t *testing.T) {
			// Reordering shows each packet's own delay.
			r := newRig(with(func(s *Settings) {
				s.Delay, s.Jitter, s.JitterDistribution, s.JitterReorder = units.Millisecond, jitter, c.law, true
			}))
			const gap = units.Microsecond
			for i := range packets {
				r.carry(units.Time(i)*gap, 0, 100)
			}
			r.finish()
			var sum, squares float64
			count := make([]uint64, len(c.tail))
			for _, a := range r.got {
				x := float64(a.at-units.Time(a.id)*gap-units.Millisecond) / float64(jitter)
				if x < c.minDelay-1e-6 || x > c.maxDelay {
					t.Fatalf("%v jitters, outside %v to %v", x, c.minDelay, c.maxDelay)
				}
				sum += x
				squares += x * x
				for i, b := range c.tail {
					if x > b.x {
						count[i]++
					}
				}
			}
			mean := sum / packets
			sd := math.Sqrt(squares/packets - mean*mean)
			if math.Abs(mean-c.mean) > 0.015*c.mean {
				t.Errorf("mean %.4f of the jitter, want %v", mean, c.mean)
			}
			if c.sd > 0 && math.Abs(sd-c.sd) > 0.02*c.sd {
				t.Errorf("standard deviation %.4f of the jitter, want %.4f", sd, c.sd)
			}
			for i, b := range c.tail {
				within(t, "beyond "+units.Fraction(b.x).String()+" of the jitter", count[i], packets, b.share)
			}
		})
	}
}

// TestJitterAndOrder: jitter far beyond the gaps keeps the order unless it
// may reorder, and then it does.
func TestJitterAndOrder(t *testing.T) {
	for law := Uniform; law <= Pareto; law++ {
		for _, reorder := range []bool{false, true} {
			r := newRig(with(func(s *Settings) {
				s.Jitter, s.JitterDistribution, s.JitterReorder = 10*units.Microsecond, law, reorder
			}))
			for i := range 1000 {
				r.carry(units.Time(i)*units.Nanosecond, 0, 100)
			}
			r.finish()
			if len(r.got) != 1000 || slices.IsSorted(ids(r.got)) == reorder {
				t.Errorf("%v: %d arrived, in order %v with jitter-reorder %v", law, len(r.got), slices.IsSorted(ids(r.got)), reorder)
			}
			if !slices.IsSortedFunc(r.got, func(a, b landed) int { return cmp.Compare(a.at, b.at) }) {
				t.Errorf("%v: delivered out of the order of time", law)
			}
		}
	}
}

// TestHeldBack: a packet that is held back arrives exactly ReorderBy later and
// delays no other; at the same instant, in-order packets come first.
func TestHeldBack(t *testing.T) {
	r := newRig(with(func(s *Settings) { s.Delay, s.Reorder, s.ReorderBy = 100, 1, 30 }))
	r.carry(0, 5, 100)
	r.link.Set(with(func(s *Settings) { s.Delay = 100 }))
	r.carry(10, 5, 100)
	r.carry(15, 5, 100)
	r.carry(30, 5, 100) // arrives with the one held back
	r.carry(35, 5, 100)
	r.finish()
	want := []landed{{at: 115, id: 1}, {at: 120, id: 2}, {at: 135, id: 3}, {at: 135, id: 0}, {at: 140, id: 4}}
	if diff := gocmp.Diff(want, r.got, gocmp.AllowUnexported(landed{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDown: packets in flight are lost, including those held back, and so are
// packets sent while the link is down; after it comes up, the link works as before.
func TestDown(t *testing.T) {
	r := newRig(with(func(s *Settings) { s.Delay = units.Second }))
	r.carry(0, 10, 100)
	r.carry(10, 10, 100)
	r.link.Set(with(func(s *Settings) { s.Delay, s.Reorder, s.ReorderBy = units.Second, 1, units.Second }))
	r.carry(20, 10, 100)
	if r.link.InFlight() != 3 {
		t.Fatalf("%d under way, want 3", r.link.InFlight())
	}
	r.link.Set(Settings{MTU: 1500})
	if fate := r.carry(30, 10, 100); fate != packet.LinkDown {
		t.Errorf("sent into a link that is down: %v", fate)
	}
	if c := r.link.Counters(); c.Cut != 3 || r.link.InFlight() != 0 || r.pool.LivePackets() != 0 {
		t.Errorf("cut %d, under way %d, live %d; want 3, 0, 0", c.Cut, r.link.InFlight(), r.pool.LivePackets())
	}
	r.link.Set(with(func(s *Settings) { s.Delay = units.Microsecond }))
	if fate := r.carry(40, 10, 100); fate != packet.Fine {
		t.Errorf("up again: %v", fate)
	}
	r.finish()
	if want := []landed{{at: 50 + units.Microsecond, id: 4}}; !slices.Equal(r.got, want) {
		t.Errorf("arrived %v, want %v: a packet that was cut holds up no other", r.got, want)
	}
}

// downer takes the link down when a packet arrives.
type downer struct{ *rig }

func (d downer) ReceivePacket(now units.Time, p *packet.Packet) {
	d.rig.ReceivePacket(now, p)
	d.link.Set(Settings{})
}

// TestDownOnArrival: the far port may change the link while it delivers.
func TestDownOnArrival(t *testing.T) {
	r := newRig(good)
	r.link.flight.to = downer{r}
	for range 3 {
		r.carry(0, 10, 100)
	}
	r.finish()
	if len(r.got) != 1 || r.link.Counters().Cut != 2 || r.pool.LivePackets() != 0 {
		t.Errorf("arrived %d, cut %d, live %d; want 1, 2, 0", len(r.got), r.link.Counters().Cut, r.pool.LivePackets())
	}
}

// TestMTU: the limit applies to the layer-3 packet, whatever tags precede it.
func TestMTU(t *testing.T) {
	r := newRig(good)
	for _, c := range []struct {
		l3     uint16
		packet int
		want   packet.Fate
	}{{14, 1500, packet.Fine}, {14, 1501, packet.TooBig}, {18, 1500, packet.Fine}, {18, 1501, packet.TooBig}, {22, 1500, packet.Fine}} {
		p := r.pool.NewFrame(int(c.l3) + c.packet)
		p.L3, p.Size = c.l3, units.Bytes(len(p.Frame))
		if got := r.admit(0, 0, p); got != c.want {
			t.Errorf("%d bytes behind %d: %v, want %v", c.packet, c.l3, got, c.want)
		}
	}
	if fate := r.carry(0, 0, 1501); fate != packet.TooBig {
		t.Errorf("a modelled packet of 1501 bytes: %v", fate)
	}
}

// TestOrderOfLosses: if there are several reasons to lose a packet, the first in the
// list applies, and an IPv6 packet has no identification to match.
func TestOrderOfLosses(t *testing.T) {
	all := Settings{MTU: 100, Loss: 1, DropMatch: Match{[]pattern{{}}}}
	up := all
	up.Up = true
	for _, c := range []struct {
		s       Settings
		version uint8
		size    units.Bytes
		want    packet.Fate
	}{
		{all, 4, 1000, packet.LinkDown}, {up, 4, 1000, packet.TooBig}, {up, 4, 114, packet.LinkMatch}, {up, 6, 114, packet.LinkLoss}, {up, 0, 60, packet.LinkLoss},
	} {
		r := newRig(c.s)
		p := r.pool.New()
		p.Version, p.Size = c.version, c.size
		if got := r.admit(0, 0, p); got != c.want {
			t.Errorf("version %d, %d bytes: %v, want %v", c.version, c.size, got, c.want)
		}
	}
}

// TestDropMatchIsPeriodic: if a sender counts its packets, exactly every 4096th is lost.
func TestDropMatchIsPeriodic(t *testing.T) {
	m, err := ParseMatch("ip-id=0x*fff")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(with(func(s *Settings) { s.DropMatch = m }))
	for i := range 1 << 17 {
		p := r.pool.New()
		p.Version, p.IPID, p.Size = 4, uint16(i), 100
		fate := r.admit(0, 0, p)
		if (fate == packet.LinkMatch) != (i%4096 == 4095) {
			t.Fatalf("packet %d: %v", i, fate)
		}
	}
}

// TestDuplicateHasItsOwnBytes: the copy of a frame arrives with the original
// and is another packet.
func TestDuplicateHasItsOwnBytes(t *testing.T) {
	r := newRig(with(func(s *Settings) { s.Duplicate = 1 }))
	var got []*packet.Packet
	r.link.flight.to = receiver(func(_ units.Time, p *packet.Packet) { got = append(got, p) })
	p := r.pool.NewFrame(100)
	p.Size, p.L3 = 100, 14
	copy(p.Frame, "weft")
	r.admit(0, 10, p)
	r.finish()
	if len(got) != 2 || got[0] == got[1] || string(got[0].Frame) != string(got[1].Frame) {
		t.Fatalf("arrived %v", got)
	}
	if got[0].Frame[0] = 'X'; got[1].Frame[0] != 'w' {
		t.Error("the copy shares the original's bytes")
	}
}

type receiver func(units.Time, *packet.Packet)

func (f receiver) ReceivePacket(now units.Time, p *packet.Packet) { f(now, p) }

// TestSameSeedSameLink: a link's randomness depends only on its stream.
func TestSameSeedSameLink(t *testing.T) {
	run := func(seed uint64) []landed {
		r := newRig(good)
		s := Settings{MTU: 1500, Up: true, Loss: 0.1, Corrupt: 0.1, Duplicate: 0.1, Reorder: 0.1, ReorderBy: 5000, Jitter: 1000, JitterDistribution: Pareto}
		r.link = new(Link).InitLink(new(Flight), End{Engine: &r.engine, Pool: &r.pool}, End{Engine: &r.engine, Pool: &r.pool}, nil, sim.NewRand(seed, "link"), s, r)
		for i := range 500 {
			r.carry(units.Time(i)*100, 0, 100)
		}
		r.finish()
		return r.got
	}
	if !slices.Equal(run(7), run(7)) {
		t.Error("two runs of one seed differ")
	}
	if slices.Equal(run(7), run(8)) {
		t.Error("two seeds give the same run")
	}
}

// TestLateQueue compares the heap with a stable sort.
func TestLateQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q lateQueue
		var model []*packet.Packet
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "op") > 0 || len(model) == 0 {
				p := &packet.Packet{At: units.Time(rapid.IntRange(0, 9).Draw(t, "at"))}
				q.pushPacket(p)
				model = append(model, p)
				slices.SortStableFunc(model, func(a, b *packet.Packet) int { return cmp.Compare(a.At, b.At) })
			} else {
				if q.peekPacket() != model[0] || q.popPacket() != model[0] {
					t.Fatal("the heap gives another packet than the sorted list")
				}
				model = model[1:]
			}
		}
		if q.length() != len(model) {
			t.Fatalf("%d packets, want %d", q.length(), len(model))
		}
	})
}
