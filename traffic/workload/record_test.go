package workload

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestWindow compares the window with a set of all numbers seen. Arrivals jump
// ahead, fall back and repeat, also where numbers wrap around to 0.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]int64{0, 1<<32 - 5000, 1<<32 - 3}).Draw(t, "first")
		w := window{next: uint32(first)}
		seen := map[int64]bool{}
		next := first
		for range rapid.IntRange(1, 200).Draw(t, "arrivals") {
			jump := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-3, 3), rapid.Int64Range(-windowBits-3, windowBits+3),
				rapid.SampledFrom([]int64{-windowBits - 1, -windowBits, -windowBits + 1, windowBits - 1, windowBits, windowBits + 1, 3 * windowBits, -3 * windowBits})).Draw(t, "jump")
			seq := max(next+jump, 0)
			var want arrival
			switch {
			case seq >= next:
				want, next = inOrder, seq+1
			case next-seq > windowBits || seen[seq]:
				want = again
			default:
				want = late
			}
			seen[seq] = true
			if got := w.addSequence(uint32(seq)); got != want {
				t.Fatalf("number %d, the next being %d: %d, want %d", seq, next, got, want)
			}
		}
	})
}

// receive passes the packets of a script to a record.
func receive(r *Record, script []arrived) {
	for _, a := range script {
		r.ReceivePacket(a.at, &packet.Packet{Seq: a.seq, Created: a.created, TOS: a.ecn})
	}
}

type arrived struct {
	at, created units.Time
	seq         uint32
	ecn         uint8
}

