package netnslab

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// In a host that is 100 times slower than real time, devices are 100 times slower and the
// kernel's timers take 100 times as long.
func TestDilatedHost_HasSlowDevicesAndTimers(t *testing.T) {
	t.Parallel()
	h := hostN(1, TAP, 10*units.Gbps)
	h.Interfaces[0].Offload = true
	h.Dilation = 100
	l := makeLab(t, h)
	name := h.Interfaces[0].Name
	tc := inNetwork(t, l, h.Name, "tc", "qdisc", "show", "dev", name)
	if !strings.Contains(tc, "rate 99900Kbit") { // 100 Mb/s, less a thousandth
		t.Errorf("a device of 10 Gb/s has the shaper %s", tc)
	}
	// Super-packets are sized for 10 Gb/s: 64 KB, not the 8 packets of 100 Mb/s.
	if got := inNetwork(t, l, h.Name, "ip", "-d", "link", "show", name); !strings.Contains(got, "gso_max_segs 43") {
		t.Errorf("gso_max_segs is not that of 10 Gb/s: %s", got)
	}
	for _, family := range []string{"-4", "-6"} {
		routes := inNetwork(t, l, h.Name, "ip", family, "route", "show", "dev", name)
		slow := 0
		for line := range strings.Lines(routes) {
			if strings.Contains(line, "rto_min lock 20s") {
				slow++
			}
		}
		if slow == 0 {
			t.Errorf("routes without the slow timeout: %s", routes)
		}
	}
	for key, want := range map[string]string{
		"net/ipv4/neigh/" + name + "/retrans_time_ms":        "100000",
		"net/ipv6/neigh/" + name + "/retrans_time_ms":        "100000",
		"net/ipv4/neigh/" + name + "/base_reachable_time_ms": "3000000",
		"net/ipv4/neigh/" + name + "/delay_first_probe_time": "500",
		"net/ipv4/tcp_tso_rtt_log":                           "15",
	} {
		if len(filterKnown([]Sysctl{{Key: strings.ReplaceAll(key, name, "lo")}})) == 0 {
			t.Logf("this kernel has no %s", key)
			continue
		}
		if got := strings.TrimSpace(inNetwork(t, l, h.Name, "cat", "/proc/sys/"+key)); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	// A new rate is emulated too.
	if err := l.Devices()[0].SetRate(units.Gbps); err != nil {
		t.Fatal(err)
	}
	if tc := inNetwork(t, l, h.Name, "tc", "qdisc", "show", "dev", name); !strings.Contains(tc, "rate 9990Kbit") {
		t.Errorf("a device of 1 Gb/s has the shaper %s", tc)
	}
}

// There are none at dilation 1, and no values that overflow in the kernel.
func TestSlowedSysctls_FitTheKernel(t *testing.T) {
	if got := append(slowedSysctls(1), slowedNeighbours(1, "lo")...); got != nil {
		t.Errorf("at dilation 1: %v", got)
	}
	for _, s := range slowedNeighbours(1_000_000, "lo") {
		if len(s.Value) > len("1000000000") {
			t.Errorf("%v is more than an int holds", s)
		}
	}
}
