package port

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// rig is a port, the link that leaves it, and the port at the link's end.
type rig struct {
	engine   sim.Engine
	pool     packet.Pool
	from, to *Port
	link     *links.Link
	sent     uint64
	departed []event // first bit on the link
	dropped  []event // at the queue
	arrived  []event // last bit at the far port
	refuse   packet.Fate
}

// event is an event of a packet.
type event struct {
	At units.Time
	ID uint64
}

func newRig(rate units.Rate, limit units.Bytes) *rig {
	r := &rig{}
	r.from = New(&r.engine, &r.pool, "a:1", 0, r, limit)
	r.to = New(&r.engine, &r.pool, "b:1", 0, r, limit)
	side := links.End{Engine: &r.engine, Pool: &r.pool}
	r.link = new(links.Link).InitLink(new(links.Flight), side, side, nil, sim.NewRand(1, "a:1"), links.Settings{Rate: rate, MTU: 9000, Up: true}, r.to)
	r.from.ConnectLink(r.link)
	r.from.SetObserver(r.engine.Now(), r)
	return r
}

func (r *rig) InputPacket(now units.Time, in *Port, p *packet.Packet) {
	if r.refuse != packet.Fine {
		in.DiscardPacket(now, p, r.refuse)
		return
	}
	r.arrived = append(r.arrived, event{now, p.ID})
	r.pool.Free(p)
}

func (r *rig) PeekFate(units.Time, *Port, *packet.Packet) packet.Fate { return r.refuse }

func (r *rig) Observe(now units.Time, _ *Port, dir Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	if dir == In {
		return
	}
	switch fate {
	case packet.QueueFull, packet.EarlyDrop, packet.NoRoute:
		r.dropped = append(r.dropped, event{now, p.ID})
	default:
		r.departed = append(r.departed, event{now, p.ID})
	}
}

// send gives the port a frame of size bytes at now, after all events due
// until then.
func (r *rig) send(now units.Time, size units.Bytes) *packet.Packet {
	r.until(now)
	p := r.pool.New()
	p.ID, p.Size, p.Version, p.TOS = r.sent, size, 4, 2
	r.sent++
	r.from.Send(now, p)
	return p
}

func (r *rig) until(now units.Time) {
	r.engine.Run(now, math.MaxInt)
	r.engine.AdvanceTo(now)
}

func (r *rig) finish() { r.engine.Run(units.Never-1, math.MaxInt) }

func (r *rig) rate(rate units.Rate) {
	s := r.link.Settings()
	s.Rate = rate
	r.from.SetLink(r.engine.Now(), s)
}

// TestSerialisation: a frame occupies the link for its bytes, at least 60, and 24
// more. The times are computed by hand.
func TestSerialisation(t *testing.T) {
	for _, c := range []struct {
		size units.Bytes
		rate units.Rate
		want units.Time
	}{
		{1514, 10 * units.Gbps, 1_230_400}, {1514, 100 * units.Gbps, 123_040}, {1514, 25 * units.Gbps, 492_160},
		{60, 10 * units.Gbps, 67_200}, {61, 10 * units.Gbps, 68_000}, {42, 10 * units.Gbps, 67_200}, {1, 10 * units.Gbps, 67_200},
		{60, 9 * units.Gbps, 74_667}, // 74666.6 ps, rounded up, as a packet does not end early
		{60, units.Mbps, 672 * units.Microsecond}, {9014, 400 * units.Gbps, 180_760}, {1514, 0, 0},
	} {
		r := newRig(c.rate, units.MB)
		r.send(5000, c.size)
		r.finish()
		if want := []event{{5000 + c.want, 0}}; !cmp.Equal(r.arrived, want) {
			t.Errorf("%d bytes at %v sent at 5000 ps: %v, want %v", c.size, c.rate, r.arrived, want)
		}
	}
}

