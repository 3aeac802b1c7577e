package eqif

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

const mtu = units.Bytes(1514)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestJudge: each class at the edges of its thresholds.
func TestJudge(t *testing.T) {
	tcp := TCPDefault(mtu, random())
	bf2, cx4 := RDMAPreset("bluefield2", random()), RDMAPreset("connectx4", random())
	lossless := bf2
	lossless.Lossless = true
	native := Native{Packets: 100}
	for _, c := range []struct {
		name string
		d    Discipline
		q    Queue
		ect  bool
		want Verdict
	}{
		{"TCP, empty", &tcp, Queue{}, false, Accept},
		{"TCP, 99 packets", &tcp, Queue{99, 99 * mtu}, false, Accept},
		{"TCP, 100 packets", &tcp, Queue{100, 100 * mtu}, false, Drop},
		{"ECT, 16 packets", &tcp, Queue{16, 16 * mtu}, true, Accept},
		{"ECT, above 32 packets", &tcp, Queue{33, 32*mtu + 1}, true, Mark},
		{"ECT, 99 packets", &tcp, Queue{99, 99 * mtu}, true, Mark},
		{"ECT, 100 packets", &tcp, Queue{100, 100 * mtu}, true, Drop},
		{"RDMA, K_low", &bf2, Queue{50, 72 * units.KB}, false, Accept},
		{"RDMA, above K_high", &bf2, Queue{400, 584*units.KB + 1}, true, Notify},
		{"RDMA, the same with a ConnectX-4", &cx4, Queue{100, 150 * units.KB}, true, Accept},
		{"RDMA, full", &bf2, Queue{750, 700 * units.KB}, true, Drop},
		{"RDMA, full and held up", &lossless, Queue{750, 700 * units.KB}, true, Refuse},
		{"native, 99 packets", &native, Queue{99, 99 * mtu}, true, Accept},
		{"native, full", &native, Queue{100, 100 * mtu}, true, Refuse},
	} {
		if got := c.d.JudgePacket(c.q, mtu, c.ect); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestProbability: midway between the thresholds half of the packets are marked, or notified
// with RDMA.
func TestProbability(t *testing.T) {
	tcp, rdma := TCPDefault(mtu, random()), RDMAPreset("bluefield2", random())
	marked, told := 0, 0
	const n = 20000
	for range n {
		if tcp.JudgePacket(Queue{24, 24 * mtu}, mtu, true) == Mark {
			marked++
		}
		if tcp.JudgePacket(Queue{24, 24 * mtu}, mtu, false) != Accept {
			t.Fatal("a packet is marked that is not ECN-capable")
		}
		if rdma.JudgePacket(Queue{200, 328 * units.KB}, mtu, false) == Notify {
			told++
		}
	}
	for _, got := range []int{marked, told} {
		if math.Abs(float64(got)/n-0.5) > 0.02 {
			t.Errorf("%d of %d", got, n)
		}
	}
}

func TestCheck(t *testing.T) {
	tcp := TCPDefault(mtu, nil)
	if err := tcp.Check(); err != nil {
		t.Error(err)
	}
	for _, name := range RDMAPresets {
		d := RDMAPreset(name, nil)
		if err := d.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Native{Packets: 1}).Check(); err != nil {
		t.Error(err)
	}
	good := tcp.RED
	for name, d := range map[string]interface{ Check() error }{
		"no packets":         &TCP{RED: good},
		"kmin":               &TCP{Packets: 1, RED: Thresholds{KMin: -1, KMax: 1}},
		"kmax below kmin":    &RDMA{Packets: 1, CNP: Thresholds{KMin: 2, KMax: 1}},
		"pmax":               &RDMA{Packets: 1, CNP: Thresholds{PMax: 1.1}},
		"a native one of 0":  &Native{},
		"an RDMA one of few": &RDMA{CNP: good},
	} {
		if d.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// user is a participant in a rotation, with packets.
type user struct {
	Turn[*user]
	sizes []units.Bytes
	sent  units.Bytes // on the wire
}

func newRotation() *Rotation[*user] {
	return NewRotation[*user](mtu)
}

// serve sends up to n packets and returns their owners.
func serve(r *Rotation[*user], n int) (who []*user) {
	for range n {
		t := r.Head()
		if t == nil {
			break
		}
		u := t.Owner
		r.ChargeHead(u.sizes[0])
		u.sent += packet.OnWire(u.sizes[0])
		u.sizes = u.sizes[1:]
		if len(u.sizes) == 0 {
			r.RemoveTurn(t)
		} else {
			t.Size = u.sizes[0]
		}
		who = append(who, u)
	}
	return who
}

func newUser(r *Rotation[*user], weight, n int, size units.Bytes) *user {
	u := &user{sizes: slices.Repeat([]units.Bytes{size}, n)}
	u.Owner, u.Weight, u.Size = u, weight, size
	r.AddTurn(&u.Turn)
	return u
}

// TestRotation: users with long packets get no more than those with short ones, weights count,
// and users without packets do not hold up others.
func TestRotation(t *testing.T) {
	r := newRotation()
	long, short, heavy := newUser(r, 0, 1000, mtu), newUser(r, 1, 20000, 100), newUser(r, 3, 3000, 1000)
	serve(r, 5000)
	a, b, c := float64(long.sent), float64(short.sent), float64(heavy.sent)
	if math.Abs(a/b-1) > 0.02 || math.Abs(c/a-3) > 0.06 {
		t.Errorf("%v, %v and %v are sent", long.sent, short.sent, heavy.sent)
	}
	serve(r, 1<<20)
	if r.Head() != nil || len(long.sizes)+len(short.sizes)+len(heavy.sizes) > 0 || long.IsWaiting() {
		t.Error("something is left")
	}
	r.RemoveTurn(&long.Turn) // leaving again is allowed
	one := newUser(r, 1, 3, mtu)
	r.AddTurn(&one.Turn)
	if diff := cmp.Diff(3, len(serve(r, 10))); diff != "" {
		t.Errorf("alone (-want +got):\n%s", diff)
	}
}

// TestRotationIsFair: for any two users that waited all the time, the amounts sent differ by
// less than two turns and a packet, whatever other users do.
func TestRotationIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRotation()
		size := rapid.Custom(func(t *rapid.T) units.Bytes { return units.Bytes(rapid.Int64Range(60, int64(mtu)).Draw(t, "size")) })
		a, b := newUser(r, 1, 400, size.Draw(t, "a")), newUser(r, 1, 400, size.Draw(t, "b"))
		var others []*user
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				others = append(others, newUser(r, 1, rapid.IntRange(1, 5).Draw(t, "packets"), size.Draw(t, "other")))
			case 1:
				if len(others) > 0 {
					r.RemoveTurn(&others[0].Turn)
					others = others[1:]
				}
			}
			serve(r, rapid.IntRange(0, 9).Draw(t, "served"))
			if gap := a.sent - b.sent; max(gap, -gap) > 2*packet.OnWire(mtu)+packet.OnWire(mtu) {
				t.Fatalf("%v and %v are sent", a.sent, b.sent)
			}
		}
	})
}

// TestNoAllocation: neither judging nor turns allocate.
func TestNoAllocation(t *testing.T) {
	r, tcp := newRotation(), TCPDefault(mtu, random())
	u, v := newUser(r, 1, 1<<20, mtu), newUser(r, 2, 1<<20, 100)
	n := testing.AllocsPerRun(1000, func() {
		tcp.JudgePacket(Queue{24, 24 * mtu}, mtu, true)
		for range 3 {
			x := r.Head().Owner
			r.ChargeHead(x.sizes[0])
		}
	})
	if n != 0 || !u.IsWaiting() || !v.IsWaiting() {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRotation measures one packet's turn among three EQIFs.
func BenchmarkRotation(b *testing.B) {
	r := newRotation()
	for range 3 {
		newUser(r, 1, 1, mtu)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Head()
		r.ChargeHead(mtu)
	}
}
