package port

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/wire"
)

// fedRig is a port with classes, a feeder, and the port at its link's end.
// Packets of the feeder have IDs from 1000 on.
type fedRig struct {
	engine  sim.Engine
	pool    packet.Pool
	port    *Port
	chassis *Chassis

	left  [class.Count]int // packets that the feeder still has
	size  [class.Count]units.Bytes
	made  uint64
	sent  uint64
	calls int
	next  func(now units.Time, prio uint8) // called by Next first

	log     []string // what left or was dropped
	quiet   bool
	ends    units.Time // of the last packet sent
	arrived []uint64
}

const fed = 1000

// newFedRig returns a port of 8 Gb/s, so that a byte takes a nanosecond.
func newFedRig(list ...class.Class) *fedRig {
	r := &fedRig{}
	r.port = New(&r.engine, &r.pool, "h:1", 0, r, 0)
	far := New(&r.engine, &r.pool, "s:1", 0, r, 0)
	side := links.End{Engine: &r.engine, Pool: &r.pool}
	r.port.ConnectLink(new(links.Link).InitLink(new(links.Flight), side, side, nil, sim.NewRand(1, "h:1"), links.Settings{Rate: 8 * units.Gbps, MTU: 9000, Up: true}, far))
	r.chassis = &Chassis{Buffer: buffer.New(buffer.Config{Ports: []buffer.Port{{Classes: list}}}), Ports: []*Port{r.port}}
	r.port.SetClasses(r.chassis, list, ClassEnv{
		Engine: &r.engine, Rand: sim.NewRand(1, "trim"), Obeys: pfc.Obeyed{Classes: 0xff},
		Point: func(k class.Class, _ func(units.Time)) congestion.Point {
			return congestion.New(k.Mark, congestion.Env{})
		},
	})
	r.port.SetFeeder(r)
	r.port.SetObserver(0, r)
	return r
}

func (r *fedRig) InputPacket(_ units.Time, _ *Port, p *packet.Packet) {
	if !r.quiet {
		r.arrived = append(r.arrived, p.ID)
	}
	r.pool.Free(p)
}

func (r *fedRig) PeekFate(units.Time, *Port, *packet.Packet) packet.Fate { return packet.Fine }

func (r *fedRig) Observe(now units.Time, at *Port, dir Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	if r.quiet || dir == In {
		return
	}
	what := fmt.Sprintf("%d %d", int64(now/units.Nanosecond), p.ID)
	if fate != packet.Fine {
		what += " " + fate.String()
	}
	r.log = append(r.log, what)
	if fate.IsDrop() && fate != packet.LinkDown {
		return
	}
	if now < r.ends {
		r.log = append(r.log, "before the last was out")
	}
	r.ends = now + at.txTime(p)
}

func (r *fedRig) Next(now units.Time, prio uint8) *packet.Packet {
	r.calls++
	if r.next != nil {
		r.next(now, prio)
	}
	if r.left[prio] == 0 {
		return nil
	}
	r.left[prio]--
	if r.left[prio] == 0 {
		r.port.AnnouncePacket(now, prio, 0)
	}
	p := r.pool.New()
	p.ID, p.Size, p.Version, p.TOS = fed+r.made, r.size[prio], 4, 2
	r.made++
	return p
}

// feed gives the feeder n more packets; frames of size bytes take 24 more on the
// wire.
func (r *fedRig) feed(prio uint8, n int, size units.Bytes) {
	r.left[prio] += n
	r.size[prio] = size
	r.port.AnnouncePacket(r.engine.Now(), prio, size)
}

func (r *fedRig) send(prio uint8, n int, size units.Bytes) {
	for range n {
		p := r.pool.New()
		p.ID, p.Size, p.Prio, p.In, p.Version, p.TOS = r.sent, size, prio, buffer.Own, 4, 2
		r.sent++
		r.port.Send(r.engine.Now(), p)
	}
}

// pause makes the peer pause a class for a time in quanta of 64 ns.
func (r *fedRig) pause(prio uint8, quanta uint16) {
	frame := wire.Pause{Classes: 1 << prio}
	frame.Quanta[prio] = quanta
	p := r.pool.NewFrame(wire.PauseFrame)
	frame.PutFrame(p.Frame, 1)
	p.Parse()
	p.Dest = packet.MACControl
	r.port.ReceivePacket(r.engine.Now(), p)
}