// TestResult checks an example: five packets sent, one lost, two duplicates,
// one late, one marked.
func TestResult(t *testing.T) {
	const us = units.Microsecond
	f := Flow{Name: "f", Pattern: Poisson, Rate: units.Gbps, Size: 1250}
	r := NewRecord(f, "h1", "h2")
	for i := range units.Time(5) {
		r.countSent(units.Second + i*10*us)
	}
	receive(r, []arrived{
		{at: units.Second + 100*us, created: units.Second, seq: 0, ecn: wire.ECT0},
		{at: units.Second + 140*us, created: units.Second + 20*us, seq: 2, ecn: wire.CE},
		{at: units.Second + 150*us, created: units.Second + 20*us, seq: 2, ecn: wire.CE}, // the copy
		{at: units.Second + 210*us, created: units.Second + 10*us, seq: 1, ecn: wire.ECT0},
		{at: units.Second + 400*us, created: units.Second + 40*us, seq: 4, ecn: wire.NotECT},
		{at: units.Second + 500*us, created: units.Second + 10*us, seq: 1, ecn: wire.CE}, // a late copy
	})
	want := Result{
		Flow: "f", Pattern: "poisson", From: "h1", To: "h2", Payload: 1250, Offered: 1_000_000_000,
		Sent: 5, Received: 4, Lost: 1, LossShare: 0.2, Marked: 1, Duplicated: 2, Reordered: 1,
		Start: 1, End: 1.0004, Goodput: 106_666_666, // four of five packets of 10 kbit that take four intervals, 300 us
		DelayMin: 100, DelayMean: 195, DelayP50: 120, DelayP99: 360, DelayMax: 360, // of 100, 120, 200, 360
	}
	// Quantiles of delay are within 1%.
	if diff := cmp.Diff(want, r.Result(units.Hour), cmpopts.EquateApprox(1e-2, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestResultOfLittle: no packets, one lost packet, one that arrives.
func TestResultOfLittle(t *testing.T) {
	f := Flow{Name: "f", Rate: units.Gbps, Size: 1250}
	r := NewRecord(f, "h1", "h2")
	want := Result{Flow: "f", Pattern: "cbr", From: "h1", To: "h2", Payload: 1250, Offered: 1e9}
	if diff := cmp.Diff(want, r.Result(units.Hour)); diff != "" {
		t.Errorf("nothing sent (-want +got):\n%s", diff)
	}
	r.countSent(2 * units.Second)
	want.Sent, want.Lost, want.LossShare, want.Start, want.End = 1, 1, 1, 2, 2
	if diff := cmp.Diff(want, r.Result(units.Hour)); diff != "" {
		t.Errorf("one lost (-want +got):\n%s", diff)
	}
	receive(r, []arrived{{at: 3 * units.Second, created: 2 * units.Second}})
	want.Received, want.Lost, want.LossShare, want.End = 1, 0, 0, 3
	want.DelayMin, want.DelayMean, want.DelayP50, want.DelayP99, want.DelayMax = 1e6, 1e6, 1e6, 1e6, 1e6
	if diff := cmp.Diff(want, r.Result(units.Hour), cmpopts.EquateApprox(1e-3, 0)); diff != "" {
		t.Errorf("one arrived (-want +got):\n%s", diff)
	}
}

// TestDelayDigits: a single delay of any size is reported correctly.
func TestDelayDigits(t *testing.T) {
	for delay, want := range map[units.Time]float64{
		0: 0, 1500: 0.001, units.Nanosecond: 0.001, 12_345_678: 12.345, units.Second: 1e6, 100 * units.Second: 1e8, units.Hour: 3.6e9,
	} {
		r := NewRecord(Flow{}, "a", "b")
		r.countSent(0)
		receive(r, []arrived{{at: delay}})
		x := r.Result(units.Hour)
		for name, got := range map[string]float64{"min": x.DelayMin, "mean": x.DelayMean, "p50": x.DelayP50, "p99": x.DelayP99, "max": x.DelayMax} {
			if math.Abs(got-want) > 1e-3*want {
				t.Errorf("a delay of %v has the %s %v us, want %v", delay, name, got, want)
			}
		}
	}
}

// TestDelayQuantiles on delays of 1 to 1000 us.
func TestDelayQuantiles(t *testing.T) {
	r := NewRecord(Flow{}, "a", "b")
	for i := range uint32(1000) {
		r.countSent(0)
		receive(r, []arrived{{at: units.Time(i+1) * units.Microsecond, seq: i}})
	}
	x := r.Result(units.Hour)
	got := []float64{x.DelayMin, x.DelayMean, x.DelayP50, x.DelayP99, x.DelayMax}
	if diff := cmp.Diff([]float64{1, 500.5, 500, 990, 1000}, got, cmpopts.EquateApprox(1e-2, 0)); diff != "" {
		t.Errorf("min, mean, p50, p99, max (-want +got):\n%s", diff)
	}
}

// TestRecordAgainstSets plays random loss, duplication and reordering and
// compares the counts with those computed from sets.
func TestRecordAgainstSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.IntRange(1, 300).Draw(t, "sent")
		arrivals := rapid.SliceOfN(rapid.Uint32Range(0, uint32(sent-1)), 0, 400).Draw(t, "arrivals")
		r := NewRecord(Flow{}, "a", "b")
		for range sent {
			r.countSent(0)
		}
		seen := map[uint32]bool{}
		var top int64 = -1
		var want Result
		for _, seq := range arrivals {
			r.ReceivePacket(1, &packet.Packet{Seq: seq})
			switch {
			case seen[seq]:
				want.Duplicated++
			case int64(seq) < top:
				want.Reordered++
			}
			seen[seq] = true
			top = max(top, int64(seq))
		}
		got := r.Result(units.Hour)
		want.Received, want.Lost = uint64(len(seen)), uint64(sent-len(seen))
		if got.Received != want.Received || got.Lost != want.Lost || got.Duplicated != want.Duplicated || got.Reordered != want.Reordered {
			t.Fatalf("received %d, lost %d, duplicated %d, reordered %d; want %d, %d, %d, %d", got.Received, got.Lost, got.Duplicated, got.Reordered,
				want.Received, want.Lost, want.Duplicated, want.Reordered)
		}
	})
}

