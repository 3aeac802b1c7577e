package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// TestWriteJSON: a report is written as encoding/json writes it.
func TestWriteJSON(t *testing.T) {
	for _, r := range []*Report{
		{},
		{Ports: []status.Port{}, Flows: []workload.Result{}},
		{
			Lab: "a <b> & \"c\"", File: "lab.yaml", Clock: "wall", Seed: 1 << 63, Dilation: 2, Emulated: units.Second, Events: 7,
			Partial:  &Partial{Why: "interrupted"},
			Accounts: status.Accounts{Entered: 3, Drops: map[string]uint64{"bad-fcs": 2, "queue-full": 10}},
			Ports: []status.Port{
				{Name: "s1:1", QueueMean: 1.25e-9, Drops: map[string]uint64{"queue-full": 1}, Link: &status.Link{Rate: units.Gbps}},
				{Name: "s1:2", Classes: []status.Class{{Name: "default"}, {Name: "lossless"}}},
			},
			Flows:        []workload.Result{{Flow: "a"}},
			TransferSums: &workload.TransferSums{Transfers: 1, Fairness: 1},
			NICs:         []status.NIC{{Name: "h1:eth0"}},
			Timing:       &Timing{Lateness: status.Lateness{Count: 90}},
		},
	} {
		var want, got bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetIndent("", "  ")
		if err := errors.Join(e.Encode(r), r.WriteJSON(&got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("(-encoding/json +ours):\n%s", diff)
		}
	}
}
