package fabric

import (
	"bytes"
	"context"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// TestFlowRecords_DoNotDependOnWhenTheyAreCollected: how often records are collected, for
// example in the wall clock, changes nothing.
func TestFlowRecords_DoNotDependOnWhenTheyAreCollected(t *testing.T) {
	var texts [2]string
	for i := range texts {
		p := fabrictest.Star(t, 4, "{}", "")
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: fabrictest.Draw(fabrictest.Hosts(p), 9, 100, 30*units.Microsecond, 30_000, false), RDMA: &carrier.RDMA{}}}
		f, err := NewWithWorkers(p, 1+i)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		file := records.NewCSV(&b, f.FlowNames())
		f.SetFlowSink(file, true)
		if i == 0 {
			runTo(t, f, units.Never)
		}
		for at := units.Time(0); f.due() != units.Never; at += 37 * units.Microsecond {
			if err := f.runShards(context.Background(), at); err != nil {
				t.Fatal(err)
			}
			if err := f.CollectFlows(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.EndFlows(); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		texts[i] = b.String()
	}
	if texts[0] != texts[1] {
		t.Error(fabrictest.FirstDifference(texts[0], texts[1]))
	}
}
