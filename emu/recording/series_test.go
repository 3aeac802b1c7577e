package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// record runs a fabric with a series and returns its text. The length in a wall
// clock is that of a run without a real clock: the timers do what they would
// do.
func record(t rapid.TB, f *fabric.Fabric, s Series, until ...units.Time) string {
	t.Helper()
	if s.Ports == nil {
		var err error
		if s.Ports, err = f.Plan.MatchPorts([]string{"*:*"}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r := RecordQueues(f, s, &out)
	for _, u := range until {
		if err := f.Run(context.Background(), u); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := r.Stop()
	if err != nil || sum.Overruns > 0 || sum.Rows != uint64(strings.Count(out.String(), "\n")-1) {
		t.Fatalf("%+v, %v", sum, err)
	}
	return out.String()
}

func rowsOf(t rapid.TB, text string) (rows []series.Row) {
	t.Helper()
	if err := series.Read(strings.NewReader(text), func(r *series.Row) error {
		row := *r
		row.Gauges = slices.Clone(r.Gauges)
		rows = append(rows, row)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestSeries_IsExactAtEveryInstant: a constant rate into a slower link. Every sample is the
// calculated value for that instant, including everything that happens at it.
func TestSeries_IsExactAtEveryInstant(t *testing.T) {
	const limit = 5000
	p := fabrictest.Parse(t, `
duration: 203us
topology:
  nodes: {h1: {kind: host, attach: none}, h2: {kind: host, attach: none}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "h2:eth0"], rate: 1Gbps, from: {"s1:2": {queue: {limit: 5000B}}}}
workload:
  - {cbr: {from: h1, to: h2, rate: 2Gbps, size: 1000B}}
`)
	// A packet every 4us. Its frame is 14+20+8 bytes longer than its payload,
	// and with preamble, FCS and gap takes 8.528us of the link.
	const frame, gap, tx = 1042, 4 * us, 8528 * units.Nanosecond
	var want []series.Row
	var last series.Row
	var queue []units.Time // when the waiting packets begin to leave
	var free units.Time
	var maxQueue, sent, dropped, arrived int
	leave := func(now units.Time) {
		for len(queue) > 0 && queue[0] <= now {
			queue = queue[1:]
			sent++
		}
	}
	sample := func(at units.Time) {
		leave(at)
		row := series.Row{Source: series.Source{Port: "s1:2"}, At: at, Interval: at - last.At, Reading: series.Reading{
			Queue: units.Bytes(len(queue) * frame), QueueMax: units.Bytes(maxQueue * frame), TxBytes: uint64(sent * frame), Dropped: uint64(dropped),
		}}
		sum := row
		row.TxBytes -= last.TxBytes
		row.Dropped -= last.Dropped
		want, last, maxQueue = append(want, row), sum, len(queue)
	}
	for at := units.Time(0); at <= 203*us; at += us {
		if at%gap == 0 {
			leave(at)
			arrived++
			switch start := max(at, free); {
			case (len(queue)+1)*frame > limit:
				dropped++
			case start == at:
				sent++
				free = start + tx
			default:
				queue = append(queue, start)
				free = start + tx
				maxQueue = max(maxQueue, len(queue))
			}
		}
		if at > 0 && at%(2*us) == 0 {
			sample(at)
		}
	}
	sample(203 * us) // the end of the run
	f := fabric.New(p)
	port, err := p.MatchPorts([]string{"s1:2"})
	if err != nil {
		t.Fatal(err)
	}
	got := rowsOf(t, record(t, f, Series{Ports: port, Every: 2 * us}, p.Duration))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c := f.Port(port[0].Node, port[0].Port).Counters(p.Duration)
	if arrived != 51 || dropped == 0 || c.DroppedPackets() != uint64(dropped) {
		t.Errorf("%d arrived, %d dropped", arrived, dropped)
	}
}

// TestSeries_ChangesNothingAndAddsUp: whatever the lab, a series is the same with one to four
// workers, in one run or several, and taken by a run in virtual time or by timers; and the run
// is the same as without a series. The intervals add up to the counters.
func TestSeries_ChangesNothingAndAddsUp(t *testing.T) {
	fabrictest.Check(t, 10, func(rt *rapid.T) {
		text := ""
		switch rapid.SampledFrom([]string{"deep", "NICs", "plain"}).Draw(rt, "lab") {
		case "deep":
			text = fabrictest.DrawQoSLab(rt)
		case "NICs":
			text = fabrictest.DrawNICLab(rt)
		default:
			text = fabrictest.DrawLab(rt)
		}
		p, err := resolve.Parse("lab.yaml", []byte(text))
		if err != nil {
			rt.Skip("a generator with too few hosts")
		}
		every := rapid.SampledFrom([]units.Time{9 * us, 100 * us, 300 * us, 5 * ms}).Draw(rt, "every")
		stops := [][]units.Time{{2 * ms}, {300 * us, 555 * us, 2 * ms}}
		plain := fabric.New(p)
		if err := plain.Run(context.Background(), 2*ms); err != nil {
			rt.Fatal(err)
		}
		want := ""
		for n := 1; n <= 4; n++ {
			for i, stops := range stops {
				f, err := fabric.NewWithWorkers(p, n)
				if err != nil {
					continue
				}
				s := Series{Every: every}
				got := record(rt, f, s, stops...)
				if want == "" {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("%d workers, %d stops (-first +this):\n%s\n%s", n, len(stops), diff, text)
				}
				if diff := cmp.Diff(outcome(plain), outcome(f)); diff != "" {
					rt.Fatalf("%d workers (-without +with a series):\n%s\n%s", n, diff, text)
				}
				if i == 0 {
					checkSums(rt, f, rowsOf(rt, got))
				}
			}
		}
		f := fabric.New(p)
		if diff := cmp.Diff(want, record(rt, f, Series{Every: every, Wall: true}, 2*ms)); diff != "" {
			rt.Fatalf("(-run +timers):\n%s\n%s", diff, text)
		}
		if plain.Trace() != f.Trace() {
			rt.Fatal("timers that sample change the run")
		}
	})
}

// checkSums compares the sum of each port's rows with its counters.
func checkSums(t rapid.TB, f *fabric.Fabric, rows []series.Row) {
	t.Helper()
	got := map[string]series.Reading{}
	ends := map[string]units.Time{}
	for _, r := range rows {
		if r.Class != "" {
			r.Port += " " + r.Class
		}
		x := got[r.Port]
		x.Queue, x.QueueMax = r.Queue, max(x.QueueMax, r.QueueMax)
		x.TxBytes += r.TxBytes
		x.RxBytes += r.RxBytes
		x.Dropped += r.Dropped
		x.Marked += r.Marked
		x.Trimmed += r.Trimmed
		x.Paused += r.Paused
		got[r.Port] = x
		if ends[r.Port] += r.Interval; ends[r.Port] != r.At {
			t.Fatalf("%s at %v: the intervals add up to %v", r.Port, r.At, ends[r.Port])
		}
	}
	want := map[string]series.Reading{}
	for _, s := range f.Status() {
		want[s.Name] = series.Reading{Queue: s.QueueBytes, QueueMax: s.QueueMax, TxBytes: s.TxBytes, RxBytes: s.RxBytes, Dropped: s.Dropped, Marked: s.Marked, Trimmed: s.Trimmed}
		if len(s.Classes) < 2 {
			continue
		}
		whole := want[s.Name]
		for _, c := range s.Classes {
			want[s.Name+" "+c.Name] = series.Reading{
				Queue: c.QueueBytes, QueueMax: c.QueueMax, TxBytes: c.TxBytes, RxBytes: got[s.Name+" "+c.Name].RxBytes,
				Dropped: c.Dropped, Marked: c.Marked, Trimmed: c.Trimmed, Paused: c.PausedTime,
			}
			whole.Paused = max(whole.Paused, c.PausedTime)
		}
		want[s.Name] = whole
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-counters +rows):\n%s", diff)
	}
}

// TestSeries_EndsAtTheLastEvent: a run without a duration has its last sample at the last
// event, and nothing after it.
func TestSeries_EndsAtTheLastEvent(t *testing.T) {
	p := fabrictest.Parse(t, `
topology: {generate: {dumbbell: {left: 2, right: 2, rate: 1Gbps, delay: 3us}}, kinds: {host: {attach: none}}}
workload:
  - {cbr: {from: h1, to: h3, rate: 100Mbps, size: 1000B, for: 1ms}}
  - {cbr: {from: h2, to: h4, rate: 100Mbps, size: 1000B, at: 5ms, for: 1ms}}
`)
	want := ""
	for n := 1; n <= 3; n++ {
		f, err := fabric.NewWithWorkers(p, n)
		if err != nil {
			t.Fatal(err)
		}
		got := record(t, f, Series{Every: 10 * us}, units.Never)
		rows := rowsOf(t, got)
		if end := rows[len(rows)-1].At; end != f.Now() || end < 5900*us || end > 6100*us {
			t.Errorf("%d workers: the last sample is at %v, the run ends at %v", n, end, f.Now())
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d workers make another series", n)
		}
		checkSums(t, f, rows)
	}
}

// TestSeries_OfAStoppedRunHasWholeInstants: an interrupted run leaves whole rows of whole
// instants.
func TestSeries_OfAStoppedRunHasWholeInstants(t *testing.T) {
	for n := 1; n <= 2; n++ {
		p := fabrictest.Permutation(t, 4, 900)
		f, err := fabric.NewWithWorkers(p, n)
		if err != nil {
			t.Fatal(err)
		}
		ports, err := p.MatchPorts(nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := &trigger{after: 20_000, do: cancel}
		r := RecordQueues(f, Series{Ports: ports, Every: 10 * us}, out)
		if err := f.Run(ctx, units.Hour); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		if _, err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		rows := rowsOf(t, out.String())
		if len(rows) == 0 || len(rows)%len(ports) != 0 {
			t.Errorf("%d rows of %d ports", len(rows), len(ports))
		}
		if sum, err := r.Stop(); err != nil || sum.Rows != uint64(len(rows)) {
			t.Errorf("a second stop: %+v, %v", sum, err)
		}
	}
}

// trigger does something after a number of bytes.
type trigger struct {
	bytes.Buffer
	after int
	do    func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if n, err := w.Buffer.Write(p); w.Len() < w.after {
		return n, err
	}
	w.do()
	return len(p), nil
}

// TestSeriesCheck_ComputesTheNumberOfRows: the size is computed from the run's length, as far
// as the plan knows it, and the classes of ports count.
func TestSeriesCheck_ComputesTheNumberOfRows(t *testing.T) {
	p := fabrictest.Parse(t, `
topology: {generate: {star: {hosts: 10, rate: 1Gbps}}}
workload: [{cbr: {from: h1, to: h3, rate: 100Mbps, size: 1000B, at: 10s, for: 1s}}]
`)
	ports, _ := p.MatchPorts(nil)
	err := Series{Ports: ports, Every: us}.Check(p)
	if err == nil || !strings.Contains(err.Error(), "10 queues every 1us for 11s are 110 million rows") {
		t.Errorf("error %v", err)
	}
	if err := (Series{Ports: ports, Every: us, Length: units.Second}).Check(p); err != nil {
		t.Error(err)
	}
	p.Nodes[0].Ports[0].Classes = []class.Class{{Name: "only"}}
	p.Nodes[0].Ports[1].Classes = []class.Class{{Name: "bulk"}, {Name: "fast", Priority: 3}}
	want := []series.Source{{Port: "s1:h1"}, {Port: "s1:h2"}, {Port: "s1:h2", Class: "bulk"}, {Port: "s1:h2", Class: "fast"}, {Port: "s1:h3"}}
	if diff := cmp.Diff(want, sourcesOf(p, ports[:3])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sampler is a part that samples all ports of a fat-tree under load.
func sampler(t testing.TB) (fabric.Sampler, *Recording) {
	p := fabrictest.Permutation(t, 4, 900)
	f := fabric.New(p)
	ports, err := p.MatchPorts(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := RecordQueues(f, Series{Ports: ports, Every: ms, Wall: true}, io.Discard)
	if err := f.Run(context.Background(), 10*ms); err != nil {
		t.Fatal(err)
	}
	return r.samplers[0], r
}

// TestSampling_DoesNotAllocate: the engine's thread takes samples without leaving work for the
// garbage collector.
func TestSampling_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	p, r := sampler(t)
	now := 11 * ms
	if n := testing.AllocsPerRun(100, func() { p.Sample(now, true); now += us }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// BenchmarkSample measures a sample of one port.
func BenchmarkSample(b *testing.B) {
	p, r := sampler(b)
	now := 11 * ms
	for b.Loop() {
		p.Sample(now, true)
		now += us
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(p.(*queues).ports)), "ns/port")
	_, _ = r.Stop()
}
