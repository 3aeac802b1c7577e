package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestTriggers_OfHtsimActAtOtherHosts: a ring in which the end of each send starts the next host's
// flow runs with every carrier, each flow begins at the instant that ends the one before, and
// results do not depend on the number of workers.
func TestTriggers_OfHtsimActAtOtherHosts(t *testing.T) {
	t.Parallel()
	weft, dir := testlab.Weft(t), t.TempDir()
	ring := "Nodes 4\nConnections 4\nTriggers 3\n0->1 id 1 start 0 size 100000 send_done_trigger 1\n1->2 id 2 trigger 1 size 100000 send_done_trigger 2 prio 7\n" +
		"2->3 id 3 trigger 2 size 100000 recv_done_trigger 3\n0->3 id 4 trigger 3 size 100000\ntrigger id 1 oneshot\ntrigger id 2 barrier count 1\ntrigger id 3 multishot\n"
	if err := os.WriteFile(filepath.Join(dir, "ring.cm"), []byte(ring), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ by, key string }{{"rdma", ""}, {"tcp", ", by: tcp"}, {"ndp", ", by: ndp"}, {"udp", ", by: udp"}} {
		by, lab, file := c.by, filepath.Join(dir, c.by+".yaml"), filepath.Join(dir, c.by+".csv")
		text := "duration: 20ms\ntopology: {kinds: {host: {nic: roce}}, generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}}\n" +
			"workload: [{flow-list: {htsim: ring.cm" + c.key + "}}]\n"
		if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var first string
		for workers := 1; workers <= 3; workers++ {
			out, e, code := testlab.RunWeft(t, weft, "sim", lab, "--flow-records", file, "--workers", fmt.Sprint(workers))
			if code != 0 {
				t.Fatalf("%s: exit code %d\n%s", by, code, e)
			}
			trace := out[strings.Index(out, "trace"):]
			if workers == 1 {
				first = trace
			} else if trace != first {
				t.Errorf("%s with %d workers: %s, with one %s", by, workers, trace, first)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := func(from, to, name string) string {
			column := func(name string) int { return slices.Index(rows[0], name) }
			for _, r := range rows[1:] {
				if r[column("from")] == from && r[column("to")] == to {
					return r[column(name)]
				}
			}
			t.Fatalf("%s: no flow from %s to %s in\n%s", by, from, to, data)
			return ""
		}
		for _, c := range [][2]string{
			{at("h2", "h3", "created_s"), at("h1", "h2", "end_s")}, {at("h3", "h4", "created_s"), at("h2", "h3", "end_s")}, {at("h1", "h4", "created_s"), at("h3", "h4", "arrived_s")},
		} {
			// A sender of UDP has sent all before all has arrived; it knows nothing later.
			if c[0] == "" || c[0] != c[1] && (by != "udp" || c[0] >= c[1]) {
				t.Errorf("%s: a flow begins at %q, and the one before ended at %q\n%s", by, c[0], c[1], data)
			}
		}
	}
}