// TestGoodput_CountsTheTimeThatTheFlowSent: a flow of 1000 packets in 10 ms of which only the
// first ten arrive, or only some in the middle, has a goodput of a hundredth of its rate,
// however fast these came. What is on its way at now is no loss of goodput, and a burst that
// arrives more slowly than it was sent has the rate at which it arrives.
func TestGoodput_CountsTheTimeThatTheFlowSent(t *testing.T) {
	const us = units.Microsecond
	f := Flow{Rate: units.Gbps, Size: 1250}
	play := func(gap, delay, growth units.Time, arrives func(i uint32) bool) *Record {
		r := NewRecord(f, "a", "b")
		for i := range uint32(1000) {
			at := units.Second + units.Time(i)*gap
			r.countSent(at)
			if arrives(i) {
				receive(r, []arrived{{at: at + delay + units.Time(i)*growth, created: at, seq: i}})
			}
		}
		return r
	}
	all := func(uint32) bool { return true }
	for _, c := range []struct {
		name    string
		record  *Record
		now     units.Time
		goodput float64
	}{
		{"the first ten arrive", play(10*us, 50*us, 0, func(i uint32) bool { return i < 10 }), 2 * units.Second, 1e7},
		{"ten in the middle arrive", play(10*us, 50*us, 0, func(i uint32) bool { return i >= 500 && i < 510 }), 2 * units.Second, 1e7},
		{"one arrives", play(10*us, 50*us, 0, func(i uint32) bool { return i == 7 }), 2 * units.Second, 1e6},
		{"all arrive", play(10*us, 50*us, 0, all), 2 * units.Second, 1e9},
		{"a tenth is on its way", play(10*us, units.Millisecond, 0, func(i uint32) bool { return i < 900 }), units.Second + 10*units.Millisecond, 1e9},
		{"a burst arrives slowly", play(0, 50*us, 20*us, all), 2 * units.Second, 5e8},
	} {
		if got := float64(c.record.Result(c.now).Goodput); math.Abs(got-c.goodput) > 2e-3*c.goodput {
			t.Errorf("%s: goodput %.0f b/s, want %.0f", c.name, got, c.goodput)
		}
	}
}

// TestGoodputIsTheRate: over a path without loss a flow's goodput is its
// offered rate.
func TestGoodputIsTheRate(t *testing.T) {
	f := Flow{Size: 1200, Rate: 9_700_000_001}
	r := newRig(f, 1)
	r.see = func(p *packet.Packet) { r.record.ReceivePacket(r.engine.Now()+units.Millisecond, p) }
	r.engine.Run(units.Never-1, 10_000)
	if got := r.record.Result(r.engine.Now() + units.Millisecond).Goodput; math.Abs(float64(got-int64(f.Rate))) > 1e-7*float64(f.Rate) {
		t.Errorf("goodput %d b/s, want %d", got, f.Rate)
	}
}

// TestOutputs fills every field with a different value and reads CSV and JSON
// back: the columns of CSV are the fields of JSON, in order, with the same
// values.
func TestOutputs(t *testing.T) {
	var results [2]Result
	for k := range results {
		v := reflect.ValueOf(&results[k]).Elem()
		for i := range v.NumField() {
			n := 100*k + i + 1
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(fmt.Sprintf("a \"text\", %d", n))
			case reflect.Int64:
				f.SetInt(int64(n) << 40)
			case reflect.Uint64:
				f.SetUint(uint64(n) << 40)
			case reflect.Float64:
				f.SetFloat(float64(n) + 0.125)
			default:
				t.Fatalf("a field of kind %v: CSV does not know how to write it", f.Kind())
			}
		}
	}
	var asJSON, asCSV bytes.Buffer
	if err := WriteJSON(&asJSON, results[:]); err != nil {
		t.Fatal(err)
	}
	if err := WriteCSV(&asCSV, results[:]); err != nil {
		t.Fatal(err)
	}
	var back []Result
	decoder := json.NewDecoder(&asJSON)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(results[:], back); diff != "" {
		t.Errorf("JSON (-written +read):\n%s", diff)
	}
	rows, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d lines of CSV, %v; want a header and two", len(rows), err)
	}
	kind := reflect.TypeFor[Result]()
	if len(rows[0]) != kind.NumField() {
		t.Fatalf("%d columns for %d fields", len(rows[0]), kind.NumField())
	}
	for i := range kind.NumField() {
		if name := kind.Field(i).Tag.Get("json"); rows[0][i] != name {
			t.Errorf("column %d is called %q, the field %q", i, rows[0][i], name)
		}
		for k, r := range results {
			want, got := reflect.ValueOf(r).Field(i), rows[k+1][i]
			same := got == fmt.Sprint(want)
			if want.Kind() == reflect.Float64 {
				x, err := strconv.ParseFloat(got, 64)
				same = err == nil && x == want.Float()
			}
			if !same {
				t.Errorf("%s is %q in CSV, %v in JSON", kind.Field(i).Name, got, want)
			}
		}
	}
}

func TestOutputsOfNothing(t *testing.T) {
	var asJSON, asCSV strings.Builder
	if err := WriteJSON(&asJSON, nil); err != nil || strings.TrimSpace(asJSON.String()) != "[]" {
		t.Errorf("JSON %q, %v", asJSON.String(), err)
	}
	if err := WriteCSV(&asCSV, nil); err != nil || strings.Count(asCSV.String(), "\n") != 1 {
		t.Errorf("CSV %q, %v", asCSV.String(), err)
	}
}
