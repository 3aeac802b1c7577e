package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestPorts_NameTheirClasses: a port with several classes that had traffic has a row for each, with
// the limit of the class; a port with one such class has one row. Marks, trims and drops are summed by class.
func TestPorts_NameTheirClasses(t *testing.T) {
	r := &Report{
		Accounts: status.Accounts{Marked: 7, Dropped: 9, Trimmed: 2, Drops: map[string]uint64{"queue-full": 8, "bad-fcs": 1}},
		Ports: []status.Port{
			{Name: "s1:1", TxPackets: 90, Marked: 5, Trimmed: 2, Dropped: 8, QueueMax: 64000, QueueMean: 10, Classes: []status.Class{
				{Name: "idle"},
				{Name: "roce", TxPackets: 60, Marked: 5, QueueMax: 60000, QueueMean: 8, Lossless: true},
				{Name: "bulk", TxPackets: 30, Dropped: 8, Trimmed: 2, QueueMax: 4000, QueueMean: 2, QueueLimit: 4796178},
			}},
			{Name: "s1:2", TxPackets: 10, Marked: 2, QueueMax: 3000, Classes: []status.Class{{Name: "idle"}, {Name: "roce", TxPackets: 10, Marked: 2, QueueMax: 3000, QueueLimit: 24 * units.MB}}},
			{Name: "s2:1", TxPackets: 4, QueueMax: 2000, QueueLimit: 64 * units.KB},
		},
	}
	const want = `
marks 7; by class roce 7
trims 2; by class bulk 2
drops queue-full 8, bad-fcs 1; by class bulk 8
port class sent marked trimmed dropped queue mean max limit
s1:1 all 90 5 2 8 10B 64KB -
s1:1 roce 60 5 0 0 8B 60KB -
s1:1 bulk 30 0 2 8 2B 4KB 4.8MB
s1:2 roce 10 2 0 0 0B 3KB 24MB
s2:1 4 0 0 0 0B 2KB 64KB
`
	got := squeeze(text(r))
	if diff := cmp.Diff(want, got[strings.Index(got, "\nmarks"):]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
