package systems

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// irnLeaves is two hosts with IRN and two paths between their switches, which spray
// packets and lose 1% of them. IRN's timeouts are longer than a busy machine delays a packet.
const irnLeaves = `
topology:
  kinds:
    host: {nic: {recovery: {irn: {window: 0, rto_low: 20ms, rto_high: 50ms, reordering: 16}}}}
    switch: {forwarding: random}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, rate: 2Gbps, delay: 5us, uplink: {loss: 0.5%, jitter: 50us}}}
`

// TestProgramsOverIRN: unmodified programs over a fabric that loses packets and changes
// their order, without PFC.
func TestProgramsOverIRN(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, irnLeaves, "rping", "ib_write_bw", "ucx_perftest")
	const server = "10.0.0.1"
	flags := []string{"-C", "100", "-S", "40000", "-V"}
	l.RunRDMA(append([]string{"rping", "-s"}, flags...), append([]string{"rping", "-c", "-a", server}, flags...))
	for _, argv := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_atomic_bw", "ib_write_lat -n 200", "ib_send_bw -R", "ib_write_bw -R -q 4"} {
		argv := append(strings.Fields(argv), "-x", "0")
		if !strings.Contains(strings.Join(argv, " "), "_lat") {
			argv = append(argv, "-n", "300")
		}
		if _, said := l.RunRDMA(argv, append(argv, server)); !regexp.MustCompile(`\n +\d+ +\d{3,} `).MatchString(said) {
			t.Errorf("%s says\n%s", strings.Join(argv, " "), said)
		}
	}
	for _, test := range []string{"-t tag_lat -s 100000", "-t tag_bw -s 1000", "-t ucp_put_bw -s 100000", "-t ucp_get -s 100000", "-t ucp_fadd", "-t ucp_am_bw -s 100000"} {
		argv := []string{"env", "UCX_TLS=rc_v,self", "ucx_perftest"}
		client := append(append(append([]string{}, argv...), server, "-n", "200", "-w", "10"), strings.Fields(test)...)
		if _, said := l.RunWithServer("13337", argv, client); !regexp.MustCompile(`Final: +\d+ `).MatchString(said) || strings.Contains(said, "ERROR") {
			t.Errorf("ucx_perftest %s says\n%s", test, said)
		}
	}
	// Without losses for IRN to recover from, the test tests nothing.
	r := l.Down()
	if r.Accounts.Dropped == 0 {
		t.Errorf("nothing was lost: %+v", r.Accounts)
	}
}
