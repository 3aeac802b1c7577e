package series

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func rows(t rapid.TB, text string) (rows []Row, err error) {
	err = Read(strings.NewReader(text), func(r *Row) error {
		row := *r
		row.Gauges = slices.Clone(r.Gauges)
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// Rows are read back as they were written.
func TestRead_GivesBackWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := []Source{{"s1:1", ""}, {"leaf1:spine2", ""}, {"leaf1:spine2", "lossless"}}
		var out bytes.Buffer
		gauges := []Gauge{{OfPoint, gauge.Gauge{Name: "fb"}}, {OfPoint, gauge.Gauge{Name: "p", Unit: gauge.Share}}, {OfEdge, gauge.Gauge{Name: "fb"}}}
		gauges = gauges[:rapid.IntRange(0, 3).Draw(t, "gauges")]
		w := newWriter(&out, sources, gauges)
		var want []Row
		at := units.Time(0)
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			step := units.Time(rapid.Int64Range(1, int64(units.Hour)).Draw(t, "interval"))
			at += step
			n := func(what string) uint64 { return rapid.Uint64Range(0, 1<<62).Draw(t, what) }
			s := Sample{At: at, Interval: step, Source: rapid.Int32Range(0, 2).Draw(t, "source"), Reading: Reading{
				Queue: units.Bytes(n("queue")), QueueMax: units.Bytes(n("max")), TxBytes: n("tx"), RxBytes: n("rx"),
				Dropped: n("drops"), Marked: n("marks"), Trimmed: n("trims"), Paused: units.Time(rapid.Int64Range(0, int64(step)).Draw(t, "paused")),
			}}
			if s.Source == 2 {
				s.QueueMax, s.RxBytes = Unknown, 0
			}
			for range gauges {
				s.Gauges = append(s.Gauges, rapid.OneOf(rapid.Just(gauge.None), rapid.Float64()).Draw(t, "gauge"))
			}
			if err := w.writeRow(&s); err != nil {
				t.Fatal(err)
			}
			want = append(want, Row{Source: sources[s.Source], At: s.At, Interval: s.Interval, Reading: s.Reading})
		}
		_ = w.flushRows()
		got, err := rows(t, out.String())
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// A file that is not a series is refused, with the line and
// what is wrong.
func TestRead_SaysWhereAFileIsWrong(t *testing.T) {
	head := strings.Join(Columns[:], ",") + "\n"
	const good = "0.1,0.1,s1:1,,0,0,1,1,80,80,0,0,0,0\n"
	for text, want := range map[string]string{
		"":                       "empty",
		"time_s,port\n":          "missing column interval_s, class, queue_bytes",
		head + good + "x" + good: `line 3: time_s: "x0.1" is not a time in seconds`,
		head + strings.Replace(good, "s1:1,,0", "s1:1,,-3", 1):       `line 2: queue_bytes: "-3" is not a whole number`,
		head + strings.Replace(good, "0.1,0.1", "0.1,0", 1):          `line 2: interval_s: "0" is not a time above 0`,
		head + strings.Replace(good, "0.1,0.1", "0.1,0.2", 1):        "up to time_s",
		head + good + "0.2,0.1,s1":                                   "line 3",
		head + good + strings.Repeat("0.2,0.1,s1,", 3) + "1,2,3,4,5": "line 3",
	} {
		if _, err := rows(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	// Columns may be in another order, there may be others, and those that
	// follow from others may be missing.
	got, err := rows(t, "note,port,class,time_s,interval_s,queue_bytes,queue_max_bytes,tx_bytes,rx_bytes,dropped_packets,marked_packets,trimmed_packets,paused_s\nhi,s1:1,,1e-3,0.001,5,,7,8,1,2,3,0\n")
	want := []Row{{Source: Source{Port: "s1:1"}, At: ms, Interval: ms, Reading: Reading{Queue: 5, QueueMax: Unknown, TxBytes: 7, RxBytes: 8, Dropped: 1, Marked: 2, Trimmed: 3}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Sums, quantiles and peaks of a known queue.
func TestStatistics_OfAKnownQueueAreExact(t *testing.T) {
	s := NewStatistician(Rate, 2*us)
	for i := range units.Time(100) {
		s.AddRow(&Row{Source: Source{Port: "s1:1"}, At: (i + 1) * us, Interval: us, Reading: Reading{
			Queue: units.Bytes(i), QueueMax: units.Bytes(i + 1), TxBytes: uint64(i % 2 * 125), RxBytes: 125, Dropped: 1, Paused: us / 4,
		}})
	}
	// A last interval that is too short for a rate.
	s.AddRow(&Row{Source: Source{Port: "s1:1"}, At: 100*us + 1, Interval: 1, Reading: Reading{Queue: 100, TxBytes: 1000}})
	s.AddRow(&Row{Source: Source{"s1:2", "a"}, At: us, Interval: us, Reading: Reading{QueueMax: Unknown}})
	got := s.Statistics()
	seconds := (100*us + 1).Seconds()
	want := []Statistics{
		{Port: "s1:1", Rows: 101, To: 100*us + 1, QueueMean: 50, QueueP50: 50, QueueP99: 99, QueueMax: 100,
			TxRate: 8 * 7250 / seconds, RxRate: 8 * 12500 / seconds, TxBytes: 7250, RxBytes: 12500, Dropped: 100, Paused: 25 * us, Known: true, Peak: 0.5e9, every: us},
		{Port: "s1:2", Class: "a", Rows: 1, To: us, every: us},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) })
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Statistics{}), near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// In every column of pixels the first, the last, the lowest and
// the highest value are kept, and the points stay in order.
func TestEnvelope_KeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 20).Draw(t, "columns")
		const to = 1000
		e := NewEnvelope(0, to, columns)
		type ends struct{ first, last, min, max float64 }
		want, got := map[int]ends{}, map[int]ends{}
		note := func(m map[int]ends, p Point) {
			c := int(float64(columns) * float64(p.At) / to)
			x, ok := m[c]
			if !ok {
				x = ends{p.Value, p.Value, p.Value, p.Value}
			}
			x.last, x.min, x.max = p.Value, min(x.min, p.Value), max(x.max, p.Value)
			m[c] = x
		}
		at := units.Time(0)
		for range rapid.IntRange(0, 200).Draw(t, "points") {
			at = min(at+units.Time(rapid.IntRange(1, 20).Draw(t, "gap")), to)
			p := Point{at, float64(rapid.IntRange(-9, 9).Draw(t, "value"))}
			e.AddPoint(p)
			note(want, p)
		}
		points := e.Points()
		for i, p := range points {
			note(got, p)
			if i > 0 && p.At < points[i-1].At {
				t.Fatalf("out of order: %v", points)
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ends{})); diff != "" || len(points) > 4*(columns+1) {
			t.Fatalf("%d points of %d columns (-want +got):\n%s", len(points), columns, diff)
		}
	})
}

// Each quantity has its name, and rows that do not have it report this.
func TestQuantities_ReportMissingValues(t *testing.T) {
	row := &Row{At: ms, Interval: ms, Reading: Reading{Queue: 1, QueueMax: 2, TxBytes: 3, RxBytes: 4, Dropped: 5, Marked: 6, Trimmed: 7, Paused: ms / 2}}
	class := &Row{Source: Source{Class: "a"}, At: ms, Interval: ms, Reading: Reading{QueueMax: Unknown}}
	file, err := NewReader(strings.NewReader(strings.Join(Columns[:], ",") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, 2, 24000, 32000, 5000, 6000, 7000, 0.5} {
		q, err := file.FindQuantity(QuantityNames()[i])
		v, ok := q.ValueIn(row)
		if err != nil || v != want || !ok || q.IsRate() != (i >= 2) {
			t.Errorf("%v is %v, %v, %v, want %v", q, v, ok, err, want)
		}
		if _, ok := q.ValueIn(class); ok == (q == QueueMax || q == RxRate) {
			t.Errorf("%v of a class is known: %v", q, ok)
		}
	}
	if _, err := file.FindQuantity("speed"); err == nil || !strings.Contains(err.Error(), "queue, queue-max, rate") {
		t.Errorf("error %v", err)
	}
}

// BenchmarkRead measures the time to read a row and add it to the statistics.
func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	w := newWriter(&text, []Source{{Port: "leaf1:spine1"}, {Port: "leaf1:h2"}}, nil)
	const rows = 10_000
	for i := range units.Time(rows) {
		_ = w.writeRow(&Sample{At: (i/2 + 1) * us, Interval: us, Source: int32(i % 2), Reading: Reading{Queue: units.Bytes(1514 * (i % 50)), QueueMax: 70000, TxBytes: 1514, RxBytes: 1514}})
	}
	_ = w.flushRows()
	for b.Loop() {
		s := NewStatistician(Queue, 0)
		if err := Read(bytes.NewReader(text.Bytes()), func(r *Row) error { s.AddRow(r); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
