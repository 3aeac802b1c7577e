package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// deadLink is two pairs of hosts, of which the link of h4 loses everything.
const deadLink = `
name: dead-link
duration: %s
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
    - {endpoints: ["h4:eth0", "s1:4"], loss: 100%}
workload:
`

// TestSim_FailedTrafficHasAnExitCode: a run in which flows of a pattern or messages of a transfer
// failed ends with exit code 4 and says so in the second line of its report, in text and JSON; all
// files are written. Flows that are only unfinished, and lost datagrams, are no failures.
func TestSim_FailedTrafficHasAnExitCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length, workload string
		code             int
		want             string
	}{
		"transfer":   {"10s", "  - {write: {from: [h1, h3], to: [h2, h4], size: 1MB}}\n", testlab.ExitTraffic, "FAILED   2 messages in 2 of 4 transfers (IBV_WC_RETRY_EXC_ERR)"},
		"rdma":       {"10s", "  - {flow-permutation: {name: ring, hosts: [h1, h2, h4], stride: 1, sizes: 1MB, count: 1}}\n", testlab.ExitTraffic, "FAILED   2 of 3 flows of ring (IBV_WC_RETRY_EXC_ERR)"},
		"unfinished": {"10ms", "  - {flow-permutation: {name: ring, hosts: [h1, h2, h4], stride: 1, sizes: 1MB, count: 1}}\n", 0, ""},
		"datagrams":  {"10ms", "  - {cbr: {from: h1, to: h4, rate: 1Gbps, size: 1000B}}\n", 0, ""},
		"good":       {"10ms", "  - {write: {from: h1, to: h2, size: 1MB}}\n", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, run := inDir(t, strings.Replace(deadLink, "%s", c.length, 1)+c.workload)
			file := map[bool]string{true: "--transfer-records", false: "--flow-records"}[strings.Contains(c.workload, "write")]
			if strings.Contains(c.workload, "cbr") {
				file = "--stream-records"
			}
			out, e, code := run("sim", "lab.yaml", file, "x.csv", "--why-no-pause", "s1:1")
			if code != c.code {
				t.Fatalf("exit code %d, want %d\n%s%s", code, c.code, out, e)
			}
			if _, err := os.Stat(filepath.Join(dir, "x.csv")); err != nil {
				t.Error(err)
			}
			lines := strings.Split(out, "\n")
			if c.want == "" {
				if strings.Contains(out, "FAILED") || strings.Contains(e, "failed") {
					t.Errorf("%s%s", out, e)
				}
				return
			}
			if lines[1] != c.want || !strings.Contains(e, "weft: modelled traffic failed: ") {
				t.Errorf("the second line is %q, want %q\n%s", lines[1], c.want, e)
			}
			if !strings.Contains(out, "s1:1, which h1:eth0 sends to") {
				t.Errorf("the report lacks the explanation of s1:1:\n%s", out)
			}
			if out, _, code = run("sim", "lab.yaml", "--json"); code != c.code || !strings.HasPrefix(out, "{") {
				t.Errorf("--json: exit code %d\n%.300s", code, out)
			}
		})
	}
}

// TestValidate_NamesAddressesWithoutARoute: hosts of different subnets on one switch are no error
// without a workload, but a note.
func TestValidate_NamesAddressesWithoutARoute(t *testing.T) {
	t.Parallel()
	_, run := inDir(t, `
addressing: {ipv6: none}
topology:
  nodes: {h1: {kind: host, address: 10.0.1.1/24}, h2: {kind: host, address: 192.168.7.1/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`)
	out, e, code := run("validate", "lab.yaml")
	if code != 0 || !strings.Contains(out, "good") || !strings.Contains(e, "no other host on the links of h2:eth0 has a route to its address 192.168.7.1/24") {
		t.Errorf("exit code %d\n%s%s", code, out, e)
	}
}
