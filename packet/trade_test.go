package packet

import "testing"

// TestTrade: packets stay in the pool that frees them, and a pool that runs short of
// any kind gets some from one that has many.
func TestTrade(t *testing.T) {
	pools := NewTradingPools(2)
	from, to := pools[0], pools[1]
	kinds := map[string]func() *Packet{
		"bare": from.New, "NIC": from.NewRoCE,
		"tiny": func() *Packet { return from.NewFrame(100) }, "small": func() *Packet { return from.NewFrame(1000) }, "large": func() *Packet { return from.NewFrame(5000) },
	}
	for range 8 * chunk {
		for _, f := range kinds {
			to.Free(f())
		}
	}
	if from.LivePackets()+to.LivePackets() != 0 {
		t.Errorf("%d and %d live", from.LivePackets(), to.LivePackets())
	}
	// The first pool has used up whole chunks and has nothing left.
	short := from.ScarceKinds()
	if short != 1|2|4|8|16 || to.ScarceKinds() != 0 {
		t.Fatalf("short of %b and %b", short, to.ScarceKinds())
	}
	spares := to.SparePackets(short)
	n := 0
	for p := spares.First(); p != nil; p = p.Next {
		n++
	}
	if n != 5*chunk {
		t.Errorf("%d packets for 5 kinds", n)
	}
	from.AdoptPackets(&spares)
	if !spares.Empty() || from.ScarceKinds() != 0 {
		t.Errorf("short of %b afterwards", from.ScarceKinds())
	}
	for what, f := range kinds {
		p := f()
		if p.Next != nil || (what == "NIC") != (p.RoCE != nil) {
			t.Errorf("%s: %+v", what, p)
		}
	}
	// A pool does not give away packets that it needs itself.
	if some := from.SparePackets(short); !some.Empty() {
		t.Error("it has given of the little that it had")
	}
}
