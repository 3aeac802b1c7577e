package netnslab

import "testing"

// A super-packet is charged the wire size of its packets, and a single packet its own
// wire size, to the entry's width.
func TestSizeTable_ChargesWireSizes(t *testing.T) {
	lookup := func(tab *sizeTable, length int) int { return int(tab[length>>tableCell]) << tableUnit }
	for _, kind := range []DeviceKind{TAP, TUN} {
		for _, mtu := range []int{1500, 9000} {
			tab := newSizeTable(mtu, kind)
			link := kind.headerLen()
			for _, c := range []struct {
				name         string
				length, wire int // of the packet as the kernel counts it; on the wire
			}{
				{"a full packet", mtu + link, mtu + 38},
				{"the shortest", 28 + link, wireMin},
				{"two full ones of IPv4", 52 + 2*(mtu-52) + link, 2 * (mtu + 38)},
				{"three of IPv6", 72 + 3*(mtu-72) + link, 3 * (mtu + 38)},
				{"six without timestamps", 40 + 6*(mtu-40) + link, 6 * (mtu + 38)},
			} {
				if got := lookup(&tab, c.length); got < c.wire || got > c.wire+1<<tableUnit {
					t.Errorf("%v, MTU %d, %s: %d bytes are charged as %d, want %d", kind, mtu, c.name, c.length, got, c.wire)
				}
			}
			for length := 60 + link; length < mtu; length++ {
				wire := length - link + 38
				if got := lookup(&tab, length); got < wire-1<<tableCell || got > wire+1<<tableCell {
					t.Errorf("%v, MTU %d: a packet of %d bytes is charged as %d, want about %d", kind, mtu, length, got, wire)
				}
			}
		}
	}
}