// TestBackToBack: waiting packets leave exactly one serialisation apart, and an
// idle port sends at once, also exactly at the end of the previous packet.
func TestBackToBack(t *testing.T) {
	const tx = 1_230_400
	r := newRig(10*units.Gbps, units.MB)
	for range 4 {
		r.send(100, 1514)
	}
	if n, b := r.from.QueueLength(r.engine.Now()); n != 3 || b != 3*1514 {
		t.Errorf("%d packets of %d bytes wait, want 3 of 4542: the one being sent does not count", n, b)
	}
	r.send(100+4*tx, 1514)
	r.send(100+5*tx+7, 1514)
	r.finish()
	want := []event{{100, 0}, {100 + tx, 1}, {100 + 2*tx, 2}, {100 + 3*tx, 3}, {100 + 4*tx, 4}, {100 + 5*tx + 7, 5}}
	if diff := cmp.Diff(want, r.departed); diff != "" {
		t.Errorf("departures (-want +got):\n%s", diff)
	}
}

// TestUnlimitedRate: nothing ever waits.
func TestUnlimitedRate(t *testing.T) {
	r := newRig(0, 1514)
	for i := range units.Time(5) {
		for range 3 {
			r.send(i, 1514)
		}
	}
	r.finish()
	if len(r.arrived) != 15 || r.arrived[14].At != 4 || r.from.Counters(4).MaxQueue != 0 {
		t.Errorf("arrived %v, longest queue %d", r.arrived, r.from.Counters(4).MaxQueue)
	}
}

// TestLimit: the queue holds exactly its limit, without the packet being sent, and
// not a byte more.
func TestLimit(t *testing.T) {
	r := newRig(units.Gbps, 3000)
	for _, size := range []units.Bytes{1514, 1514, 1486, 1} {
		r.send(0, size)
	}
	if want := []event{{0, 3}}; !cmp.Equal(r.dropped, want) {
		t.Errorf("dropped %v, want %v", r.dropped, want)
	}
	if _, b := r.from.QueueLength(r.engine.Now()); b != 3000 {
		t.Errorf("%d bytes wait, want 3000", b)
	}
	// Waiting packets stay when the limit falls, and nothing joins them.
	r.from.limit = 1000
	r.send(0, 60)
	r.finish()
	if n := len(r.arrived); n != 3 {
		t.Errorf("%d arrived, want 3", n)
	}
	// The limit holds for the idle port too.
	r.send(units.Second, 1000)
	r.send(2*units.Second, 1001)
	r.finish()
	c := r.from.Counters(2 * units.Second)
	if c.TxPackets != 4 || c.Drops[packet.QueueFull] != 3 || c.DroppedPackets() != 3 || c.DropBytes != 1+60+1001 || c.MaxQueue != 3000 || r.from.Limit() != 1000 {
		t.Errorf("counters %+v", c)
	}
	if r.pool.LivePackets() != 0 {
		t.Errorf("%d packets are live", r.pool.LivePackets())
	}
}

