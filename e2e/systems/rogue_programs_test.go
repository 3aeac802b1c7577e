package systems

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/fabric"
)

// rogueLeaves is a fabric that loses packets, whose NICs use RoGUE. Round trips on a busy
// machine are milliseconds: the timeout is the programs' own.
const rogueLeaves = `
topology:
  kinds: {host: {nic: {mtu: 1024, layer: rogue, rate-limiter: connectx-4}}, link: {rate: 1Gbps, delay: 50us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s:1"], loss: 0.2%}
    - {endpoints: ["h2:eth0", "s:2"]}
`

// TestProgramsOverRoGUE: unmodified programs over the layer, on a network that loses packets.
func TestProgramsOverRoGUE(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rogueLeaves, "rping", "ib_write_bw", "ucx_perftest")
	const server = "10.0.0.1"
	flags := []string{"-C", "100", "-S", "40000", "-V"}
	l.RunRDMA(append([]string{"rping", "-s"}, flags...), append([]string{"rping", "-c", "-a", server}, flags...))
	for _, argv := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat -n 200", "ib_send_bw -R", "ib_write_bw -R -q 4", "ib_write_bw -c UC"} {
		argv := append(strings.Fields(argv), "-x", "0")
		if !strings.Contains(strings.Join(argv, " "), "_lat") {
			argv = append(argv, "-n", "300")
		}
		if _, said := l.RunRDMA(argv, append(argv, server)); !regexp.MustCompile(`\n +\d+ +\d{3,} `).MatchString(said) {
			t.Errorf("%s says\n%s", strings.Join(argv, " "), said)
		}
	}
	for _, test := range []string{"-t tag_lat -s 100000", "-t ucp_put_bw -s 100000", "-t ucp_get -s 100000", "-t ucp_am_bw -s 100000"} {
		argv := []string{"env", "UCX_TLS=rc_v,self", "ucx_perftest"}
		client := append(append(append([]string{}, argv...), server, "-n", "200", "-w", "10"), strings.Fields(test)...)
		if _, said := l.RunWithServer("13337", argv, client); !regexp.MustCompile(`Final: +\d+ `).MatchString(said) || strings.Contains(said, "ERROR") {
			t.Errorf("ucx_perftest %s says\n%s", test, said)
		}
	}
	for host, counts := range map[string][]string{"h2": {"verbs", "samples", "clock_reads"}, "h1": {"echoes"}} {
		for _, name := range counts {
			i := slices.IndexFunc(l.NIC(host).Layer.Work, func(w fabric.LayerWork) bool { return w.Name == name })
			if n := l.NIC(host).Layer.Work[i].Count; n == 0 {
				t.Errorf("the layer of %s counts no %s", host, name)
			}
		}
	}
	if r := l.Down(); r.Accounts.Dropped == 0 {
		t.Errorf("nothing was lost: %+v", r.Accounts)
	}
}
