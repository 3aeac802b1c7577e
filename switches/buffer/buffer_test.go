package buffer

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/pfc"
)

// waiting is a packet in the memory.
type waiting struct {
	in   uint16
	out  int
	prio uint8
	size units.Bytes
}

// drawClasses returns classes with these priorities and random settings.
func drawClasses(t *rapid.T, prios []uint8, lossless bool) (list []class.Class, headroom [class.Count]units.Bytes) {
	size := func(what string, maxSize int) units.Bytes {
		return units.Bytes(rapid.SampledFrom([]int{0, 0, maxSize / 3, maxSize}).Draw(t, what))
	}
	alpha := func(what string) float64 {
		return rapid.SampledFrom([]float64{0, 1. / 8, 1, 4}).Draw(t, what)
	}
	for _, prio := range prios {
		k := class.Class{Name: fmt.Sprint(prio), Priority: prio, Reserve: size("egress reserve", 3000), Limit: size("limit", 20_000), Alpha: alpha("alpha")}
		k.Ingress = class.Ingress{Reserve: size("ingress reserve", 3000), Limit: size("ingress limit", 20_000), Alpha: alpha("ingress alpha")}
		if lossless && rapid.Bool().Draw(t, "lossless") {
			k.Limit, k.Alpha = 0, 0
			k.PFC = &pfc.Config{Offset: size("offset", 3000)}
			if k.PFC.Alpha = alpha("xoff alpha"); k.PFC.Alpha == 0 {
				k.PFC.Xoff = 1 + size("xoff", 20_000)
			}
			headroom[prio] = size("headroom", 10_000)
		}
		list = append(list, k)
	}
	return list, headroom
}

// TestEveryByteIsInOneAccount: whatever arrives and leaves, the accounts of either view
// add up to the bytes in the memory, none exceeds its limit, and the memory is empty in
// the end.
func TestEveryByteIsInOneAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ports := rapid.IntRange(1, 4).Draw(t, "ports")
		prios := rapid.SliceOfNDistinct(rapid.Uint8Range(0, class.Count-1), 1, class.Count, rapid.ID[uint8]).Draw(t, "priorities")
		c := Config{Size: 600 * units.KB}
		whole := rapid.Bool().Draw(t, "global PAUSE")
		if whole {
			c.Pause = &pfc.Config{Xoff: 9000, Offset: 2000}
		}
		for range ports {
			list, headroom := drawClasses(t, prios, !whole)
			if whole {
				headroom[0] = 5000
			}
			c.Ports = append(c.Ports, Port{list, headroom})
		}
		b := New(c)
		var held []waiting
		asked := map[[2]int]bool{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 9).Draw(t, "leaves") < 4 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				w := held[i]
				held = append(held[:i], held[i+1:]...)
				if b.DischargePacket(w.in, w.out, w.prio, w.size) {
					key := pauseKey(whole, w)
					if !asked[key] {
						t.Fatalf("%v: a pause ends that has not begun", w)
					}
					delete(asked, key)
				}
			} else {
				w := waiting{
					in: uint16(rapid.IntRange(0, ports).Draw(t, "in")), out: rapid.IntRange(0, ports-1).Draw(t, "out"),
					prio: rapid.SampledFrom(prios).Draw(t, "prio"), size: units.Bytes(rapid.IntRange(60, 9000).Draw(t, "size")),
				}
				if int(w.in) == ports {
					w.in = Own
				}
				fate := b.CheckFit(w.in, w.out, w.prio, w.size)
				if fate != packet.Fine {
					if !fate.IsDrop() {
						t.Fatalf("fate %v", fate)
					}
					continue
				}
				held = append(held, w)
				if b.ChargePacket(0, w.in, w.out, w.prio, w.size) {
					if key := pauseKey(whole, w); asked[key] {
						t.Fatalf("%v: a pause begins that has begun", w)
					} else {
						asked[key] = true
					}
				}
			}
			check(t, b, c, prios, held, whole)
		}
		for _, w := range held {
			if b.DischargePacket(w.in, w.out, w.prio, w.size) {
				delete(asked, pauseKey(whole, w))
			}
		}
		check(t, b, c, prios, nil, whole)
		if len(asked) > 0 {
			t.Fatalf("the memory is empty and pauses last: %v", asked)
		}
	})
}