// TestRateChange: the packet being sent keeps its rate; the next has the new rate.
func TestRateChange(t *testing.T) {
	r := newRig(units.Gbps, units.MB)
	for range 4 {
		r.send(0, 1514) // 12.304 us each
	}
	r.until(units.Microsecond)
	r.rate(10 * units.Gbps)
	r.until(13 * units.Microsecond)
	r.rate(0)
	r.finish()
	want := []event{{0, 0}, {12_304_000, 1}, {13_534_400, 2}, {13_534_400, 3}}
	if diff := cmp.Diff(want, r.departed); diff != "" {
		t.Errorf("departures (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]event{{12_304_000, 0}, {13_534_400, 1}, {13_534_400, 2}, {13_534_400, 3}}, r.arrived); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
}

// model is a minimal drop-tail queue before a server.
type model struct {
	limit   units.Bytes
	waiting []struct {
		id   uint64
		size units.Bytes
	}
	bytes             units.Bytes
	freeAt            units.Time
	departed, dropped []event
	tx                func(units.Bytes) units.Time

	integral big.Int // of bytes over time
	last     units.Time
	longest  units.Bytes
}

func (m *model) integrate(now units.Time) {
	m.integral.Add(&m.integral, new(big.Int).Mul(big.NewInt(int64(m.bytes)), big.NewInt(int64(now-m.last))))
	m.last = now
}

// until removes packets that leave up to and including now.
func (m *model) until(now units.Time) {
	for len(m.waiting) > 0 && m.freeAt <= now {
		pkt := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.integrate(m.freeAt)
		m.bytes -= pkt.size
		m.departed = append(m.departed, event{m.freeAt, pkt.id})
		m.freeAt += m.tx(pkt.size)
	}
	m.integrate(now)
}

func (m *model) send(now units.Time, id uint64, size units.Bytes) {
	m.until(now)
	switch {
	case m.bytes+size > m.limit:
		m.dropped = append(m.dropped, event{now, id})
	case len(m.waiting) == 0 && m.freeAt <= now:
		m.departed = append(m.departed, event{now, id})
		m.freeAt = now + m.tx(size)
	default:
		m.waiting = append(m.waiting, struct {
			id   uint64
			size units.Bytes
		}{id, size})
		m.bytes += size
		m.longest = max(m.longest, m.bytes)
	}
}

// TestAgainstModel sends packets of random length at random times into a
// short queue: departures, drops, counters and the mean queue are those of
// the model.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]units.Rate{units.Gbps, 9 * units.Gbps, 100 * units.Gbps}).Draw(t, "rate")
		limit := units.Bytes(rapid.IntRange(60, 8000).Draw(t, "limit"))
		r := newRig(rate, limit)
		m := &model{limit: limit, tx: func(n units.Bytes) units.Time {
			picoseconds := float64(max(n, 60)+24) * 8 * 1e12 / float64(rate)
			return units.Time(math.Ceil(picoseconds))
		}}
		now := units.Time(0)
		var txBytes, dropBytes uint64
		start := r.from.Counters(0)
		for range rapid.IntRange(1, 80).Draw(t, "packets") {
			// Often at once, about as often as the port sends, or exactly
			// when it becomes free.
			switch rapid.IntRange(0, 4).Draw(t, "gap") {
			case 0, 1:
			case 2:
				now += units.Time(rapid.Int64Range(1, int64(2*m.tx(1514))).Draw(t, "random gap"))
			case 3:
				now = max(now, m.freeAt)
			case 4:
				m.limit = units.Bytes(rapid.IntRange(60, 8000).Draw(t, "limit"))
				r.from.limit = m.limit
			}
			size := units.Bytes(rapid.SampledFrom([]int{42, 60, 61, 590, 1514}).Draw(t, "size"))
			m.send(now, r.sent, size)
			drops := len(r.dropped)
			r.send(now, size)
			if len(r.dropped) > drops {
				dropBytes += uint64(size)
			} else {
				txBytes += uint64(size)
			}
			if n, b := r.from.QueueLength(r.engine.Now()); n != len(m.waiting) || b != m.bytes {
				t.Fatalf("%d packets of %d bytes wait, want %d of %d", n, b, len(m.waiting), m.bytes)
			}
		}
		now += units.Time(rapid.Int64Range(0, 1e9).Draw(t, "tail"))
		r.until(now)
		m.until(now)
		got := r.from.Counters(now)
		if now > 0 {
			mean, _ := new(big.Rat).SetFrac(&m.integral, big.NewInt(int64(now))).Float64()
			if x := got.MeanQueue(start); math.Abs(x-mean) > 1e-9*mean {
				t.Fatalf("mean queue %v, want %v", x, mean)
			}
		}
		r.finish()
		m.until(units.Never - 1)
		if diff := cmp.Diff(m.departed, r.departed); diff != "" {
			t.Fatalf("departures (-model +port):\n%s", diff)
		}
		if diff := cmp.Diff(m.dropped, r.dropped); diff != "" {
			t.Fatalf("drops (-model +port):\n%s", diff)
		}
		end := r.from.Counters(r.engine.Now())
		if end.TxPackets != uint64(len(m.departed)) || end.Drops[packet.QueueFull] != uint64(len(m.dropped)) || end.TxBytes != txBytes || end.DropBytes != dropBytes || end.MaxQueue != m.longest {
			t.Fatalf("counters %+v, model %d sent, %d dropped, longest %d", end, len(m.departed), len(m.dropped), m.longest)
		}
		if len(r.arrived) != len(r.departed) || r.pool.LivePackets() != 0 {
			t.Fatalf("%d departed, %d arrived, %d live", len(r.departed), len(r.arrived), r.pool.LivePackets())
		}
	})
}