func (r *fedRig) until(ns units.Time) {
	r.engine.Run(ns*units.Nanosecond, math.MaxInt)
	r.engine.AdvanceTo(ns * units.Nanosecond)
}

func (r *fedRig) finish() { r.engine.Run(units.Never-1, math.MaxInt) }

func (r *fedRig) want(t *testing.T, log string) {
	t.Helper()
	if got := strings.Join(r.log, ", "); got != log {
		t.Errorf("got  %s\nwant %s", got, log)
	}
	if r.pool.LivePackets() != 0 {
		t.Errorf("%d packets are live", r.pool.LivePackets())
	}
}

func (r *fedRig) class(prio uint8) ClassCounters {
	for _, k := range r.port.Classes(r.engine.Now()) {
		if k.Priority == prio {
			return k
		}
	}
	panic("no such class")
}

// TestFeedStartsAtOnce: an idle port needs no event to begin, and a busy one
// continues when it is done.
func TestFeedStartsAtOnce(t *testing.T) {
	r := newFedRig(class.Class{})
	r.until(50)
	r.feed(0, 1, 76)
	if r.engine.FiredEvents() != 0 || len(r.log) != 1 {
		t.Errorf("%d events, and %v has left", r.engine.FiredEvents(), r.log)
	}
	r.until(100)
	r.feed(0, 2, 176)
	if r.calls != 1 {
		t.Error("it was asked while the port was sending")
	}
	r.finish()
	r.want(t, "50 1000, 150 1001, 350 1002")
	if c := r.port.Counters(r.engine.Now()); c.TxPackets != 3 || c.TxBytes != 76+176+176 || c.MaxQueue != 0 {
		t.Errorf("%+v", c)
	}
}

// TestFeedSetsFields: a fed packet belongs to its class and originates at the host.
func TestFeedSetsFields(t *testing.T) {
	r := newFedRig(class.Class{Priority: 2}, class.Class{Priority: 5})
	far := r.port.link
	seen := packet.Packet{}
	r.port.SetObserver(0, observe(func(p *packet.Packet) { seen = *p }))
	r.until(10)
	r.feed(5, 1, 976)
	if seen.Prio != 5 || seen.In != buffer.Own || seen.Fate != packet.Fine || far.InFlight() != 1 {
		t.Errorf("%+v", seen)
	}
	if k := r.class(5); k.TxPackets != 1 || k.TxBytes != 976 || k.MaxQueue != 0 || k.Egress.Shared != 0 {
		t.Errorf("%+v", k)
	}
	r.finish()
}

type observe func(p *packet.Packet)

func (f observe) Observe(_ units.Time, _ *Port, _ Direction, p *packet.Packet, _ packet.Fate, _ units.Bytes) {
	f(p)
}

// TestFedStrict: strict priority holds between queues and the feeder, in both
// directions, and among classes of the feeder.
func TestFedStrict(t *testing.T) {
	r := newFedRig(class.Class{Priority: 1}, class.Class{Priority: 2}, class.Class{Priority: 3}, class.Class{Priority: 4})
	r.send(1, 2, 76)
	r.feed(2, 2, 76)
	r.send(3, 2, 76)
	r.feed(4, 2, 76)
	r.finish()
	r.want(t, "0 0, 100 1000, 200 1001, 300 2, 400 3, 500 1002, 600 1003, 700 1")
}

// TestFedWeights: DWRR charges a fed class like one with a queue.
func TestFedWeights(t *testing.T) {
	for _, sizes := range [][2]units.Bytes{{976, 976}, {1476, 276}, {276, 1476}} {
		r := newFedRig(class.Class{Priority: 1, Weight: 1}, class.Class{Priority: 2, Weight: 2})
		r.quiet = true
		r.send(1, 40_000, sizes[0])
		r.feed(2, 40_000, sizes[1])
		r.until(6_000_000)
		a, b := r.class(1), r.class(2)
		share := float64(b.TxPackets) * float64(sizes[1]+24) / (float64(a.TxPackets)*float64(sizes[0]+24) + float64(b.TxPackets)*float64(sizes[1]+24))
		if math.Abs(share-2./3) > 0.002 {
			t.Errorf("frames of %v bytes: the fed class has %.4f of the link", sizes, share)
		}
	}
}