func pauseKey(whole bool, w waiting) [2]int {
	if whole {
		return [2]int{int(w.in), 0}
	}
	return [2]int{int(w.in), int(w.prio)}
}

// check compares the accounts with the list of packets in the memory.
func check(t *rapid.T, b *Buffer, c Config, prios []uint8, held []waiting, whole bool) {
	var all, in, out units.Bytes
	byIn, byOut := map[[2]int]units.Bytes{}, map[[2]int]units.Bytes{}
	for _, w := range held {
		all += w.size
		byIn[pauseKey(whole, w)] += w.size
		byOut[[2]int{w.out, int(w.prio)}] += w.size
	}
	for i := range len(c.Ports) + 1 {
		port := uint16(i)
		if i == len(c.Ports) {
			port = Own
		}
		for i, prio := range prios {
			if whole && i > 0 && port != Own {
				continue
			}
			a := b.Ingress(port, prio)
			sum := a.Reserve + a.Shared + a.Headroom
			key := pauseKey(whole, waiting{in: port, prio: prio})
			if whole && port == Own {
				continue // its classes have separate accounts, the key does not
			}
			if sum != byIn[key] || a.Reserve > a.ReserveSize || a.Headroom > a.HeadroomSize || a.Reserve < 0 || a.Shared < 0 || a.Headroom < 0 {
				t.Fatalf("port %d class %d: %d bytes have come in, the account is %+v", port, prio, byIn[key], a)
			}
			if a.Shared > 0 && a.Reserve < a.ReserveSize {
				t.Fatalf("port %d class %d uses the pool before its reserve: %+v", port, prio, a)
			}
			if a.Headroom > 0 && !a.Pausing {
				t.Fatalf("port %d class %d uses headroom without a pause: %+v", port, prio, a)
			}
			in += sum
		}
	}
	if !whole && in != all {
		t.Fatalf("%d bytes are held, the ingress accounts have %d", all, in)
	}
	for i := range c.Ports {
		for _, prio := range prios {
			e := b.Egress(i, prio)
			if e.Reserve+e.Shared != byOut[[2]int{i, int(prio)}] || e.Reserve > e.ReserveSize {
				t.Fatalf("queue %d.%d: %d bytes wait, the account is %+v", i, prio, byOut[[2]int{i, int(prio)}], e)
			}
			out += e.Reserve + e.Shared
		}
	}
	if out != all || b.HeldBytes() != all || all > c.Size {
		t.Fatalf("%d bytes are held of %d: the egress accounts have %d, the memory %d", all, c.Size, out, b.HeldBytes())
	}
	if b.in.used < 0 || b.in.used > b.in.size {
		t.Fatalf("the shared pool has %d of %d in use", b.in.used, b.in.size)
	}
}

