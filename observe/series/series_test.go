package series

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

const us, ms = units.Microsecond, units.Millisecond

// Two producers, of a port with a class and of a plain port, write one
// file in order of time and of the sources.
func TestRecorder_WritesInOrder(t *testing.T) {
	r := New(Options{Sources: []Source{{"s1:1", ""}, {"s1:2", ""}, {"s1:2", "lossless"}, {"s2:1", ""}}, Ring: 64})
	a, b := r.NewTap([]int32{0, 3}), r.NewTap([]int32{1, 2})
	a.PutReadings(100*us, []Reading{{Queue: 1514, QueueMax: 3028, TxBytes: 125000, RxBytes: 60}, {}})
	b.PutReadings(100*us, []Reading{{TxBytes: 1, Trimmed: 7, Paused: 3 * us}, {Queue: 5, QueueMax: Unknown, Paused: 3 * us}})
	b.PutReadings(200*us, []Reading{{TxBytes: 1, Trimmed: 9, Paused: 4 * us}, {QueueMax: Unknown, Dropped: 2, Paused: 4 * us}})
	a.PutReadings(200*us, []Reading{{QueueMax: 1514, TxBytes: 125000, RxBytes: 60, Dropped: 4, Marked: 3}, {}})
	a.PutReadings(1234567*us+1, []Reading{{TxBytes: 250000, RxBytes: 61, Dropped: 4, Marked: 3}, {}})
	r.Close()
	var out bytes.Buffer
	sum, err := r.Run(&out)
	if err != nil || sum != (Summary{Rows: 10}) {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := `time_s,interval_s,port,class,queue_bytes,queue_max_bytes,tx_bytes,rx_bytes,tx_bps,rx_bps,dropped_packets,marked_packets,trimmed_packets,paused_s
0.0001,0.0001,s1:1,,1514,3028,125000,60,10000000000,4800000,0,0,0,0
0.0001,0.0001,s1:2,,0,0,1,0,80000,0,0,0,7,0.000003
0.0001,0.0001,s1:2,lossless,5,,0,,0,,0,0,0,0.000003
0.0001,0.0001,s2:1,,0,0,0,0,0,0,0,0,0,0
0.0002,0.0001,s1:1,,0,1514,0,0,0,0,4,3,0,0
0.0002,0.0001,s1:2,,0,0,0,0,0,0,0,0,2,0.000001
0.0002,0.0001,s1:2,lossless,0,,0,,0,,2,0,0,0.000001
0.0002,0.0001,s2:1,,0,0,0,0,0,0,0,0,0,0
1.234567000001,1.234367000001,s1:1,,0,0,125000,1,810132,6,0,0,0,0
1.234567000001,1.234367000001,s2:1,,0,0,0,0,0,0,0,0,0,0
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A producer whose ring is full loses instants, not time; its next
// samples include the missing ones, so that sums and maxima stay right, and
// missing samples are counted.
func TestOverrun_LosesInstantsAndNoTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Options{Sources: []Source{{"a:1", ""}, {"a:2", ""}}, Ring: 8})
		tap := r.NewTap([]int32{0, 1})
		n := rapid.IntRange(1, 12).Draw(t, "instants")
		var now [2]Reading
		maxQueue := units.Bytes(0)
		for i := range n {
			for k := range now {
				now[k].TxBytes += uint64(rapid.IntRange(0, 9).Draw(t, "bytes"))
				now[k].Dropped += uint64(rapid.IntRange(0, 9).Draw(t, "drops"))
				now[k].QueueMax = units.Bytes(rapid.IntRange(0, 9).Draw(t, "queue"))
			}
			maxQueue = max(maxQueue, now[0].QueueMax)
			tap.PutReadings(units.Time(i+1)*us, now[:])
		}
		fits := min(n, 4)
		// The ring is read, so the last instant has room.
		c := r.newRun(newWriter(&bytes.Buffer{}, r.options.Sources, nil))
		var rows []Sample
		for c.nextInstant(true) {
			rows = append(rows, c.instant...)
		}
		tap.PutReadings(units.Time(n+1)*us, now[:])
		for c.nextInstant(true) {
			rows = append(rows, c.instant...)
		}
		if got := int(tap.overruns.Load()); got != 2*(n-fits) || len(rows) != 2*(fits+1) {
			t.Fatalf("%d rows and %d overruns of %d instants", len(rows), got, n+1)
		}
		var sum Reading
		var length units.Time
		for _, s := range rows {
			if s.Source == 0 {
				sum.TxBytes += s.TxBytes
				sum.Dropped += s.Dropped
				sum.QueueMax = max(sum.QueueMax, s.QueueMax)
				length += s.Interval
			}
		}
		if sum.TxBytes != now[0].TxBytes || sum.Dropped != now[0].Dropped || sum.QueueMax != maxQueue || length != units.Time(n+1)*us {
			t.Fatalf("rows add up to %+v over %v, want %+v, queue %d", sum, length, now[0], maxQueue)
		}
	})
}

// Producers and the consumer run in parallel; with Wait nothing
// is lost although the rings are small, and the rows are in order.
func TestWait_LosesNothingInSmallRings(t *testing.T) {
	const instants = 3000
	r := New(Options{Sources: []Source{{"a:1", ""}, {"b:1", ""}}, Ring: 4, Wait: true})
	var producers sync.WaitGroup
	for i := range int32(2) {
		tap := r.NewTap([]int32{i})
		producers.Go(func() {
			for k := range units.Time(instants) {
				tap.PutReadings((k+1)*us, []Reading{{TxBytes: uint64(k + 1)}})
			}
		})
	}
	go func() {
		producers.Wait()
		r.Close()
	}()
	var out bytes.Buffer
	sum, err := r.Run(&out)
	if err != nil || sum != (Summary{Rows: 2 * instants}) {
		t.Fatalf("%+v, %v", sum, err)
	}
	n := 0
	if err := Read(&out, func(row *Row) error {
		if want := (units.Time(n/2) + 1) * us; row.At != want || row.Port != []string{"a:1", "b:1"}[n%2] || row.TxBytes != 1 {
			return fmt.Errorf("row %d: %+v", n, *row)
		}
		n++
		return nil
	}); err != nil {
		t.Error(err)
	}
}

type brokenWriter struct{ room int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

// When the disk is full the recording ends, and a producer
// that waits for room does not wait forever.
func TestRecorder_EndsWhenTheDiskIsFull(t *testing.T) {
	r := New(Options{Sources: []Source{{"a:1", ""}}, Ring: 16, Wait: true})
	tap := r.NewTap([]int32{0})
	done := make(chan error)
	go func() {
		_, err := r.Run(&brokenWriter{room: 200_000})
		done <- err
	}()
	for k := units.Time(1); !tap.IsClosed(); k++ {
		tap.PutReadings(k*us, []Reading{{}})
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
}

// A file does not exceed the maximum number of rows, all its instants
// are complete, and the summary says where it ends.
func TestMaxRows_EndsWithAWholeInstant(t *testing.T) {
	r := New(Options{Sources: []Source{{"a:1", ""}, {"a:2", ""}}, MaxRows: 5, Ring: 64})
	tap := r.NewTap([]int32{0, 1})
	for k := units.Time(1); k < 10; k++ {
		tap.PutReadings(k*us, make([]Reading, 2))
	}
	var out bytes.Buffer
	sum, err := r.Run(&out)
	if err != nil || sum != (Summary{Rows: 4, Full: 3 * us}) || strings.Count(out.String(), "\n") != 5 || !tap.IsClosed() {
		t.Errorf("%+v, %v\n%s", sum, err, out.String())
	}
}

// Put does not allocate on the engine's thread.
func TestPut_DoesNotAllocate(t *testing.T) {
	r := New(Options{Sources: []Source{{"a:1", ""}, {"a:2", ""}}, Gauges: ofQueues, Ring: 1024})
	tap, readings, at := r.NewTap([]int32{0, 1}), make([]Reading, 2), us
	readings[0].Gauges = make([]float64, len(ofQueues))
	if n := testing.AllocsPerRun(1000, func() { tap.PutReadings(at, readings); at += us }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if tap.overruns.Load() == 0 {
		t.Error("the ring has not become full")
	}
}

// Recordings that are not possible are refused, with the fix.
func TestCheck_RefusesImpossibleRecordings(t *testing.T) {
	for _, c := range []struct {
		queues        int
		every, length units.Time
		wall          bool
		want          string // "" if valid
	}{
		{10, us, units.Second, false, ""},
		{10, 100 * us, 0, true, ""},
		{10, units.Hour, units.Second, true, ""},
		{0, us, 0, false, "no port"},
		{1, us - 1, 0, false, "sample every 1us or more"},
		{1, 99 * us, 0, true, "sample every 100us or more"},
		{1, MaxEvery + 1, 0, false, "less often"},
		{101, 100 * us, 0, true, "sample every 200us or more"},
		{101, us, 0, true, "sample every 200us or more"},
		{1000, us, units.Second, false, "sample every 10us or more"},
		{1000, us, 0, false, ""},
		{20_000, us, 500 * units.Second, false, "10000 billion rows (600000 GB), more than 100 million: sample every 100ms or more"},
		{100_000, ms, units.Hour, true, "fewer ports"},
	} {
		err := CheckQueues(c.queues, c.every, c.length, c.wall)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d queues every %v for %v: %v, want %q", c.queues, c.every, c.length, err, c.want)
		}
	}
}

// The span that an error suggests is accepted.
func TestCheck_SuggestsWhatItAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := rapid.IntRange(1, 1e6).Draw(t, "queues")
		length := units.Time(rapid.Int64Range(0, int64(MaxEvery)).Draw(t, "length"))
		every := units.Time(rapid.Int64Range(int64(us), int64(units.Second)).Draw(t, "every"))
		wall := rapid.Bool().Draw(t, "wall")
		err := CheckQueues(queues, every, length, wall)
		if err == nil {
			return
		}
		_, text, _ := strings.Cut(err.Error(), ": sample every ")
		text, _, _ = strings.Cut(text, " or more")
		retry, perr := units.ParseTime(text)
		if perr != nil || retry <= every {
			t.Fatalf("%v", err)
		}
		if err := CheckQueues(queues, retry, length, wall); err != nil && retry <= MaxEvery {
			t.Fatalf("with the interval that the error names: %v", err)
		}
	})
}

// Times are exact, and read back unchanged.
func TestSeconds_AreExact(t *testing.T) {
	for at, want := range map[units.Time]string{0: "0", 1: "0.000000000001", units.Second: "1", 1500 * ms: "1.5", 86400*units.Second + 10*us: "86400.00001"} {
		if got := string(appendSeconds(nil, at)); got != want {
			t.Errorf("%d is %s, want %s", at, got, want)
		}
	}
	for text, want := range map[string]units.Time{"1e-05": 10 * us, "0.00010000000000000001": 100 * us, ".5": 500 * ms, "2.": 2 * units.Second} {
		if got, ok := parseSeconds(text); !ok || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1x", "0.1.2", "NaN", "1e99", "0x1p3x"} {
		if got, ok := parseSeconds(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := units.Time(rapid.Int64Range(0, int64(MaxEvery)).Draw(t, "time"))
		if got, ok := parseSeconds(string(appendSeconds(nil, at))); !ok || got != at {
			t.Fatalf("%d is read as %d", at, got)
		}
	})
}

// Bytes over a time are converted to bits per second, to the nearest.
func TestRate_IsRoundedToTheNearest(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		t    units.Time
		want uint64
	}{{125, us, 1e9}, {1, 3 * us, 2_666_667}, {0, us, 0}, {1 << 60, units.Hour, 2_562_047_788_015_216}, {1 << 63, 1, 1<<64 - 1}, {7, 0, 0}} {
		if got := bitRate(c.n, c.t); got != c.want {
			t.Errorf("%d bytes in %v are %d b/s, want %d", c.n, c.t, got, c.want)
		}
	}
}

// rowWriter counts writes that do not end with a whole row.
type rowWriter struct{ writes, torn int }

func (w *rowWriter) Write(p []byte) (int, error) {
	w.writes++
	if p[len(p)-1] != '\n' {
		w.torn++
	}
	return len(p), nil
}

// A file that is still growing ends with a whole row.
func TestWriter_WritesWholeRows(t *testing.T) {
	var out rowWriter
	w := newWriter(&out, []Source{{Port: "s1:1"}}, nil)
	for i := range units.Time(10_000) {
		if err := w.writeRow(&Sample{At: (i + 1) * us, Interval: us, Reading: Reading{TxBytes: uint64(i * i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if out.writes < 5 || out.torn > 0 {
		t.Errorf("%d of %d writes end within a row", out.torn, out.writes)
	}
}
