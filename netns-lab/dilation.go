package netnslab

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The kernel of a dilated host runs in real time, where a packet takes longer than
// the kernel's timers expect. Timers that can be configured are set to last as long
// in emulated time as they do undilated in real time. These cannot: delayed
// acknowledgements (40 to 200 ms), the first timeout of a SYN (1 s), the interval in
// which BBR looks for the smallest RTT.

// Defaults of Linux.
const (
	rtoMin = 200_000 // us; TCP_RTO_MIN, include/net/tcp.h
	rtoMax = 120_000 // ms; TCP_RTO_MAX, the longest timeout

	// longestTimer (ms) is what the kernel can count in ticks without overflow.
	longestTimer = 1_000_000_000
)

// slowedSysctls returns the sysctls of a host that is d times slower than real time.
// They precede the host's own.
func slowedSysctls(d int) []Sysctl {
	if d <= 1 {
		return nil
	}
	return filterKnown([]Sysctl{
		{"net.ipv4.tcp_comp_sack_delay_ns", strconv.Itoa(1_000_000 * d)},
		// Every 2^9 us of RTT halves TCP's super-packets (tcp_tso_autosize,
		// net/ipv4/tcp_output.c).
		{"net.ipv4.tcp_tso_rtt_log", strconv.Itoa(9 + bits.Len(uint(d)) - 1)},
	})
}

// slowedNeighbours returns the sysctls of one of the host's interfaces, which must
// exist. Without them a neighbour farther away than 3 s / d of emulated time would
// never be found (arp(7)).
func slowedNeighbours(d int, name string) (list []Sysctl) {
	if d <= 1 {
		return nil
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		at := "net/" + family + "/neigh/" + name + "/" // a name may have dots
		list = append(list,
			Sysctl{at + "retrans_time_ms", strconv.Itoa(min(1000*d, longestTimer))},
			Sysctl{at + "base_reachable_time_ms", strconv.Itoa(min(30_000*d, longestTimer))},
			Sysctl{at + "delay_first_probe_time", strconv.Itoa(min(5*d, longestTimer/1000))},
		)
	}
	return filterKnown(list)
}

// filterKnown filters out sysctls that this kernel does not have.
func filterKnown(list []Sysctl) (there []Sysctl) {
	for _, s := range list {
		if _, err := os.Stat(filepath.Join(sysctlDir, filepath.Join(s.splitKey()...))); err == nil {
			there = append(there, s)
		}
	}
	return there
}

// slowRTO sets the minimum retransmission timeout on the routes through devices in
// the calling thread's namespace, for a host that is d times slower than real time:
// d times the host's own minimum, which a sysctl may have changed. Kernels before
// 6.11 support it per route only.
func (ns *namespace) slowRTO(d int, devices []*Device) error {
	if d <= 1 {
		return nil
	}
	us := rtoMin
	if b, err := os.ReadFile(filepath.Join(sysctlDir, "net/ipv4/tcp_rto_min_us")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			us = n
		}
	}
	ms := min(max(us*d/1000, 1), rtoMax)
	for _, dev := range devices {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			routes, err := ns.links.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN, LinkIndex: dev.index}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
			if err != nil {
				return fmt.Errorf("list the routes of %s: %w", dev.Name, err)
			}
			for i := range routes {
				r := &routes[i]
				if r.Dst != nil && (r.Dst.IP.IsLinkLocalUnicast() || r.Dst.IP.IsMulticast()) {
					continue
				}
				r.RtoMin, r.RtoMinLock = ms, true // TCP ignores it without the lock (tcp_rto_min)
				if err := ns.links.RouteReplace(r); err != nil {
					return fmt.Errorf("smallest retransmission timeout of the route to %v: %w", r.Dst, err)
				}
			}
		}
	}
	return nil
}
