package nicemu

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/weftlab/weft/wire"
)

// TestGIDs_KeepTheirIndexAndFillGaps: an address that goes leaves a gap, and the next one gets it.
// The default GID stays, each change is an event, and a full table takes nothing.
func TestGIDs_KeepTheirIndexAndFillGaps(t *testing.T) {
	first := LinkLocal(0x020000000001)
	w := newWorld(t, 1, func(s *Settings, e *Env) { e.LinkLocal, s.Limits.GIDs = first, 4 })
	d := w.host(0).Device
	a, b, c := netip.MustParseAddr("192.168.5.1"), netip.MustParseAddr("fd77::1"), netip.MustParseAddr("10.9.9.9")
	var gap netip.Addr
	for _, x := range []struct {
		name   string
		change func()
		table  []netip.Addr
		events int
	}{
		{"first", func() {}, []netip.Addr{v4(0), v6(0), first}, 0},
		{"known", func() { d.AddAddress(v4(0)); d.AddAddress(first); d.AddAddress(gap) }, []netip.Addr{v4(0), v6(0), first}, 0},
		{"added", func() { d.AddAddress(a) }, []netip.Addr{v4(0), v6(0), first, a}, 1},
		{"full", func() { d.AddAddress(b) }, []netip.Addr{v4(0), v6(0), first, a}, 0},
		{"removed", func() { d.RemoveAddress(v4(0)) }, []netip.Addr{gap, v6(0), first, a}, 1},
		{"unknown", func() { d.RemoveAddress(v4(0)); d.RemoveAddress(first); d.RemoveAddress(gap) }, []netip.Addr{gap, v6(0), first, a}, 0},
		{"in the gap", func() { d.AddAddress(c) }, []netip.Addr{c, v6(0), first, a}, 1},
	} {
		x.change()
		if !slices.Equal(d.GIDs(), x.table) {
			t.Errorf("%s: %v, want %v", x.name, d.GIDs(), x.table)
		}
		events := 0
		for e, ok := d.NextEvent(); ok; e, ok = d.NextEvent() {
			if events++; e.Kind != EventGIDChange || e.Port != 1 {
				t.Errorf("%s: %+v", x.name, e)
			}
		}
		if events != x.events {
			t.Errorf("%s: %d events, want %d", x.name, events, x.events)
		}
		for i, want := range x.table {
			g, err := d.QueryGID(i)
			if want == gap {
				fails(t, x.name+": the gap", err, syscall.EINVAL)
			} else if err != nil || AddressOf(g) != want {
				t.Errorf("%s: GID %d is %v, %v", x.name, i, g, err)
			}
		}
		if slices.Contains(d.Addresses(), first) || slices.Contains(d.Addresses(), gap) {
			t.Errorf("%s: addresses %v", x.name, d.Addresses())
		}
	}
	for to, want := range map[string]netip.Addr{"fe80::9": first, "10.0.0.9": c, "fd00::9": v6(0)} {
		if from, err := d.sourceFor(netip.MustParseAddr(to)); err != nil || from != want {
			t.Errorf("the source for %s is %v, %v, want %v", to, from, err, want)
		}
	}
}

// TestLinkLocal_IsMadeOfTheEthernetAddress: as RFC 4291 appendix A makes it, and back.
func TestLinkLocal_IsMadeOfTheEthernetAddress(t *testing.T) {
	for m, want := range map[wire.MAC]string{0x020000000001: "fe80::ff:fe00:1", 0x3456789abcde: "fe80::3656:78ff:fe9a:bcde"} {
		if got := LinkLocal(m); got != netip.MustParseAddr(want) {
			t.Errorf("%v: %v, want %v", m, got, want)
		}
		if back, ok := EthernetOf(netip.MustParseAddr(want)); !ok || back != m {
			t.Errorf("%s: %v, %v", want, back, ok)
		}
	}
	for _, other := range []string{"fe80::1", "fd00::ff:fe00:1", "169.254.0.1", "10.0.0.1", "fe80::1:ff:fe00:1:0"} {
		if m, ok := EthernetOf(netip.MustParseAddr(other)); ok {
			t.Errorf("%s is of %v", other, m)
		}
	}
}