// TestFedPacketOfAnotherSize: the scheduler charges the actual size, not the
// announced one.
func TestFedPacketOfAnotherSize(t *testing.T) {
	r := newFedRig(class.Class{Priority: 1, Weight: 1}, class.Class{Priority: 2, Weight: 1})
	r.quiet = true
	r.send(1, 10_000, 976)
	r.feed(2, 10_000, 976)
	r.next = func(units.Time, uint8) { r.size[2] = 476 }
	r.until(6_000_000)
	a, b := float64(r.class(1).TxPackets)*1000, float64(r.class(2).TxPackets)*500
	if share := b / (a + b); math.Abs(share-0.5) > 0.002 {
		t.Errorf("the fed class has %.4f of the link", share)
	}
}

// TestFedTakesTurns: in one class the queue and the feeder take turns, also if the
// feeder announces its next packet only after the previous one.
func TestFedTakesTurns(t *testing.T) {
	r := newFedRig(class.Class{})
	r.feed(0, 4, 76)
	r.send(0, 3, 76)
	r.finish()
	r.want(t, "0 1000, 100 0, 200 1001, 300 1, 400 1002, 500 2, 600 1003")

	r = newFedRig(class.Class{})
	r.send(0, 4, 76)
	for i := range 3 {
		r.until(units.Time(10 + 200*i))
		r.feed(0, 1, 76)
	}
	r.finish()
	r.want(t, "0 0, 100 1000, 200 1, 300 1001, 400 2, 500 1002, 600 3")

	// Whose turn it is in one class does not depend on others.
	r = newFedRig(class.Class{Priority: 0}, class.Class{Priority: 1})
	r.send(0, 3, 76)
	r.feed(0, 3, 76)
	r.feed(1, 1, 76)
	r.finish()
	r.want(t, "0 0, 100 1000, 200 1001, 300 1, 400 1002, 500 2, 600 1003")

	// A queue with a congestion point that judges departures.
	r = newFedRig(class.Class{Mark: congestion.Choice{Settings: &congestion.CoDel{Target: units.Millisecond, Interval: units.Second}}})
	r.send(0, 3, 76)
	r.feed(0, 3, 76)
	r.finish()
	r.want(t, "0 0, 100 1000, 200 1, 300 1001, 400 2, 500 1002")
}

// TestFedTurnsWithFlows: a fair queue as a whole takes turns with the feeder.
func TestFedTurnsWithFlows(t *testing.T) {
	r := newFedRig(class.Class{Fair: true})
	r.feed(0, 3, 76)
	for i := range 4 {
		p := r.pool.New()
		p.ID, p.Size, p.In, p.Hash = uint64(i), 76, buffer.Own, uint64(i/2)
		r.port.Send(0, p)
	}
	r.finish()
	// A turn of a flow is longer than both of its packets.
	r.want(t, "0 1000, 100 0, 200 1001, 300 1, 400 1002, 500 2, 600 3")
}

// TestFedPaused: a pause blocks a fed class and no other, its time is counted, and
// it ends by expiry or by the peer.
func TestFedPaused(t *testing.T) {
	guard := &pfc.Config{Xoff: 1 << 20, Quanta: pfc.DefaultQuanta}
	r := newFedRig(class.Class{Priority: 0}, class.Class{Priority: 3, PFC: guard})
	r.feed(3, 5, 76)
	r.until(150)
	r.pause(3, 65535)
	r.feed(0, 2, 76)
	r.until(1000)
	if k := r.class(3); !k.Got.Paused || k.Got.Time != 850*units.Nanosecond {
		t.Errorf("%+v", k.Got)
	}
	if j := r.port.BlockedQueues(); len(j) != 1 || j[0].Priority != 3 || j[0].Since != 150*units.Nanosecond || len(j[0].In) != 0 {
		t.Errorf("what the peer holds up: %+v", j)
	}
	r.pause(3, 0)
	r.until(1050)
	r.pause(3, 10) // for 640 ns
	r.finish()
	r.want(t, "0 1000, 100 1001, 200 1002, 300 1003, 1000 1004, 1690 1005, 1790 1006")
}

