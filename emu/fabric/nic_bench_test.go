package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// permutationLab is 128 NICs in a fat-tree of 100 Gb/s, each with 10 MB to WRITE
// to another, under DCQCN, ECN and PFC with the buffers and thresholds of HPCC's
// simulator.
const permutationLab = `
topology:
  kinds:
    host: {nic: {cc: dcqcn, dscp: 26, mtu: 1024}}
    switch:
      buffer: {preset: hpcc}
      classes:
        roce: {dscp: 26, priority: 3, pfc: {}, mark: {red: {kmin: 400KB, kmax: 1600KB, pmax: 0.2}}}
        cnp: {dscp: 48, priority: 6}
  generate: {fat-tree: {k: 8, rate: 100Gbps, delay: 1us}}
workload:
  - permutation: {size: 10MB}
`

// BenchmarkPermutation measures the cost of a packet's hop with NICs at both ends.
func BenchmarkPermutation(b *testing.B) { benchmarkNICs(b, permutationLab) }

// BenchmarkTelemetry measures what in-band telemetry adds to that: each packet is
// acknowledged, with room for five hops that switches fill in, and without.
func BenchmarkTelemetry(b *testing.B) {
	for _, hops := range []int{0, 5} {
		b.Run(fmt.Sprintf("hops=%d", hops), func(b *testing.B) {
			text := strings.Replace(permutationLab, "cc: dcqcn", fmt.Sprintf("cc: {probe: {hops: %d, silent: true}}", hops), 1)
			benchmarkNICs(b, strings.Replace(text, "size: 10MB", "size: 2MB", 1))
		})
	}
}

func benchmarkNICs(b *testing.B, text string) {
	plan := parse(b, text)
	var hops uint64
	for range b.N {
		b.StopTimer()
		f := New(plan)
		b.StartTimer()
		if err := f.Run(context.Background(), units.Never); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, r := range f.Transfers() {
			if r.Completed != 1 {
				b.Fatalf("%s did not complete", r.Transfer)
			}
		}
		for _, p := range f.Status() {
			hops += p.TxPackets
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(hops)/b.Elapsed().Seconds()/1e6, "Mhops/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hops), "ns/hop")
	b.ReportMetric(float64(hops)/float64(b.N), "hops")
}
