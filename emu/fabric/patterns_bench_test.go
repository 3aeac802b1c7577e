package fabric

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// steady makes each host start flows of one size to others, in exponential gaps, without
// a list of them.
type steady struct {
	hosts []int
	flows int // of each host
	gap   units.Time
	size  units.Bytes
}

func (s *steady) Hosts() []int { return s.hosts }
func (s *steady) Agent(host int) pattern.Agent {
	return &steadyAgent{steady: s, host: host, rand: sim.NewRand(1, fmt.Sprint("steady ", host))}
}

type steadyAgent struct {
	*steady
	host, n int
	due     units.Time
	rand    *rand.Rand
}

func (a *steadyAgent) NextFlow() units.Time {
	if a.n == a.flows {
		return units.Never
	}
	return a.due
}

func (a *steadyAgent) Fire(now units.Time, start func(pattern.Flow)) {
	to := a.host
	for to == a.host {
		to = a.hosts[a.rand.IntN(len(a.hosts))]
	}
	a.n++
	start(pattern.Flow{Tag: uint32(a.n), From: a.host, To: to, Size: a.size, At: now})
	a.due = now + units.Time(a.rand.ExpFloat64()*float64(a.gap))
}
func (a *steadyAgent) OnArrival(units.Time, pattern.Flow, func(pattern.Flow))    {}
func (a *steadyAgent) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}

// BenchmarkFlows runs b.N short flows between 16 hosts and reports the cost of one and
// the memory in use: go test -bench Flows/ -benchtime 1000000x.
func BenchmarkFlows(b *testing.B) {
	for _, c := range []struct {
		name, nic string
		sink      func(n records.Names) records.Sink
	}{
		{"none", "{}", func(records.Names) records.Sink { return nil }},
		{"statistics", "{}", func(records.Names) records.Sink {
			s, _ := records.NewStatistics(1000, 10_000)
			return s
		}},
		{"csv", "{}", func(n records.Names) records.Sink { return records.NewCSV(io.Discard, n) }},
		{"parquet", "{}", func(n records.Names) records.Sink { return records.NewParquet(io.Discard, n) }},
		{"dcqcn", "{cc: dcqcn}", func(records.Names) records.Sink { return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := fabrictest.Star(b, 16, c.nic, "")
			h := fabrictest.Hosts(p)
			// A load of one half.
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: &steady{h, (b.N + 15) / 16, 2 * units.Microsecond, 1000}, RDMA: &carrier.RDMA{}}}
			f := New(p)
			sink := c.sink(f.FlowNames())
			f.SetFlowSink(sink, false)
			var peak uint64
			var m runtime.MemStats
			b.ReportAllocs()
			b.ResetTimer()
			cpu := fabrictest.ProcessorTime()
			for step := units.Millisecond; f.due() != units.Never; step += units.Millisecond {
				if err := f.Run(context.Background(), step); err != nil {
					b.Fatal(err)
				}
				if step%(100*units.Millisecond) == 0 {
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
				}
			}
			if err := f.EndFlows(); err != nil {
				b.Fatal(err)
			}
			if sink != nil {
				if err := sink.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(fabrictest.ProcessorTime()-cpu)/float64(b.N), "cpu-ns/op")
			if n := f.FlowCount(); n < uint64(b.N) {
				b.Fatalf("%d flows", n)
			}
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(max(peak, m.HeapAlloc))/1e6, "MB-peak")
			b.ReportMetric(float64(f.Events())/float64(b.N), "events/op")
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-heap")
			b.ReportMetric(float64(f.Carriers().QueuePairs), "qps")
			runtime.KeepAlive(f)
			runtime.KeepAlive(sink)
		})
	}
}

// everybody makes each host send one flow to every other, all at once.
type everybody struct{ hosts []int }

func (e *everybody) Hosts() []int                 { return e.hosts }
func (e *everybody) Agent(host int) pattern.Agent { return &everybodyAgent{everybody: e, host: host} }

type everybodyAgent struct {
	*everybody
	host int
	done bool
}

func (a *everybodyAgent) NextFlow() units.Time {
	if a.done {
		return units.Never
	}
	return 0
}

func (a *everybodyAgent) Fire(now units.Time, start func(pattern.Flow)) {
	a.done = true
	i := slices.Index(a.hosts, a.host)
	for k := 1; k < len(a.hosts); k++ {
		start(pattern.Flow{Tag: uint32(k), From: a.host, To: a.hosts[(i+k)%len(a.hosts)], Size: 1000, At: now})
	}
}
func (a *everybodyAgent) OnArrival(units.Time, pattern.Flow, func(pattern.Flow))    {}
func (a *everybodyAgent) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}

// BenchmarkAllToAll makes each of many hosts send 1000 bytes to every other, all at
// once, or as many at a time as limits allow: go test -bench AllToAll -benchtime 1x.
func BenchmarkAllToAll(b *testing.B) {
	for _, c := range []struct{ hosts, limit int }{{256, 0}, {1024, 64}} {
		b.Run(fmt.Sprintf("%d/%d", c.hosts, c.limit), func(b *testing.B) {
			for range b.N {
				nic := "{timeout: 16.8ms}"
				if c.limit > 0 {
					nic = fmt.Sprintf("{timeout: 16.8ms, limits: {max_qp: %d}}", c.limit)
				}
				p := fabrictest.Star(b, c.hosts, nic, "")
				p.Traffic = []plan.Traffic{{Name: "x", Pattern: &everybody{fabrictest.Hosts(p)}, RDMA: &carrier.RDMA{}}}
				f := New(p)
				s, _ := records.NewStatistics()
				f.SetFlowSink(s, false)
				cpu := fabrictest.ProcessorTime()
				if err := f.Run(context.Background(), units.Never); err != nil {
					b.Fatal(err)
				}
				cpu = fabrictest.ProcessorTime() - cpu
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-at-end")
				runtime.GC()
				runtime.ReadMemStats(&m)
				bin := &s.Bins()[0]
				flows := float64(c.hosts * (c.hosts - 1))
				b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-heap")
				b.ReportMetric(float64(cpu)/flows, "cpu-ns/flow")
				b.ReportMetric(float64(bin.Done)/flows, "done")
				b.ReportMetric(float64(f.Carriers().QueuePairs), "qps")
				b.Logf("%+v, %d retransmitted, last at %v", f.Carriers(), bin.Retransmitted, f.Now())
				runtime.KeepAlive(f)
			}
		})
	}
}