// TestThresholds follows one lossless and one lossy class through their
// accounts.
func TestThresholds(t *testing.T) {
	b := New(Config{Size: 100_000, Ports: []Port{{
		Classes: []class.Class{
			{Priority: 0, Alpha: 1},
			{Priority: 3, Ingress: class.Ingress{Reserve: 2000}, PFC: &pfc.Config{Alpha: 0.125, Offset: 3000}},
		},
		Headroom: [class.Count]units.Bytes{3: 8000},
	}}})
	// The pool is the unreserved part: 100,000 - 2,000 - 8,000.
	if got := b.Ingress(0, 3).Threshold; got != 90_000/8 {
		t.Fatalf("xoff is %d", got)
	}
	add := func(prio uint8, n units.Bytes) string {
		if fate := b.CheckFit(0, 0, prio, n); fate != packet.Fine {
			return fate.String()
		}
		if b.ChargePacket(0, 0, 0, prio, n) {
			return "xoff"
		}
		return "ok"
	}
	for i := range 12 {
		// With s bytes in the pool xoff is at (90,000 - s)/8: at s = 10,000.
		want := "ok"
		if i == 11 {
			want = "xoff"
		}
		if got := add(3, 1000); got != want {
			t.Fatalf("packet %d: %s, want %s; %+v", i, got, want, b.Ingress(0, 3))
		}
	}
	for i := range 8 {
		if got := add(3, 1000); got != "ok" {
			t.Fatalf("headroom %d: %s", i, got)
		}
	}
	if got := add(3, 1000); got != "headroom-full" {
		t.Fatalf("beyond the headroom: %s", got)
	}
	if a := b.Ingress(0, 3); a.Reserve != 2000 || a.Shared != 10_000 || a.Headroom != 8000 || !a.Pausing {
		t.Fatalf("%+v", a)
	}
	// 20 packets of 1,000 wait; the pause ends when the shared part has fallen to 3,000
	// below the threshold: s + 3,000 <= (90,000 - s)/8.
	left := 1
	for !b.DischargePacket(0, 0, 3, 1000) {
		left++
	}
	if s := b.Ingress(0, 3).Shared; left != 11 || s != 7000 {
		t.Fatalf("xon after %d packets with %d in the pool, want 11 and 7000", left, s)
	}
}

// TestRefuse_PausesOnceAndOnlyWhereSomethingWaits: a packet of a lossless class that finds no
// room begins a pause, which ends like any other. An empty account begins none, as no packet
// would end it, nor does a lossy class.
func TestRefuse_PausesOnceAndOnlyWhereSomethingWaits(t *testing.T) {
	b := New(Config{Ports: []Port{{
		Classes:  []class.Class{{Priority: 0, Ingress: class.Ingress{Limit: 5000}}, {Priority: 3, PFC: &pfc.Config{Xoff: 5000, Offset: 2000}}},
		Headroom: [class.Count]units.Bytes{3: 1},
	}}})
	if b.Refuse(0, 3, b.CheckFit(0, 0, 3, 6000)) {
		t.Fatal("it pauses without a packet that waits")
	}
	for range 2 {
		if b.ChargePacket(0, 0, 0, 3, 2000) || b.ChargePacket(0, 0, 0, 0, 2000) {
			t.Fatal("it pauses below the threshold")
		}
	}
	if why := b.CheckFit(0, 0, 3, 2000); why != packet.HeadroomFull || !b.Refuse(0, 3, why) {
		t.Fatalf("a packet that finds no room (%s) begins no pause", why)
	}
	if b.Refuse(0, 3, packet.HeadroomFull) {
		t.Error("a pause begins twice")
	}
	if why := b.CheckFit(0, 0, 0, 2000); why != packet.BufferFull || b.Refuse(0, 0, why) {
		t.Errorf("a lossy class pauses for %s", why)
	}
	if a := b.Ingress(0, 3); a.Refused != 3 || !a.Pausing {
		t.Errorf("%+v", a)
	}
	if !b.DischargePacket(0, 0, 3, 2000) {
		t.Error("the pause does not end at 3000 bytes below the threshold")
	}
	if !b.Refuse(0, 3, packet.HeadroomFull) {
		t.Error("a second pause does not begin")
	}
}

// TestGlobalPauseKeepsAllReserves: with a global PAUSE a port's account has the reserves
// of all its classes, also if none has priority 0.
func TestGlobalPauseKeepsAllReserves(t *testing.T) {
	for _, prios := range [][2]uint8{{0, 1}, {2, 5}} {
		b := New(Config{
			Size:  100_000,
			Pause: &pfc.Config{Xoff: 9000},
			Ports: []Port{{
				Classes: []class.Class{
					{Priority: prios[0], Ingress: class.Ingress{Reserve: 3000}},
					{Priority: prios[1], Ingress: class.Ingress{Reserve: 2000}},
				},
				Headroom: [class.Count]units.Bytes{8000},
			}},
		})
		for _, prio := range prios {
			if a := b.Ingress(0, prio); a.ReserveSize != 5000 || a.HeadroomSize != 8000 || !a.Lossless {
				t.Errorf("classes %v: %+v", prios, a)
			}
		}
		if b.in.size != 100_000-5000-8000 {
			t.Errorf("classes %v share %d bytes", prios, b.in.size)
		}
	}
}

