package records

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

var names = Names{[]string{"web, \"search\"", "b"}, []string{"h1", "h2", "s1"}}

var some = []Record{
	{ID: 1<<40 | 7, Traffic: 0, From: 0, To: 1, Tag: 1<<32 - 1, Group: 1 << 63, Size: 1500, Counted: true, Created: 1, Started: 2,
		End: units.Second + 5, Arrived: units.Second, Ideal: units.Second / 2, Retransmitted: 3, Acked: 1500, SrcPort: 50_000, Path: "h1:eth0 s1:h2"},
	{ID: 2, Traffic: 1, From: 1, To: 0, State: Failed, Failure: "IBV_WC_RETRY_EXC_ERR", Created: 1500 * units.Millisecond, Started: 2 * units.Second, End: 3 * units.Second, Arrived: units.Never},
	{ID: 3, Traffic: 1, From: 1, To: 0, State: Unfinished, Counted: true, Started: units.Never, End: 4 * units.Second, Arrived: units.Never, Acked: 12},
}

// TestCSV checks the lines, with unknown values left out and times exact.
func TestCSV(t *testing.T) {
	var b bytes.Buffer
	s := NewCSV(&b, names)
	for i := range some {
		if err := s.PutRecord(&some[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		Columns,
		{"1099511627783", "web, \"search\"", "9223372036854775808", "4294967295", "h1", "h2", "1500", "done", "", "true", "0.000000000001", "0.000000000002",
			"1.000000000005", "1", "1.000000000004", "0.5", "2", "3", "1500", "50000", "h1:eth0 s1:h2"},
		{"2", "b", "0", "0", "h2", "h1", "0", "failed", "IBV_WC_RETRY_EXC_ERR", "false", "1.5", "2", "3", "", "", "", "", "0", "0", "0", ""},
		{"3", "b", "0", "0", "h2", "h1", "0", "unfinished", "", "true", "0", "", "4", "", "", "", "", "0", "12", "0", ""},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	var none bytes.Buffer
	if err := NewCSV(&none, names).Close(); err != nil || none.Len() == 0 {
		t.Errorf("no records: %q, %v", none.String(), err)
	}
}

// TestParquet reads the file back with the library's own reader: the columns and the
// values are the same as in CSV, over several batches and row groups.
func TestParquet(t *testing.T) {
	const copies = parquetGroup/2 + 1
	var b bytes.Buffer
	s := NewParquet(&b, names)
	for range copies {
		for i := range some {
			if err := s.PutRecord(&some[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range file.Schema().Columns() {
		columns = append(columns, c[0])
	}
	if diff := cmp.Diff(Columns, columns); diff != "" {
		t.Error(diff)
	}
	if n := len(file.RowGroups()); n < 2 {
		t.Errorf("%d row groups", n)
	}
	rows, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(rows) != copies*len(some) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	at := func(x float64) *float64 { return &x }
	failure, path := some[1].Failure, some[0].Path
	want := []row{
		{ID: 1<<40 | 7, Traffic: names.Traffic[0], Group: 1 << 63, Tag: 1<<32 - 1, From: "h1", To: "h2", Size: 1500, State: "done", Counted: true, Created: 1e-12,
			Started: at(2e-12), End: 1.000000000005, Arrived: at(1), FCT: at(1.000000000004), Ideal: at(0.5), Slowdown: at(2.000000000008), Retransmitted: 3, Acked: 1500,
			SrcPort: 50_000, Path: &path},
		{ID: 2, Traffic: "b", From: "h2", To: "h1", State: "failed", Failure: &failure, Created: 1.5, Started: at(2), End: 3},
		{ID: 3, Traffic: "b", From: "h2", To: "h1", State: "unfinished", Counted: true, End: 4, Acked: 12},
	}
	for i := range rows {
		if diff := cmp.Diff(want[i%len(want)], rows[i]); diff != "" {
			t.Fatalf("row %d: %s", i, diff)
		}
	}
}

// TestStatistics compares bins and percentiles with the result of sorting all values.
func TestStatistics(t *testing.T) {
	if _, err := NewStatistics(100, 100); err == nil {
		t.Error("a bin twice is taken")
	}
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewStatistics(0, 100, 5000)
		if err != nil {
			t.Fatal(err)
		}
		var want [4][]float64
		var failed, open [4]uint64
		n := rapid.SampledFrom([]int{0, 1, 10, 100, chunkLen + 50}).Draw(t, "flows")
		r := uint64(rapid.Uint32().Draw(t, "random"))
		for range n {
			r = r*6364136223846793005 + 1442695040888963407
			x := Record{Size: []units.Bytes{0, 1, 100, 101, 5000, 5001, math.MaxInt64}[r>>33%7], State: State(max(int(r>>40%8)-5, 0)), Counted: r>>50%10 > 0, Created: 5, Ideal: units.Time(r>>20%1000 + 1)}
			x.End = x.Created + units.Time(r>>22%1_000_000)
			bin := []int{0, 1, 1, 2, 2, 3, 3}[r>>33%7]
			switch {
			case !x.Counted:
			case x.State == Failed:
				failed[bin]++
			case x.State == Unfinished:
				open[bin]++
			default:
				want[bin] = append(want[bin], float64(x.End-5)/float64(x.Ideal))
			}
			_ = s.PutRecord(&x)
		}
		for i := range s.Bins() {
			b := &s.Bins()[i]
			slices.Sort(want[i])
			if b.Done != uint64(len(want[i])) || b.Failed != failed[i] || b.Unfinished != open[i] {
				t.Fatalf("bin %d: %d done, %d failed, %d unfinished; want %d, %d, %d", i, b.Done, b.Failed, b.Unfinished, len(want[i]), failed[i], open[i])
			}
			for _, p := range []float64{0, 50, 99, 99.9, 100} {
				got := b.PercentileOf(Slowdown, p)
				if len(want[i]) == 0 {
					if !math.IsNaN(got) {
						t.Fatalf("a percentile of nothing is %v", got)
					}
					continue
				}
				// The smallest value that p percent do not exceed.
				k := slices.IndexFunc(want[i], func(x float64) bool {
					below, _ := slices.BinarySearch(want[i], math.Nextafter(x, math.Inf(1)))
					return float64(below) >= p/100*float64(len(want[i]))
				})
				if got != want[i][k] {
					t.Fatalf("p%v is %v, want %v", p, got, want[i][k])
				}
			}
			if b.Done > 0 && b.PercentileOf(FCT, 100) > 1e-6 {
				t.Fatalf("the longest takes %v s", b.PercentileOf(FCT, 100))
			}
		}
	})
}

// keeper is a sink that keeps the records it is given, and fails after a number of
// them.
type keeper struct {
	all    []Record
	fail   int
	closed bool
}

func (k *keeper) PutRecord(r *Record) error {
	k.all = append(k.all, *r)
	if len(k.all) == k.fail {
		return errors.New("full")
	}
	return nil
}
func (k *keeper) Close() error { k.closed = true; return nil }

// event is an event of a flow in a shard.
type event struct {
	at    units.Time
	shard int
	do    func(l *Log)
}

// TestStreamDoesNotDependOnShards lets the same flows end in one log or in several,
// and collects them any number of times: the stream is the same and contains each flow
// once, with its arrival, in order.
func TestStreamDoesNotDependOnShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "flows")
		type flow struct {
			start, arrive, end units.Time
			from, to           int
			acked, lost        bool
		}
		flows := make([]flow, n)
		for i := range flows {
			f := &flows[i]
			f.start = units.Time(rapid.IntRange(0, 50).Draw(t, "start"))
			f.arrive = f.start + units.Time(rapid.IntRange(1, 20).Draw(t, "way"))
			f.end = f.arrive + units.Time(rapid.IntRange(1, 20).Draw(t, "back"))
			f.from, f.to = rapid.IntRange(0, 3).Draw(t, "from"), rapid.IntRange(0, 3).Draw(t, "to")
			f.acked, f.lost = rapid.Bool().Draw(t, "acked"), rapid.IntRange(0, 4).Draw(t, "lost") == 0
		}
		stream := func(shards int) []Record {
			logs := make([]*Log, shards)
			for i := range logs {
				logs[i] = &Log{}
			}
			var events []event
			for i, f := range flows {
				r := Record{ID: uint64(f.from)<<40 | uint64(i+1), Created: f.start, Size: 9, Arrived: units.Never}
				key := 1<<61 | uint64(i+1)
				switch {
				case f.acked:
					r.Acked, r.End = 9, f.end
					if f.lost {
						r.State = Failed
					} else {
						events = append(events, event{f.arrive, f.to, func(l *Log) { l.RecordArrival(key, f.arrive) }})
					}
					events = append(events, event{f.end, f.from, func(l *Log) { l.RecordEnd(&r, key) }})
				default:
					events = append(events, event{f.start, f.from, func(l *Log) { l.RecordOpen(&r) }})
					if !f.lost {
						events = append(events, event{f.arrive, f.to, func(l *Log) { l.RecordArrival(r.ID, f.arrive) }})
					}
				}
			}
			slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
			var sink keeper
			c := NewCollector(logs, &sink)
			for i, e := range events {
				e.do(logs[e.shard%shards])
				if rapid.Bool().Draw(t, fmt.Sprint("collect", shards)) && i+1 < len(events) {
					c.CollectBefore(events[i+1].at)
				}
			}
			c.PutRemaining(1000, nil)
			if c.Count() != uint64(n) || c.Err() != nil || len(c.arrived)+len(c.open) > 0 {
				t.Fatalf("%d records of %d flows, %v; %d and %d left", c.Count(), n, c.Err(), len(c.arrived), len(c.open))
			}
			return sink.all
		}
		one := stream(1)
		for _, shards := range []int{2, 4} {
			if diff := cmp.Diff(one, stream(shards)); diff != "" {
				t.Fatalf("%d shards: %s", shards, diff)
			}
		}
		for i, r := range one {
			f := flows[r.ID&(1<<40-1)-1]
			arrived, end := f.arrive, f.end
			if !f.acked {
				end = f.arrive
			}
			if f.lost {
				arrived = units.Never
				if !f.acked {
					end = 1000
				}
			}
			if r.Arrived != arrived || r.End != end || i > 0 && !one[i-1].isBefore(&r) {
				t.Fatalf("%+v of %+v", r, f)
			}
		}
	})
}

// TestSinkFails: the first error of a sink is kept, and nothing is put after it.
func TestSinkFails(t *testing.T) {
	var l Log
	sink := &keeper{fail: 2}
	c := NewCollector([]*Log{&l}, sink)
	for i := range 5 {
		l.RecordEnd(&Record{ID: uint64(i)}, 0)
	}
	c.CollectBefore(units.Never)
	if c.Err() == nil || len(sink.all) != 2 || c.Count() != 5 {
		t.Errorf("%v, %d put, %d counted", c.Err(), len(sink.all), c.Count())
	}
}

// TestBehind: a sink on its own goroutine gets all records in order and is closed, and
// its error is returned.
func TestBehind(t *testing.T) {
	for _, n := range []int{0, 1, batchLen, 10*batchLen + 3} {
		sink := &keeper{}
		b := NewBehind(sink)
		for i := range n {
			if err := b.PutRecord(&Record{ID: uint64(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil || len(sink.all) != n || !sink.closed {
			t.Errorf("%d of %d records, closed %v, %v", len(sink.all), n, sink.closed, err)
		}
		for i, r := range sink.all {
			if r.ID != uint64(i) {
				t.Fatalf("record %d has ID %d", i, r.ID)
			}
		}
	}
	sink := &keeper{fail: 2}
	b := NewBehind(sink)
	for range 3 * batchLen {
		_ = b.PutRecord(&Record{})
	}
	if err := b.Close(); err == nil || len(sink.all) != 2 || !sink.closed {
		t.Errorf("%v, %d put, closed %v", err, len(sink.all), sink.closed)
	}
}

// BenchmarkSinks measures the cost of a record.
func BenchmarkSinks(b *testing.B) {
	statistics, _ := NewStatistics(1000, 10_000, 100_000)
	for _, s := range []struct {
		name string
		sink Sink
	}{
		{"statistics", statistics}, {"csv", NewCSV(&discard{}, names)}, {"parquet", NewParquet(&discard{}, names)},
	} {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			r := some[0]
			r.Path = ""
			for i := range b.N {
				r.ID, r.Created, r.End, r.Arrived = uint64(i), units.Time(i)*7919, units.Time(i)*7919+6_123_457, units.Time(i)*7919+5_123_457
				r.Started = r.Created
				if err := s.sink.PutRecord(&r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{ n int }

func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }
