package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// BenchmarkEQDS measures the cost of a packet of a modelled flow from one host through a
// switch to another, without an edge service and in a tunnel, at 80% of the links.
func BenchmarkEQDS(b *testing.B) {
	for _, edge := range []string{"none", "eqds", "{eqds: {preset: rts}}", "{eqds: {credit-per-pull: 8}}", "{eqds: {preset: rts, credit-per-pull: 8}}"} {
		b.Run(edge, func(b *testing.B) {
			const size = 1400
			queues := trimmingQueues
			if edge == "none" || strings.Contains(edge, "rts") {
				queues = plainQueues
			}
			f := New(parse(b, fmt.Sprintf(`duration: 1h
topology: {kinds: {host: {attach: none, edge: %s}, switch: {%s}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}}
workload: [{cbr: {name: x, from: h1, to: h2, rate: 8Gbps, size: %dB}}]`, edge, queues, size)))
			every := (8 * units.Gbps).TimeOf(packet.OnWire(size + 42))
			run := func(packets int) {
				if err := f.Run(context.Background(), f.Now()+units.Time(packets)*every); err != nil {
					b.Fatal(err)
				}
			}
			run(1000)
			was, events := f.Results()[0].Received, f.Events()
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N)
			b.StopTimer()
			got := f.Results()[0].Received - was
			if float64(got) < 0.9*float64(b.N)-100 {
				b.Fatalf("%d of %d packets came", got, b.N)
			}
			b.ReportMetric(float64(f.Events()-events)/float64(max(1, got)), "events/packet")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, got)), "ns/packet")
		})
	}
}
