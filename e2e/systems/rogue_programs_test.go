package systems

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/status"
)

// roguePairs is pairs of hosts whose NICs use RoGUE, at a switch; the links of servers lose
// packets. Round trips on a busy machine are milliseconds: the timeout is the programs' own.
func roguePairs() string {
	var links strings.Builder
	for i := range 8 {
		loss := ""
		if i < 4 {
			loss = ", loss: 0.2%"
		}
		fmt.Fprintf(&links, "    - {endpoints: [\"h%[1]d:eth0\", \"s:%[1]d\"]%s}\n", i+1, loss)
	}
	return `
topology:
  kinds: {host: {nic: {mtu: 1024, layer: rogue, rate-limiter: connectx-4}}, link: {rate: 1Gbps, delay: 50us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}, h5: {kind: host}, h6: {kind: host}, h7: {kind: host}, h8: {kind: host}, s: {kind: switch}}
  links:
` + links.String()
}

// TestRoGUE_CarriesUnmodifiedPrograms: over the layer, on a network that loses packets.
func TestRoGUE_CarriesUnmodifiedPrograms(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, roguePairs(), "rping", "ib_write_bw", "ucx_perftest")
	t.Cleanup(func() {
		servers, clients := []string{"h1", "h2", "h3", "h4"}, []string{"h5", "h6", "h7", "h8"} // of testlab.OnPairs
		for counter, hosts := range map[string][]string{"verbs": clients, "samples": clients, "clock_reads": clients, "echoes": servers} {
			if n := layerWork(l, counter, hosts); n == 0 {
				t.Errorf("the layer of %v counts no %s", hosts, counter)
			}
		}
		if r := l.Down(); r.Accounts.Dropped == 0 {
			t.Errorf("nothing was lost: %+v", r.Accounts)
		}
	})
	runPrograms(l, []string{
		"rping -C 100 -S 40000 -V",
		"ib_write_bw -x 0 -n 300", "ib_send_bw -x 0 -n 300", "ib_read_bw -x 0 -n 300", "ib_write_lat -x 0 -n 200",
		"ib_send_bw -R -x 0 -n 300", "ib_write_bw -R -q 4 -x 0 -n 300", "ib_write_bw -c UC -x 0 -n 300",
		"ucx_perftest -t tag_lat -s 100000", "ucx_perftest -t ucp_put_bw -s 100000", "ucx_perftest -t ucp_get -s 100000", "ucx_perftest -t ucp_am_bw -s 100000",
	})
}

// layerWork sums up a count of the layers of some hosts' NICs.
func layerWork(l *testlab.Lab, name string, hosts []string) (n uint64) {
	l.T.Helper()
	for _, h := range hosts {
		work := l.NIC(h).Layer.Work
		n += work[slices.IndexFunc(work, func(w status.LayerWork) bool { return w.Name == name })].Count
	}
	return n
}
