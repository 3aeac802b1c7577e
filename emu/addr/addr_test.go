package addr

import (
	"net/netip"
	"testing"
)

func TestNth_EndsBeforeTheBroadcastAddress(t *testing.T) {
	for _, c := range []struct {
		prefix string
		i      uint64
		want   string
	}{
		{"10.0.0.0/24", 1, "10.0.0.1"}, {"10.0.0.0/24", 254, "10.0.0.254"}, {"10.0.0.0/24", 255, "invalid IP"},
		{"10.0.0.0/16", 256, "10.0.1.0"}, {"10.0.0.0/31", 1, "10.0.0.1"}, {"fd00::/64", 1 << 32, "fd00::1:0:0"},
		{"255.255.255.0/24", 1 << 40, "invalid IP"},
	} {
		if got := Nth(netip.MustParsePrefix(c.prefix), c.i); got.String() != c.want {
			t.Errorf("address %d of %s: %v, not %s", c.i, c.prefix, got, c.want)
		}
	}
}

func TestFollowing_HasTheSameSize(t *testing.T) {
	for p, want := range map[string]string{
		"10.0.0.0/16": "10.1.0.0/16", "10.255.0.0/16": "11.0.0.0/16", "fd00::/64": "fd00:0:0:1::/64", "223.0.0.0/8": "invalid Prefix",
	} {
		if got := Following(netip.MustParsePrefix(p)); got.String() != want {
			t.Errorf("after %s: %v, not %s", p, got, want)
		}
	}
}
