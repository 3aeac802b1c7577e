package fair

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

const mtu = 1538 // of Ethernet, on the wire

// TestModel: whatever is pushed, popped and dropped, nothing is lost or invented,
// packets of a flow keep their order, and HeadPacket returns what Pop will return. The
// flows collide: many have the same slot in the same set.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New(units.Bytes(rapid.IntRange(0, 2*mtu).Draw(t, "quantum")))
		flows := rapid.SliceOfNDistinct(rapid.OneOf(
			rapid.Uint64Range(0, 3),
			rapid.Map(rapid.Uint64Range(0, 20), func(n uint64) uint64 { return n*Flows + 5 }),
			rapid.Map(rapid.Uint64Range(0, 20), func(n uint64) uint64 { return n*Flows + 6 }),
		), 1, 40, rapid.ID).Draw(t, "flows")
		model := map[uint64][]*packet.Packet{}
		var packets int
		var bytes units.Bytes
		remove := func(p *packet.Packet, what string) {
			if len(model[p.Hash]) == 0 || model[p.Hash][0] != p {
				t.Fatalf("%s gives packet %d, which is not the first of its flow", what, p.ID)
			}
			model[p.Hash] = model[p.Hash][1:]
			packets--
			bytes -= p.Size
		}
		for id := range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "push", "pop", "pop", "drop"}).Draw(t, "step") {
			case "push":
				p := &packet.Packet{
					ID:   uint64(id),
					Hash: rapid.SampledFrom(flows).Draw(t, "flow"),
					Size: units.Bytes(rapid.SampledFrom([]int{60, 61, 590, 1514, 9014}).Draw(t, "size")),
				}
				q.Push(p)
				model[p.Hash] = append(model[p.Hash], p)
				packets++
				bytes += p.Size
			case "pop":
				head := q.HeadPacket()
				p := q.Pop()
				if p != head || (p == nil) != (packets == 0) {
					t.Fatalf("Pop gives %v, Head gave %v, %d packets wait", p, head, packets)
				}
				if p != nil {
					remove(p, "Pop")
				}
			case "drop":
				p := q.DropFattest()
				if (p == nil) != (packets == 0) {
					t.Fatalf("DropFattest gives %v, %d packets wait", p, packets)
				}
				if p != nil {
					remove(p, "DropFattest")
				}
			}
			if q.Len() != packets || q.Bytes() != bytes {
				t.Fatalf("%d packets, %d bytes; want %d, %d", q.Len(), q.Bytes(), packets, bytes)
			}
			walked := map[uint64][]*packet.Packet{}
			q.EachPacket(func(p *packet.Packet) { walked[p.Hash] = append(walked[p.Hash], p) })
			for _, hash := range flows {
				if !slices.Equal(walked[hash], model[hash]) {
					t.Fatalf("flow %d has %d packets, want %d", hash, len(walked[hash]), len(model[hash]))
				}
			}
		}
	})
}

// stream is the packets of one flow, with a size and an interval.
type stream struct {
	hash   uint64
	size   units.Bytes // of a frame
	every  float64     // between packets, in byte times on the wire; 0 means always backlogged
	next   float64
	sent   units.Bytes // on the wire
	waited float64     // longest wait
}

// run sends the streams over a link until a time in byte times on the wire.
func run(q *Queue, streams []*stream, until float64) {
	arrived := map[*packet.Packet]float64{}
	by := map[uint64]*stream{}
	for _, s := range streams {
		by[s.hash] = s
		if s.every == 0 {
			for range 20 {
				q.Push(&packet.Packet{Hash: s.hash, Size: s.size})
			}
		}
	}
	for now := 0.0; now < until; {
		soonest := math.Inf(1)
		for _, s := range streams {
			for ; s.every > 0 && s.next <= now; s.next += s.every {
				p := &packet.Packet{Hash: s.hash, Size: s.size}
				arrived[p] = s.next
				q.Push(p)
			}
			if s.every > 0 {
				soonest = min(soonest, s.next)
			}
		}
		p := q.Pop()
		if p == nil {
			now = soonest
			continue
		}
		s := by[p.Hash]
		if s.every == 0 {
			q.Push(&packet.Packet{Hash: s.hash, Size: s.size})
		} else {
			s.waited = max(s.waited, now-arrived[p])
			delete(arrived, p)
		}
		s.sent += packet.OnWire(p.Size)
		now += float64(packet.OnWire(p.Size))
	}
}

// TestBacklogs: flows that always have packets get equal shares, to within a quantum
// and a packet, whatever the sizes of their packets.
func TestBacklogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quantum := units.Bytes(rapid.IntRange(64, 3*mtu).Draw(t, "quantum"))
		var streams []*stream
		for i := range rapid.IntRange(2, 20).Draw(t, "flows") {
			streams = append(streams, &stream{
				hash: uint64(i) * 7919,
				size: units.Bytes(rapid.SampledFrom([]int{60, 590, 1514, 9014}).Draw(t, "size")),
			})
		}
		run(New(quantum), streams, float64(rapid.IntRange(mtu, 400*mtu).Draw(t, "time")))
		minSent, maxSent := streams[0].sent, streams[0].sent
		for _, s := range streams {
			minSent, maxSent = min(minSent, s.sent), max(maxSent, s.sent)
		}
		if bound := quantum + packet.OnWire(9014); maxSent-minSent > bound {
			t.Fatalf("the flows have sent between %d and %d bytes, bound %d", minSent, maxSent, bound)
		}
	})
}

