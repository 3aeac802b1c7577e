package carrier

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/wire/roce"
)

// TestNumbers: numbers of connections have 24 bits, are not used otherwise, differ
// if any of their parts differs, and can be parsed.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts, traffics := rapid.IntRange(1, 5000).Draw(t, "hosts"), rapid.IntRange(1, 20).Draw(t, "traffics")
		members, settings := make([]Member, hosts), map[int]RDMA{}
		for i := range members {
			members[i].Node = 3 * i
		}
		for i := range traffics {
			settings[i] = RDMA{}
		}
		table, err := NewTable(members, traffics, settings)
		if err != nil {
			t.Fatal(err)
		}
		type of struct {
			role    uint32
			traffic int
			peer    int32
			slot    int32
		}
		draw := func() of {
			return of{
				rapid.SampledFrom([]uint32{0, responderRole}).Draw(t, "role"), rapid.SampledFrom([]int{0, traffics - 1}).Draw(t, "traffic"),
				rapid.SampledFrom([]int32{0, int32(hosts) - 1}).Draw(t, "peer"), rapid.SampledFrom([]int32{0, int32(table.FlowSlots()) - 1}).Draw(t, "slot"),
			}
		}
		a, b := draw(), draw()
		x, y := table.pairNumber(a.role, a.traffic, a.peer, a.slot), table.pairNumber(b.role, b.traffic, b.peer, b.slot)
		if (x == y) != (a == b) || x < firstNumber || x > qp.MaxNumber || x > roce.PSNMask {
			t.Fatalf("%+v is %#x, %+v is %#x", a, x, b, y)
		}
		if traffic, peer, ok := table.parseNumber(x); ok != (a.role != 0) || ok && (traffic != a.traffic || peer != a.peer) {
			t.Fatalf("%+v is taken apart as %d %d %v", a, traffic, peer, ok)
		}
		if n := x&^responderRole&^table.peerBits() | uint32(a.peer)<<table.slotBits; n != table.pairNumber(0, a.traffic, a.peer, a.slot) {
			t.Fatalf("the other end of %+v is %#x", a, n)
		}
	})
	if _, err := NewTable(make([]Member, 1<<18), 16, nil); err == nil {
		t.Error("too many hosts are taken")
	}
}

// TestBegins compares with a set: the first datagram of a flow begins it once.
func TestBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n numbers
		seen := map[uint32]bool{}
		top := int64(-1)
		first := rapid.SampledFrom([]uint32{0, 1<<32 - 500}).Draw(t, "first")
		n.next = first
		for range 300 {
			k := max(0, top+int64(rapid.IntRange(-300, 20).Draw(t, "number")))
			want := !seen[uint32(k)] && k > top-256
			if got := n.recordDatagram(first + uint32(k)); got != want {
				t.Fatalf("flow %d behind %d: %v, want %v", k, top, got, want)
			}
			seen[uint32(k)] = true
			top = max(top, k)
		}
	})
}
