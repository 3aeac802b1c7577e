package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// incastLab is an incast with rate control, losses and more queue pairs than are shown.
const incastLab = `
name: incast
seed: 3
duration: 2ms
topology:
  kinds:
    host: {attach: none, nic: {cc: dcqcn, dscp: 26, timeout: 1ms}}
    switch:
      classes:
        cnp: {dscp: 48, priority: 6}
        lossless: {dscp: 26, priority: 3, mark: {step: {k: 20KB}}, limit: 60KB}
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us, mtu: 4200}}
workload:
  - {incast: {to: h1, from: [h2, h3], size: 1MB, count: unlimited, qps: 11, depth: 4}}
`

// TestSim_ShowsNICsAndChangesNothing: the report has the NICs' counters, and with --qp the queue
// pairs; reading them changes nothing.
func TestSim_ShowsNICsAndChangesNothing(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	file := filepath.Join(t.TempDir(), "incast.yaml")
	if err := os.WriteFile(file, []byte(incastLab), 0o600); err != nil {
		t.Fatal(err)
	}
	r, plain := testlab.Simulate(t, weft, file, "--qp"), testlab.Simulate(t, weft, file, "--workers", "2")
	if r.Trace != plain.Trace || len(r.QPs) != 44 || len(plain.QPs) != 0 || len(r.NICs) != 3 {
		t.Fatalf("traces %s and %s, %d and %d queue pairs, %d NICs", r.Trace, plain.Trace, len(r.QPs), len(plain.QPs), len(r.NICs))
	}
	limited := 0
	for _, q := range r.QPs {
		if len(q.Gauges) > 1 && q.Rate < q.LineRate && q.Peer == "h1:eth0" {
			limited++
		}
	}
	if limited == 0 || r.NICs[0].Counters.Of("np_cnp_sent") == 0 {
		t.Errorf("%d queue pairs are limited, %v", limited, r.NICs[0].Counters)
	}
	o, e, code := testlab.RunWeft(t, weft, "sim", file, "--qp")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	for _, want := range []string{
		"NIC counter", fmt.Sprintf("np_cnp_sent                 %d", r.NICs[0].Counters.Of("np_cnp_sent")), "retransmitted_packets",
		"\nnic      qpn  type  state  peer     rqpn  sq-psn", "\nand 4 more queue pairs\n",
	} {
		if !strings.Contains(o, want) {
			t.Errorf("%q is not in\n%s", want, o)
		}
	}
	if o, _, _ := testlab.RunWeft(t, weft, "sim", file); strings.Contains(o, "qpn") {
		t.Errorf("queue pairs without --qp:\n%s", o)
	}
}

// TestNICCommands_WrongArgumentsAreRefused: wrong arguments are reported before a lab is asked.
func TestNICCommands_WrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	for _, args := range [][]string{{"qp", "h1", "x"}, {"qp", "h1", "16777216"}, {"qp", "h1", "-1"}, {"qp", "h1", "1", "2"}, {"nic", "h1", "h2"}} {
		if _, e, code := testlab.RunWeft(t, weft, args...); code != 2 || e == "" {
			t.Errorf("weft %v: exit code %d, %q", args, code, e)
		}
	}
	for _, args := range [][]string{{"qp", "-l", "nosuch"}, {"qp", "nosuch/h1", "17"}, {"nic", "-l", "nosuch"}} {
		if _, e, code := testlab.RunWeft(t, weft, args...); code != 2 || !strings.Contains(e, "lab") {
			t.Errorf("weft %v without such a lab: exit code %d, %q", args, code, e)
		}
	}
}
