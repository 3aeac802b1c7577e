package lab

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// TestMesh_ModelledTrafficUsesTheLinkBetweenTheTwo: in wall-clock time, beside a real host, flows
// and transfers between hosts that are joined by direct links all arrive, and each link carries
// its own; interfaces in the file choose the link. A link that loses everything makes the run fail
// with an exit code of its own.
func TestMesh_ModelledTrafficUsesTheLinkBetweenTheTwo(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	const mesh = `
topology:
  kinds: {host: {attach: none, nic: {timeout: 1ms}}, link: {rate: 100Mbps, delay: 100us, mtu: 4200}}
  nodes: {h1: {kind: host, attach: tap}, h2: {kind: host}, h3: {kind: host}}
  links:
    - {endpoints: ["h1:e2", "h2:e1"]}
    - {endpoints: ["h1:e3", "h3:e1"]}
    - {endpoints: ["h2:e3", "h3:e2"], loss: %s}
workload:
  - {flow-all-to-all: {name: rdma, sizes: 20KB, window: 1}}
  - {flow-all-to-all: {name: tcp, sizes: 20KB, window: 1, by: tcp}}
  - {cbr: {from: "h2:e3", to: h3, rate: 1Mbps, size: 1000B, for: 100ms}}
  - {write: {from: "h2:e1", to: "h1:e2", size: 10KB, ip: 6}}
  - {write: {from: "h2:e3", to: "h3:e2", size: 10KB, ip: 6}}
`
	for loss, code := range map[string]int{"0%": 0, "100%": testlab.ExitTraffic} {
		t.Run(loss, func(t *testing.T) {
			l := testlab.New(t, weft, t.TempDir(), fmt.Sprintf(mesh, loss))
			out, e, got := l.Run("up", "--workload", "--for", "2s", "--json", l.File)
			if got != code {
				t.Fatalf("exit code %d, want %d\n%s%s", got, code, out, e)
			}
			var r report.Report
			if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r); err != nil {
				t.Fatal(err)
			}
			if failed := r.TrafficFailures(); (failed != "") != (code != 0) {
				t.Errorf("failures: %q", failed)
			}
			if code != 0 {
				return
			}
			for _, p := range r.Patterns.Patterns {
				if p.Done != 6 {
					t.Errorf("%+v", p)
				}
			}
			for _, x := range r.Transfers {
				if x.Completed != 1 {
					t.Errorf("%+v", x)
				}
			}
			for _, f := range r.Flows {
				if f.Received != f.Sent || f.Sent == 0 {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