// TestMeanQueueOfALongRun empties a large queue over a day: the mean is right
// for every hour of it, and for a nanosecond at its end.
func TestMeanQueueOfALongRun(t *testing.T) {
	const day = 24 * units.Hour
	r := newRig(100*units.BitPerSecond, 10*units.MB)
	const packets, size = 1000, 9014
	for range packets {
		r.send(0, size)
	}
	const tx = (size + 24) * 8 * units.Second / 100
	last := r.from.Counters(0)
	for hour := range units.Time(24) {
		from, to := hour*units.Hour, (hour+1)*units.Hour
		r.until(to)
		var area float64
		for at := from; at < to; {
			sent := at/tx + 1
			end := min(sent*tx, to)
			area += float64(packets-sent) * size * float64(end-at)
			at = end
		}
		now := r.from.Counters(to)
		if got, want := now.MeanQueue(last), area/float64(units.Hour); math.Abs(got-want) > 1e-12*want {
			t.Errorf("hour %d: mean queue %.3f, want %.3f", hour, got, want)
		}
		last = now
	}
	_, queue := r.from.QueueLength(r.engine.Now())
	if got := r.from.Counters(day + units.Nanosecond).MeanQueue(last); got != float64(queue) || queue < units.MB {
		t.Errorf("mean queue %v over a nanosecond in which %d bytes waited", got, queue)
	}
	if got := last.MeanQueue(last); got != 0 {
		t.Errorf("mean queue %v over no time", got)
	}
}

// TestNoLink: a port without a link drops packets to send.
func TestNoLink(t *testing.T) {
	r := newRig(units.Gbps, units.MB)
	r.from.ConnectLink(nil)
	r.send(0, 100)
	if c := r.from.Counters(0); c.Drops[packet.NoRoute] != 1 || c.TxPackets != 0 || r.pool.LivePackets() != 0 || len(r.dropped) != 1 {
		t.Errorf("counters %+v, live %d", c, r.pool.LivePackets())
	}
}

// sighting is what an observer saw of a packet at one port.
type sighting struct {
	At    units.Time
	Port  string
	Dir   Direction
	ID    uint64
	Fate  packet.Fate
	Depth units.Bytes
}

type watcher []sighting

func (w *watcher) Observe(now units.Time, at *Port, dir Direction, p *packet.Packet, fate packet.Fate, depth units.Bytes) {
	*w = append(*w, sighting{now, at.Name, dir, p.ID, fate, depth})
}

