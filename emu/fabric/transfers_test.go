package fabric

import (
	"testing"

	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/traces/workload"
)

// TestTransfers: results come from the records, in their order, as they are at
// the moment.
func TestTransfers(t *testing.T) {
	f := New(parse(t, "topology: {generate: {star: {hosts: 2, rate: 1Gbps, delay: 1us}}}\n"))
	if got := f.Transfers(); len(got) != 0 {
		t.Errorf("%d transfers where there are none", len(got))
	}
	for _, name := range []string{"b", "a"} {
		f.transfers = append(f.transfers, workload.NewTransferRecord(workload.Transfer{Name: name, Size: 10}, "h1", "h2", nil))
	}
	f.transfers[1].Posted(0)
	f.transfers[1].Completed(units.Microsecond, 0)
	if got := f.Transfers(); len(got) != 2 || got[0].Transfer != "b" || got[1].Transfer != "a" || got[0].Completed != 0 || got[1].Completed != 1 {
		t.Errorf("%+v", got)
	}
}
