package workload

import (
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// TestHistogram: percentiles equal HdrHistogram's, for any values in any order.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h histogram
		want := hdrhistogram.New(1, 1_000_000_000_000, 2)
		times := rapid.OneOf(rapid.Int64Range(1, 300), rapid.Int64Range(10_000, 12_000), rapid.Int64Range(1, 1_000_000_000_000))
		for range rapid.IntRange(0, 50).Draw(t, "times") {
			ns := times.Draw(t, "ns")
			for range rapid.IntRange(1, 5).Draw(t, "times each") {
				h.addTime(ns)
				if err := want.RecordValue(ns); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, p := range []float64{0.1, 10, 25, 50, 75, 99, 99.9, 100, rapid.Float64Range(0.01, 100).Draw(t, "percent")} {
			if got, want := h.percentile(p), want.ValueAtPercentile(p); got != want {
				t.Fatalf("%v%% is %d, not %d", p, got, want)
			}
		}
	})
}

// TestHistogramIsSparse: it takes room for the times that occur, and no more when
// they recur.
func TestHistogramIsSparse(t *testing.T) {
	var h histogram
	for ns := int64(9000); ns < 18000; ns++ {
		h.addTime(ns)
	}
	if n := len(h.counts); n > 1<<subBits+2*bucketStep {
		t.Errorf("%d buckets for a doubling", n)
	}
	if n := testing.AllocsPerRun(100, func() { h.addTime(12345) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