// TestMaxMin: flows that want less than their share get what they want, and the
// others share the rest equally (max-min fairness).
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const until = 3000 * mtu
		var streams []*stream
		var demands []float64
		for i := range rapid.IntRange(2, 12).Draw(t, "flows") {
			s := &stream{hash: uint64(i) * 7919, size: units.Bytes(rapid.SampledFrom([]int{60, 590, 1514}).Draw(t, "size"))}
			demand := math.Inf(1)
			if rapid.Bool().Draw(t, "limited") {
				demand = rapid.Float64Range(0.001, 0.4).Draw(t, "demand")
				s.every = float64(packet.OnWire(s.size)) / demand
			}
			streams, demands = append(streams, s), append(demands, demand)
		}
		run(New(mtu), streams, until)
		for i, share := range maxMin(demands) {
			if diff := float64(streams[i].sent) - share*until; math.Abs(diff) > 0.02*until*share+4*mtu {
				t.Fatalf("demands %v: flow %d has sent %d bytes, its share is %.0f", demands, i, streams[i].sent, share*until)
			}
		}
	})
}

// maxMin shares a capacity of 1 by progressive filling, in ascending order of demand.
func maxMin(demands []float64) []float64 {
	shares := make([]float64, len(demands))
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if demands[a] < demands[b] {
			return -1
		}
		return 1
	})
	left := 1.0
	for n, i := range order {
		shares[i] = min(demands[i], left/float64(len(order)-n))
		left -= shares[i]
	}
	return shares
}

// TestSparseFlowsDoNotWait: a packet of a flow that sends little waits for the packet
// being sent and for other such flows, not for a round of the backlogged flows.
func TestSparseFlowsDoNotWait(t *testing.T) {
	var streams []*stream
	for i := range 50 {
		streams = append(streams, &stream{hash: uint64(i) * 7919, size: 1514})
	}
	// They start after the first turns of the others.
	sparse := []*stream{
		{hash: 1, size: 60, every: 150 * mtu, next: 60 * mtu},
		{hash: 2, size: 590, every: 170 * mtu, next: 60 * mtu},
		{hash: 3, size: 1514, every: 190 * mtu, next: 60 * mtu},
	}
	run(New(mtu), append(streams, sparse...), 2000*mtu)
	for _, s := range sparse {
		if s.sent == 0 || s.waited > 3*mtu {
			t.Errorf("flow %d has sent %d bytes and waited for %.1f packets at most", s.hash, s.sent, s.waited/mtu)
		}
	}
}

// TestOrder follows a queue packet by packet. f is DropFattest, a digit is a push of
// that flow, a dot is a pop. Packets are 1514 bytes, the quantum two of them.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"111222....", "1122"},
		{"111122223 ..... 3 ......", "11223 1122 3"}, // 3 is empty, but waits for a round
		{"11112 .. f ...", "11 1 21"},
		{"12 f . f .", "1 2"},
		{"1111 .... 1 22 . . .", "1111 1 22"},
		{"1111 2 f f f f f . f", "111 1 2"},
	} {
		q := New(2 * mtu)
		var order []uint64
		for id, step := range c.script {
			var p *packet.Packet
			switch step {
			case ' ':
			case '.':
				p = q.Pop()
			case 'f':
				p = q.DropFattest()
			default:
				q.Push(&packet.Packet{ID: uint64(id), Hash: uint64(step - '0'), Size: 1514})
			}
			if p != nil {
				order = append(order, p.Hash)
			}
		}
		var want []uint64
		for _, d := range c.want {
			if d != ' ' {
				want = append(want, uint64(d-'0'))
			}
		}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.script, diff)
		}
	}
}

// TestOverflow: the flow that fills a limited queue bears the drops, and others lose
// nothing.
func TestOverflow(t *testing.T) {
	q := New(mtu)
	drops := map[uint64]int{}
	for i := range 1000 {
		hash := uint64(9)
		if i%10 == 0 {
			hash = uint64(i/10) % 4
		}
		q.Push(&packet.Packet{Hash: hash, Size: 1514})
		for q.Bytes() > 50*1514 {
			drops[q.DropFattest().Hash]++
		}
		if i%5 == 0 {
			q.Pop()
		}
	}
	if len(drops) != 1 || drops[9] == 0 {
		t.Errorf("drops by flow %v, want only of flow 9", drops)
	}
}

// TestFlowsAreApart: with far fewer flows than queues, no flows share one.
func TestFlowsAreApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, flows := range []int{8, 256} {
		q := New(mtu)
		for i := range flows {
			hash := rng.Uint64()
			if flows == ways {
				hash = uint64(i)*Flows + 3
			}
			q.Push(&packet.Packet{Hash: hash, Size: 1514})
		}
		active := 0
		for i := range q.flows {
			if q.flows[i].active {
				active++
			}
			if q.flows[i].shared {
				t.Errorf("of %d flows some share a queue", flows)
			}
		}
		if active != flows {
			t.Errorf("%d flows have %d queues", flows, active)
		}
	}
}

func BenchmarkPushPop(b *testing.B) {
	for _, flows := range []int{1, 32, 1024} {
		b.Run(fmt.Sprint(flows, " flows"), func(b *testing.B) {
			b.ReportAllocs()
			q := New(mtu)
			for i := range 2 * flows {
				q.Push(&packet.Packet{Hash: sim.MixBits(uint64(i % flows)), Size: 1514})
			}
			for b.Loop() {
				q.Push(q.Pop())
			}
		})
	}
}

func TestNoAllocation(t *testing.T) {
	q := New(mtu)
	for i := range 64 {
		q.Push(&packet.Packet{Hash: sim.MixBits(uint64(i % 32)), Size: 1514})
	}
	if n := testing.AllocsPerRun(1000, func() {
		q.Push(q.Pop())
		q.Push(q.DropFattest())
		q.HeadPacket()
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}
