package fabric

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// aclLab is two NICs that send to a third, with drops by identification at the switch,
// as RoGUE's authors did for their figure 9.
const aclLab = `
seed: %d
topology:
  kinds: {host: {attach: none, nic: {recovery: %s, timeout: 524us}}, switch: {queue: {limit: 100MB}}, link: {rate: 40Gbps, delay: 1us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"], from: {"s1:3": {drop-match: "%s"}}}
workload:
  - {incast: {to: h3, from: [h1, h2], verb: write, size: %s, count: %d, ip: %d}}
`

// TestDropMatch_DropsOneNICPacketInEverySoMany: a NIC increments the identification with every
// packet that it sends, retransmissions included, so that a rule drops exactly one packet in
// every so many, in every run, whatever the seed and the number of workers.
func TestDropMatch_DropsOneNICPacketInEverySoMany(t *testing.T) {
	all := []struct {
		rule   string
		every  uint64 // one packet in this many is dropped
		ip     int
		size   string
		number int
	}{
		{"ip-id=0x**ff", 256, 4, "4KB", 1000}, // with more in flight each round loses one again, and go-back-N gives up
		{"ip-id=0x*fff", 4096, 4, "64KB", 400},
		{"ip-id=0x*fff", 4096, 4, "1KB", 9000},
		{"ip-id=0xffff", 65536, 4, "64KB", 1500},
		{"ip-id=0x**ff", math.MaxUint64, 6, "64KB", 100}, // IPv6 has no identification
	}
	if testing.Short() {
		all = all[:1]
	}
	for _, c := range all {
		for _, recovery := range []string{"go-back-n", "connectx-3"} {
			text := fmt.Sprintf(aclLab, 1, recovery, c.rule, c.size, c.number, c.ip)
			t.Run(fmt.Sprintf("%s IPv%d %s %s", c.rule, c.ip, c.size, recovery), func(t *testing.T) {
				var trace uint64
				for _, workers := range []int{1, 2} {
					f, err := NewWithWorkers(parse(t, text), workers)
					if err != nil {
						t.Fatal(err)
					}
					if err := f.Run(context.Background(), units.Second); err != nil {
						t.Fatal(err)
					}
					want, again := uint64(0), uint64(0)
					for _, n := range f.nics[:2] {
						counters, _ := n.Counters()
						want += (counters.XmitPackets + 1) / c.every
					}
					for i, x := range f.Transfers() {
						again += x.Retransmitted
						if x.Failed > 0 || x.Completed != uint64(c.number) {
							t.Errorf("transfer %d: %d completed, %d failed", i, x.Completed, x.Failed)
						}
					}
					if got := f.Accounts().Drops["link-match"]; got != want || c.ip == 4 && (got == 0 || again < got) {
						t.Errorf("%d dropped, not %d; %d sent again", got, want, again)
					}
					if workers == 1 {
						trace = f.Trace()
					} else if f.Trace() != trace {
						t.Errorf("another trace with %d workers", workers)
					}
				}
			})
		}
	}
}
