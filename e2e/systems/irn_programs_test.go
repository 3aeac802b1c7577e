package systems

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// irnPairs is pairs of hosts with IRN and two paths between their switches, which spray
// packets and lose some of them.
const irnPairs = `
topology:
  kinds:
    host: {nic: {recovery: {irn: {window: 0, rto_low: 20ms, rto_high: 50ms, reordering: 16}}}}
    switch: {forwarding: random}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 4, rate: 2Gbps, delay: 5us, uplink: {rate: 8Gbps, loss: 0.5%, jitter: 50us}}}
`

// TestIRN_CarriesUnmodifiedPrograms: over a fabric that loses packets and changes their order,
// without PFC.
func TestIRN_CarriesUnmodifiedPrograms(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, irnPairs, "rping", "ib_write_bw", "ucx_perftest")
	t.Cleanup(func() {
		// Without losses for IRN to recover from, the test tests nothing.
		if r := l.Down(); r.Accounts.Dropped == 0 {
			t.Errorf("nothing was lost: %+v", r.Accounts)
		}
	})
	runPrograms(l, []string{
		"rping -C 100 -S 40000 -V",
		"ib_write_bw -x 0 -n 300", "ib_send_bw -x 0 -n 300", "ib_read_bw -x 0 -n 300", "ib_atomic_bw -x 0 -n 300", "ib_write_lat -x 0 -n 200",
		"ib_send_bw -R -x 0 -n 300", "ib_write_bw -R -q 4 -x 0 -n 300",
		"ucx_perftest -t tag_lat -s 100000", "ucx_perftest -t tag_bw -s 1000", "ucx_perftest -t ucp_put_bw -s 100000",
		"ucx_perftest -t ucp_get -s 100000", "ucx_perftest -t ucp_fadd", "ucx_perftest -t ucp_am_bw -s 100000",
	})
}

// runPrograms runs programs with these arguments on pairs of hosts, and checks that they have moved
// their data.
func runPrograms(l *testlab.Lab, programs []string) {
	testlab.OnPairs(l, programs, func(program string) string { return program }, func(l *testlab.Lab, p testlab.Pair, program string) {
		argv := strings.Fields(program)
		args := argv[1:]
		switch argv[0] {
		case "rping": // -V compares
			l.RunRDMABetween(p.At, p.From, append([]string{"rping", "-s"}, args...), append([]string{"rping", "-c", "-a", p.Address()}, args...))
		case "ucx_perftest":
			server := []string{"env", "UCX_TLS=rc_v,self", "ucx_perftest"}
			client := append(append(server[:3:3], p.Address(), "-n", "200", "-w", "10"), args...)
			if _, said := l.RunRDMABetween(p.At, p.From, server, client); !regexp.MustCompile(`Final: +\d+ `).MatchString(said) || strings.Contains(said, "ERROR") {
				l.T.Errorf("the client says\n%s", said)
			}
		default:
			if _, said := l.RunRDMABetween(p.At, p.From, argv, append(argv[:len(argv):len(argv)], p.Address())); !regexp.MustCompile(`\n +\d+ +\d{3,} `).MatchString(said) {
				l.T.Errorf("the client says\n%s", said)
			}
		}
	})
}