// TestNearest: the nearest approach to a threshold is recorded.
func TestNearest(t *testing.T) {
	b := New(Config{Ports: []Port{{
		Classes:  []class.Class{{Priority: 0, PFC: &pfc.Config{Xoff: 10_000}}},
		Headroom: [class.Count]units.Bytes{1000},
	}}})
	for i := range 3 {
		b.ChargePacket(units.Time(i), 0, 0, 0, 3000)
	}
	b.DischargePacket(0, 0, 0, 9000)
	b.ChargePacket(7, 0, 0, 0, 500)
	want := HighWatermark{Gap: 1000, Used: 9000, Threshold: 10_000, At: 2, Known: true}
	if got := b.Ingress(0, 0).Nearest; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if e := b.Egress(0, 0); e.Nearest.Known || e.Threshold != 0 {
		t.Errorf("a queue without a threshold: %+v", e)
	}
	if b.Size() != 0 || b.QueueLimit(0, 0) != math.MaxInt64 {
		t.Errorf("size %d, limit %d", b.Size(), b.QueueLimit(0, 0))
	}
}

// TestDynamicThresholdShares: queues that always have more to take settle at
// alpha/(1+n alpha) of the memory (Choudhury and Hahne 1998, equation 3).
func TestDynamicThresholdShares(t *testing.T) {
	const size = 10 * units.MB
	for _, alpha := range []float64{1. / 8, 0.5, 1, 2, 8} {
		for _, n := range []int{1, 2, 7} {
			c := Config{Size: size}
			for range n {
				c.Ports = append(c.Ports, Port{Classes: []class.Class{{Alpha: alpha}}})
			}
			b := New(c)
			for taken := true; taken; {
				taken = false
				for out := range n {
					if b.CheckFit(Own, out, 0, 1000) == packet.Fine {
						b.ChargePacket(0, Own, out, 0, 1000)
						taken = true
					}
				}
			}
			want := alpha / (1 + float64(n)*alpha) * float64(size)
			for out := range n {
				if got := float64(b.Egress(out, 0).Shared); math.Abs(got-want) > 0.02*want {
					t.Errorf("alpha %v, %d queues: queue %d has %.0f bytes, want %.0f", alpha, n, out, got, want)
				}
			}
		}
	}
}

// TestLimitHoldsTheReserve: a queue's limit includes its reserve.
func TestLimitHoldsTheReserve(t *testing.T) {
	b := New(Config{Ports: []Port{{Classes: []class.Class{{Limit: 10_000, Reserve: 4000}}}}})
	for b.CheckFit(Own, 0, 0, 1000) == packet.Fine {
		b.ChargePacket(0, Own, 0, 0, 1000)
	}
	if b.HeldBytes() != 10_000 || b.QueueLimit(0, 0) != 10_000 {
		t.Errorf("holds %d, limit %d", b.HeldBytes(), b.QueueLimit(0, 0))
	}
}

// TestCheckFit_NamesTheLimitThatIsReached: a packet that its own queue has room for, and all queues
// together have not, did not find its queue full.
func TestCheckFit_NamesTheLimitThatIsReached(t *testing.T) {
	port := Port{Classes: []class.Class{{Priority: 0, Limit: 6000}}}
	b := New(Config{Size: 10_000, Ports: []Port{port, port, port}})
	for _, c := range []struct {
		out  int
		n    units.Bytes
		want packet.Fate
	}{{0, 6001, packet.QueueFull}, {0, 6000, packet.Fine}, {1, 4000, packet.Fine}, {0, 1, packet.QueueFull}, {1, 1000, packet.BufferFull}, {2, 1, packet.BufferFull}} {
		got := b.CheckFit(0, c.out, 0, c.n)
		if got != c.want {
			t.Errorf("%d bytes for port %d: %v, want %v", c.n, c.out, got, c.want)
		}
		if got == packet.Fine {
			b.ChargePacket(0, 0, c.out, 0, c.n)
		}
	}
}