// TestObserver produces every fate at a port, one after another.
func TestObserver(t *testing.T) {
	var w watcher
	r := newRig(units.Gbps, 3000)
	r.from.SetObserver(r.engine.Now(), &w)
	r.to.SetObserver(r.engine.Now(), &w)
	r.from.SetPoint(&r.engine, func(func(units.Time)) congestion.Point {
		return congestion.New(congestion.Choice{Settings: &congestion.Step{K: 1000, NotECT: congestion.DropNotECT}}, congestion.Env{})
	})
	set := func(change func(*links.Settings)) {
		s := links.Settings{Rate: units.Gbps, MTU: 9000, Up: true}
		change(&s)
		r.from.SetLink(r.engine.Now(), s)
	}
	const us = units.Microsecond
	const tx = 12_304_000 // of 1514 bytes
	// A packet is sent, one waits, one is marked, one is not ECN-capable, one finds
	// the queue full.
	r.send(0, 1514)
	r.send(0, 1400)
	r.send(0, 1514)
	p := r.pool.New()
	p.ID, p.Size, p.Version = r.sent, 60, 4
	r.sent++
	r.from.Send(0, p)
	r.send(0, 1514)
	r.until(100 * us)
	set(func(s *links.Settings) { s.Loss = 1 })
	r.send(100*us, 1514)
	set(func(s *links.Settings) { s.MTU = 1000 })
	r.send(200*us, 1514)
	set(func(s *links.Settings) { s.DropMatch, _ = links.ParseMatch("ip-id=0x****") })
	r.send(300*us, 1514)
	set(func(s *links.Settings) { s.Up = false })
	r.send(400*us, 1514)
	set(func(s *links.Settings) { s.Corrupt = 1 })
	r.send(500*us, 1514)
	r.until(600 * us)
	set(func(*links.Settings) {})
	r.refuse = packet.NoReceiver
	r.send(600*us, 1514)
	r.finish()
	const b2 = 11_392_000 // of 1400 bytes
	want := watcher{
		{0, "a:1", Out, 0, packet.Fine, 0},
		{0, "a:1", Out, 3, packet.EarlyDrop, 2914},
		{0, "a:1", Out, 4, packet.QueueFull, 2914},
		{tx, "a:1", Out, 1, packet.Fine, 0},
		{tx, "b:1", In, 0, packet.Fine, 0},
		{tx + b2, "a:1", Out, 2, packet.Marked, 1400},
		{tx + b2, "b:1", In, 1, packet.Fine, 0},
		{2*tx + b2, "b:1", In, 2, packet.Fine, 0},
		{100 * us, "a:1", Out, 5, packet.LinkLoss, 0},
		{200 * us, "a:1", Out, 6, packet.TooBig, 0},
		{300 * us, "a:1", Out, 7, packet.LinkMatch, 0},
		{400 * us, "a:1", Out, 8, packet.LinkDown, 0},
		{500 * us, "a:1", Out, 9, packet.Fine, 0},
		{500*us + tx, "b:1", In, 9, packet.BadFCS, 0},
		{600 * us, "a:1", Out, 10, packet.Fine, 0},
		{600*us + tx, "b:1", In, 10, packet.NoReceiver, 0},
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a, b := r.from.Counters(0), r.to.Counters(0)
	for fate, n := range map[packet.Fate][2]uint64{
		packet.EarlyDrop: {1, 0}, packet.QueueFull: {1, 0}, packet.LinkLoss: {1, 0}, packet.TooBig: {1, 0},
		packet.LinkMatch: {1, 0}, packet.LinkDown: {1, 0}, packet.BadFCS: {0, 1}, packet.NoReceiver: {0, 1},
	} {
		if a.Drops[fate] != n[0] || b.Drops[fate] != n[1] {
			t.Errorf("%v is counted %d and %d times, want %v", fate, a.Drops[fate], b.Drops[fate], n)
		}
	}
	if a.TxPackets != 9 || a.Marked != 1 || a.DroppedPackets() != 6 || b.RxPackets != 5 || b.RxBytes != 4*1514+1400 || b.DroppedPackets() != 2 {
		t.Errorf("sender %+v, receiver %+v", a, b)
	}
	r.from.SetObserver(r.engine.Now(), nil)
	r.send(units.Second, 100)
	if len(w) != len(want) {
		t.Error("an observer that was taken off still sees packets")
	}
}

// TestMarkIsOfOnePort: a mark at another port does not show at this one.
func TestMarkIsOfOnePort(t *testing.T) {
	var w watcher
	r := newRig(units.Gbps, 3000)
	r.from.SetObserver(r.engine.Now(), &w)
	p := r.pool.New()
	p.Size, p.Fate = 100, packet.Marked
	r.from.Send(0, p)
	if want := (watcher{{0, "a:1", Out, 0, packet.Fine, 0}}); !cmp.Equal(w, want) {
		t.Errorf("seen %v, want %v", w, want)
	}
}

// TestObserverAgreesWithCounters: under random load, marking, loss and damage an
// observer sees each packet once where it leaves and once where it comes in, and
// its counts agree with the counters.
func TestObserverAgreesWithCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(units.Gbps, 6000)
		var w watcher
		r.from.SetObserver(r.engine.Now(), &w)
		r.to.SetObserver(r.engine.Now(), &w)
		red := congestion.RED{KMin: 1000, KMax: 5000, PMax: 0.5, AtDequeue: rapid.Bool().Draw(t, "at dequeue"), NotECT: congestion.NotECT(rapid.IntRange(0, 1).Draw(t, "not ect"))}
		r.from.SetPoint(&r.engine, func(func(units.Time)) congestion.Point {
			return congestion.New(congestion.Choice{Settings: &red}, congestion.Env{Rand: sim.NewRand(1, "mark")})
		})
		var now units.Time
		for range rapid.IntRange(1, 100).Draw(t, "packets") {
			if rapid.IntRange(0, 9).Draw(t, "set") == 0 {
				s := r.link.Settings()
				s.Loss, s.Corrupt = 0.2, 0.2
				s.Up = rapid.IntRange(0, 3).Draw(t, "down") > 0
				r.from.SetLink(r.engine.Now(), s)
			}
			now += units.Time(rapid.Int64Range(0, 15_000_000).Draw(t, "gap"))
			r.until(now)
			p := r.pool.New()
			p.ID, p.Size, p.Version, p.TOS = r.sent, 1514, 4, uint8(rapid.IntRange(0, 3).Draw(t, "ecn"))
			r.sent++
			r.from.Send(now, p)
		}
		r.finish()
		type place struct {
			Dir  Direction
			Fate packet.Fate
		}
		seen, tally := map[string]bool{}, map[place]uint64{}
		for _, s := range w {
			tally[place{s.Dir, s.Fate}]++
			key := fmt.Sprint(s.ID, s.Dir)
			if seen[key] {
				t.Fatalf("packet %d is seen twice", s.ID)
			}
			seen[key] = true
		}
		a, b := r.from.Counters(now), r.to.Counters(now)
		for f := packet.QueueFull; f < packet.FateCount; f++ {
			if tally[place{Out, f}] != a.Drops[f] || tally[place{In, f}] != b.Drops[f] {
				t.Fatalf("%v: seen %d and %d, counted %d and %d", f, tally[place{Out, f}], tally[place{In, f}], a.Drops[f], b.Drops[f])
			}
		}
		var out, in uint64
		for p, n := range tally {
			if p.Dir == Out {
				out += n
			} else {
				in += n
			}
		}
		if out != r.sent || in != b.RxPackets || b.RxPackets != r.link.Counters().Delivered || a.Marked < tally[place{Out, packet.Marked}] {
			t.Fatalf("%d sent, %d seen leaving, %d coming in; received %d, delivered %d", r.sent, out, in, b.RxPackets, r.link.Counters().Delivered)
		}
		if lost := a.DroppedPackets() + b.DroppedPackets() + r.link.Counters().Cut; r.sent != uint64(len(r.arrived))+lost || r.pool.LivePackets() != 0 {
			t.Fatalf("%d sent, %d arrived, %d lost, %d live", r.sent, len(r.arrived), lost, r.pool.LivePackets())
		}
	})
}

// TestTrace: the hash of a port's actions distinguishes runs.
func TestTrace(t *testing.T) {
	run := func(gap units.Time, size, limit units.Bytes) uint64 {
		r := newRig(units.Gbps, limit)
		for i := range units.Time(10) {
			r.send(i*gap, size)
		}
		r.finish()
		return r.from.Trace(r.engine.Now())
	}
	const us = units.Microsecond
	base := run(2*us, 100, 1000)
	if run(2*us, 100, 1000) != base {
		t.Error("the same run has two traces")
	}
	if run(3*us, 100, 1000) == base || run(2*us, 99, 1000) == base {
		t.Error("other times or sizes have the same trace")
	}
	if run(0, 100, 900) == run(0, 100, 800) {
		t.Error("another drop has the same trace")
	}
}
