package systems

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/units"
)

// sprayed runs one flow for a time over two paths of different length, among which a
// switch chooses for each packet, behind a link that loses packets. It returns how much
// was received and how many packets were sent again for each that arrived.
func sprayed(t *testing.T, recovery string, loss float64, length units.Time) (received uint64, again float64) {
	t.Helper()
	f, err := fabric.NewSharded(fabrictest.Parse(t, fmt.Sprintf(`
duration: %v
topology:
  kinds: {switch: {forwarding: random}, host: {attach: none, nic: {timeout: 1ms, recovery: %s}}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}, a: {kind: switch}, b: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], loss: %v}
    - {endpoints: ["s1:2", "a:1"]}
    - {endpoints: ["s1:3", "b:1"], delay: 4us}
    - {endpoints: ["a:2", "s2:2"]}
    - {endpoints: ["b:2", "s2:3"]}
    - {endpoints: ["h2:eth0", "s2:1"]}
workload:
  - {write: {from: h1, to: h2, size: 1MB, count: unlimited}}
`, length, recovery, loss)), 1)
	if err != nil {
		t.Fatal(err)
	}
	runTo(t, f, length)
	r := f.Transfers()[0]
	if r.Failed > 0 {
		t.Errorf("%s: %d messages failed: %s", recovery, r.Failed, r.FirstFailure)
	}
	for _, n := range f.NICs() {
		again += float64(n.Counters.Of("retransmitted_packets"))
	}
	return uint64(r.Received), again / (float64(r.Received) / 1024)
}

// TestIRN_NeedsNeitherOrderNorLosslessness: without PFC, with 1% of loss and packets sprayed
// over paths of different length, go-back-N makes hardly any progress. IRN does, and more if
// it is told how far packets may overtake each other: by 3 us, which is 3 packets.
func TestIRN_NeedsNeitherOrderNorLosslessness(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const length = 20 * ms
	line := length.Seconds() * 10e9 / 8 * 1024 / (14 + 20 + 8 + 12 + 1024 + 4 + 24)
	var share, again [3]float64
	for i, recovery := range []string{"go-back-n", "irn", "{irn: {reordering: 8}}"} {
		received, resent := sprayed(t, recovery, 0.01, length)
		share[i], again[i] = float64(received)/line, resent
		t.Logf("%-24s %.3f of the line, %.3f packets sent again for each", recovery, share[i], resent)
	}
	if share[1] < 3*share[0] || share[2] < share[1] {
		t.Errorf("shares of the line: %v", share)
	}
	if again[2] > 0.02 {
		t.Errorf("with room for disorder %.3f packets are sent again for each, and 1%% are lost", again[2])
	}
}

// TestIRN_SurvivesLossUnderEveryRateControl: all verbs survive 1% of loss without PFC under
// every rate control, and in the configuration of the paper's comparisons.
func TestIRN_SurvivesLossUnderEveryRateControl(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const length = 10 * ms
	run := func(nic string) {
		f, err := fabric.NewSharded(fabrictest.Parse(t, fmt.Sprintf(`
duration: %v
topology:
  kinds: {host: {attach: none, nic: {timeout: 1ms, %s}}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], loss: 0.01}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"], loss: 0.01}
workload:
  - {write: {from: h1, to: h2, size: 100KB, count: unlimited}}
  - {send: {from: h2, to: h1, size: 100KB, count: unlimited}}
  - {read: {from: h3, to: h2, size: 100KB, count: unlimited}}
  - {read: {from: h2, to: h3, size: 1KB, count: unlimited}}
`, length, nic)), 1)
		if err != nil {
			t.Fatal(err)
		}
		runTo(t, f, length)
		for i, r := range f.Transfers() {
			if r.Failed > 0 || r.Completed == 0 {
				t.Errorf("%s: transfer %d: %d messages completed, %d failed: %s", nic, i, r.Completed, r.Failed, r.FirstFailure)
			}
		}
	}
	for _, cc := range []string{"none", "dcqcn", "hpcc", "dctcp", "swift", "timely", "rocc", "qcn"} {
		run("recovery: irn, cc: " + cc)
	}
	for _, recovery := range []string{
		"{go-back-n: {window: -1}}", "{irn: {window: 0}}", "{irn: {resend: oldest}}", "{irn: {timeouts: roce}}", "{irn: {placement: ordered}}",
		"{irn: {n: 5, rto_low: 50us, rto_high: 500us}}",
	} {
		run("recovery: " + recovery)
	}
}