// TestFedWhilePaused: a packet fed during a pause waits from then on, and one that
// is withdrawn no longer waits: the watchdog uses that.
func TestFedWhilePaused(t *testing.T) {
	guard := &pfc.Config{Xoff: 1 << 20, Quanta: 1, Watchdog: pfc.Watchdog{Detect: 500 * units.Nanosecond, Restore: units.Microsecond, Action: pfc.Forward}}
	r := newFedRig(class.Class{Priority: 3, PFC: guard})
	r.pause(3, 1000)
	r.until(1000)
	if len(r.port.BlockedQueues()) != 0 {
		t.Error("nothing waits, but the pause holds something up")
	}
	r.feed(3, 1, 76)
	r.until(1400)
	r.left[3] = 0
	r.port.AnnouncePacket(r.engine.Now(), 3, 0)
	if len(r.port.BlockedQueues()) != 0 {
		t.Error("nothing waits any more, but the pause holds something up")
	}
	r.until(2000)
	r.feed(3, 1, 76)
	r.finish()
	// 500 ns after 2000, not after 1000.
	r.want(t, "2500 1000")
	if got := r.class(3).Got; got.Storms != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFedWatchdogDrops: packets that the watchdog discards go when nothing else can
// be sent, one packet at a time, each taking time.
func TestFedWatchdogDrops(t *testing.T) {
	guard := &pfc.Config{Xoff: 1 << 20, Quanta: 1, Watchdog: pfc.Watchdog{Detect: 500 * units.Nanosecond, Restore: 300 * units.Nanosecond}}
	r := newFedRig(class.Class{Priority: 0}, class.Class{Priority: 3, PFC: guard})
	r.pause(3, 15) // for 960 ns
	r.send(3, 1, 76)
	r.feed(3, 100, 76)
	r.until(510)
	r.feed(0, 1, 176)
	r.until(890)
	r.send(0, 1, 76)
	r.until(1350) // quiet since 960, restored at 1260
	r.left[3] = 0
	r.finish()
	r.want(t, "500 0 watchdog, 500 1000 watchdog, 600 1001, 800 1002 watchdog, 900 1, 1000 1003 watchdog, 1100 1004 watchdog, 1200 1005 watchdog, 1300 1006")
	if k := r.class(3); k.Dropped != 6 || k.TxPackets != 1 || r.port.Counters(r.engine.Now()).Drops[packet.Watchdog] != 6 {
		t.Errorf("%+v", k)
	}
}

// TestFeederHasNone: a port that gets no packet continues with others, does not ask
// again, and ignores what was announced meanwhile.
func TestFeederHasNone(t *testing.T) {
	r := newFedRig(class.Class{Priority: 0}, class.Class{Priority: 1})
	r.send(0, 2, 76)
	r.next = func(now units.Time, prio uint8) { r.port.AnnouncePacket(now, prio, 76) }
	r.port.AnnouncePacket(0, 1, 76)
	r.finish()
	r.want(t, "0 0, 100 1")
	if r.calls != 1 {
		t.Errorf("it was asked %d times", r.calls)
	}
	r.next = nil
	r.feed(1, 1, 76)
	r.finish()
	r.want(t, "0 0, 100 1, 200 1000")

	// Also alone, with a packet of the same class behind it.
	r = newFedRig(class.Class{})
	r.port.AnnouncePacket(0, 0, 76)
	r.send(0, 1, 76)
	r.feed(0, 1, 76)
	r.finish()
	r.want(t, "0 0, 100 1000")
}

// TestNextFeedsAndSends: packets that Next feeds or sends into the port wait for
// the packet that it returns, and then leave by class.
func TestNextFeedsAndSends(t *testing.T) {
	r := newFedRig(class.Class{Priority: 0}, class.Class{Priority: 1}, class.Class{Priority: 2})
	once := true
	r.next = func(now units.Time, prio uint8) {
		if once {
			once = false
			r.left[2], r.size[2] = 1, 76
			r.port.AnnouncePacket(now, 2, 76)
			r.send(1, 1, 76)
		}
	}
	r.feed(0, 2, 76)
	r.finish()
	r.want(t, "0 1000, 100 1001, 200 0, 300 1002")
}

// TestFedIsJudged: the congestion point judges a fed packet by the queue of its
// class, and a drop takes time.
func TestFedIsJudged(t *testing.T) {
	r := newFedRig(class.Class{Mark: congestion.Choice{Settings: &congestion.Step{K: 100}}})
	r.send(0, 3, 76)
	r.feed(0, 3, 76)
	r.finish()
	r.want(t, "0 0, 100 1000 marked, 200 1, 300 1001, 400 2, 500 1002")
	if k := r.class(0); k.Marked != 1 {
		t.Errorf("%+v", k)
	}

	point := &refuser{}
	r = newFedRig(class.Class{})
	r.port.classes.queue[0].point = point
	r.feed(0, 3, 76)
	r.until(250)
	point.leaving, r.port.classes.queue[0].leaving = true, judged
	r.feed(0, 2, 76)
	r.finish()
	r.want(t, "0 1000 early-drop, 100 1001 early-drop, 200 1002 early-drop, 300 1003 early-drop, 400 1004 early-drop")
	if point.entered != 5 || point.left != 2 {
		t.Errorf("the point saw %d come and %d go", point.entered, point.left)
	}
}

// refuser drops all packets, when they arrive or when they leave.
type refuser struct {
	leaving       bool
	entered, left int
}

func (r *refuser) OnEnqueue(units.Time, congestion.Queue, *packet.Packet) packet.Fate {
	r.entered++
	if r.leaving {
		return packet.Fine
	}
	return packet.EarlyDrop
}

func (r *refuser) OnDequeue(units.Time, congestion.Queue, *packet.Packet) packet.Fate {
	r.left++
	return packet.EarlyDrop
}

func (*refuser) OnRemoved(units.Time, congestion.Queue, *packet.Packet, packet.Fate) {}

func (*refuser) OnTimer(units.Time, congestion.Queue) units.Time { return units.Never }
func (*refuser) AppendGauges(_ units.Time, _ congestion.Queue, values []float64) []float64 {
	return values
}

// TestFedLinkDown: fed packets are lost like others, each at its time.
func TestFedLinkDown(t *testing.T) {
	r := newFedRig(class.Class{})
	set := func(up bool) {
		s := r.port.link.Settings()
		s.Up = up
		r.port.SetLink(r.engine.Now(), s)
	}
	r.feed(0, 4, 76)
	r.until(110)
	set(false)
	r.until(250)
	set(true)
	r.finish()
	r.want(t, "0 1000, 100 1001, 200 1002 link-down, 300 1003")
	if len(r.arrived) != 2 || r.port.link.Counters().Cut != 1 {
		t.Errorf("%v arrived", r.arrived)
	}
}

// TestFeedWithoutLink: a port without a link never asks the feeder.
func TestFeedWithoutLink(t *testing.T) {
	r := newFedRig(class.Class{})
	r.port.link = nil
	r.feed(0, 1, 76)
	r.port.AnnouncePacket(0, 0, 0)
	if r.calls != 0 || r.engine.Next() != units.Never {
		t.Error("it was asked")
	}
}

// TestControlGoesBeforeFed: MAC control frames precede fed packets.
func TestControlGoesBeforeFed(t *testing.T) {
	guard := &pfc.Config{Xoff: 100, Quanta: 100}
	r := newFedRig(class.Class{Priority: 3, PFC: guard})
	r.feed(3, 2, 76)
	r.until(10)
	frame := wire.Pause{Classes: 1 << 3}
	r.port.sendPause(r.engine.Now(), &frame, packet.Xon)
	r.finish()
	r.want(t, "0 1000, 100 1 xon, 184 1001")
}

// TestFeedDoesNotAllocate: the port does not allocate for sent or fed packets.
func TestFeedDoesNotAllocate(t *testing.T) {
	r := newFedRig(class.Class{Priority: 0, Weight: 1}, class.Class{Priority: 3, Weight: 1})
	r.quiet = true
	step := func() {
		r.feed(3, 50, 976)
		r.feed(0, 50, 976)
		r.send(0, 50, 976)
		r.finish()
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("%v allocations for 150 packets", n)
	}
}

// checkNext compares the scheduler's inputs with the actual packets.
func (r *fedRig) checkNext(t *rapid.T) {
	c := r.port.classes
	for i := range c.queues {
		q := &c.queues[i]
		bit := uint8(1) << q.prio
		var next units.Bytes
		switch fed := c.fed&bit != 0; {
		case q.count > 0 && !(fed && c.turn&bit != 0):
			next = packet.OnWire(q.headPacket().Size)
		case fed:
			next = q.feeds
		}
		if c.ready&bit != 0 != (next > 0) || c.known&bit != 0 && c.first[q.prio] != next {
			t.Fatalf("class %d: ready %08b, %d bytes are next and not %d", q.prio, c.ready, c.first[q.prio], next)
		}
	}
}

// TestFeedConserves: whatever is fed, sent, paused and cut, every packet leaves
// once or is dropped once, packets of a class and origin leave in order, no two
// are on the link at once, and the port does not rest while one could leave.
func TestFeedConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []class.Class
		for _, prio := range []uint8{1, 3, 6} {
			k := class.Class{Priority: prio, Weight: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "weight"), Fair: rapid.Bool().Draw(t, "fair")}
			if rapid.Bool().Draw(t, "lossless") {
				k.PFC = &pfc.Config{Xoff: 1 << 20, Quanta: 1}
				k.PFC.Watchdog = rapid.SampledFrom([]pfc.Watchdog{{}, {Detect: 900 * units.Nanosecond, Restore: 400 * units.Nanosecond}}).Draw(t, "dog")
			}
			list = append(list, k)
		}
		r := newFedRig(list...)
		prios := rapid.SampledFrom([]uint8{1, 3, 6})
		sizes := rapid.SampledFrom([]units.Bytes{20, 76, 476, 1476})
		now := units.Time(0)
		var fedAll int
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += units.Time(rapid.SampledFrom([]int{0, 0, 50, 100, 777, 5000}).Draw(t, "gap"))
			r.until(now)
			if c := r.port.classes; r.port.freeAt < r.engine.Now() && c.sendableClasses() != 0 {
				t.Fatalf("at %v the port rests, and classes %08b could send", r.engine.Now(), c.sendableClasses())
			}
			r.checkNext(t)
			prio := prios.Draw(t, "class")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				n := rapid.IntRange(1, 9).Draw(t, "packets")
				fedAll += n
				r.feed(prio, n, sizes.Draw(t, "size"))
			case 2:
				r.send(prio, rapid.IntRange(1, 9).Draw(t, "packets"), sizes.Draw(t, "size"))
			case 3:
				r.pause(prio, uint16(rapid.SampledFrom([]int{0, 3, 90}).Draw(t, "quanta")))
			case 4: // the feeder has lost its packets
				fedAll -= r.left[prio]
				r.left[prio] = 0
				if rapid.Bool().Draw(t, "told") {
					r.port.AnnouncePacket(r.engine.Now(), prio, 0)
				}
			case 5:
				s := r.port.link.Settings()
				s.Up = !s.Up
				r.port.SetLink(r.engine.Now(), s)
			}
		}
		r.finish()
		c := r.port.Counters(r.engine.Now())
		if int(r.made) != fedAll || r.pool.LivePackets() != 0 || r.port.classes.ready != 0 || r.port.bytes != 0 {
			t.Fatalf("the feeder had %d and gave %d; %d live, ready %08b", fedAll, r.made, r.pool.LivePackets(), r.port.classes.ready)
		}
		cut := r.port.link.Counters().Cut
		if got := uint64(len(r.arrived)) + c.DroppedPackets() + cut; got != r.made+r.sent || c.TxPackets-c.Drops[packet.LinkDown]-cut != uint64(len(r.arrived)) {
			t.Fatalf("%d fed and %d sent, %d arrived, %d dropped, %d cut: %+v", r.made, r.sent, len(r.arrived), c.DroppedPackets(), cut, c)
		}
		seen := map[string]bool{}
		for _, l := range r.log {
			id := strings.Fields(l)[1]
			if seen[id] || strings.HasPrefix(l, "before") {
				t.Fatalf("%s: %v", l, r.log)
			}
			seen[id] = true
		}
	})
}
