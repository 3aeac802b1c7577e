package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// atRate returns the ideal time on a path of 1 Gb/s with a round trip of 10 us.
func atRate(size units.Bytes) units.Time {
	return 10*units.Microsecond + units.Gbps.TimeOf(size)
}

// allOf sets the completion time of all messages, in microseconds.
func allOf(x *TransferResult, us, slowdown float64) {
	x.CompletionMin, x.CompletionMean, x.CompletionP25, x.CompletionP50, x.CompletionP75 = us, us, us, us, us
	x.CompletionP90, x.CompletionP95, x.CompletionP99, x.CompletionP999, x.CompletionMax = us, us, us, us, us
	x.SlowdownMean, x.SlowdownP50, x.SlowdownP99, x.SlowdownMax = slowdown, slowdown, slowdown, slowdown
}

// TestTransferResult checks examples: what a driver and a receiver report, and
// the result.
func TestTransferResult(t *testing.T) {
	const us = units.Microsecond
	const now = units.Second + 200*us
	whole := Transfer{Name: "t", Verb: Write, Service: roce.RC, Size: 1250, QPs: 2, Count: 2}
	with := func(change func(*Transfer)) Transfer { x := whole; change(&x); return x }
	base := TransferResult{Transfer: "t", Verb: "write", Service: "RC", From: "h1", To: "h2", MessageSize: 1250, QPs: 2, Ideal: 20}
	for _, c := range []struct {
		name     string
		transfer Transfer
		play     func(*TransferRecord)
		want     func(*TransferResult)
	}{
		{"nothing posted", whole, func(*TransferRecord) {}, func(*TransferResult) {}},
		{"one under way", whole, func(r *TransferRecord) {
			r.CountPosted(units.Second)
		}, func(x *TransferResult) { x.Posted, x.Start, x.End = 1, 1, 1.0002 }},
		{"one under way, of which a part has come", whole, func(r *TransferRecord) {
			r.CountPosted(units.Second)
			r.SetReceived(units.Second+10*us, 500)
			r.SetReceived(units.Second+20*us, 1000)
		}, func(x *TransferResult) {
			x.Posted, x.Received, x.Start, x.End, x.Goodput = 1, 1000, 1, 1.0002, 40e6
		}},
		{"two complete, one fails, one is flushed, one is under way", whole, func(r *TransferRecord) {
			for range 4 {
				r.CountPosted(units.Second)
			}
			r.RecordCompletion(units.Second+20*us, units.Second)
			r.SetReceived(units.Second+35*us, 4000)
			r.RecordCompletion(units.Second+60*us, units.Second)
			r.CountPosted(units.Second + 60*us)
			r.RecordFailure(units.Second+100*us, "IBV_WC_RETRY_EXC_ERR")
			r.RecordFailure(units.Second+100*us, "IBV_WC_WR_FLUSH_ERR")
		}, func(x *TransferResult) {
			x.Posted, x.Completed, x.Failed, x.FirstFailure = 5, 2, 2, "IBV_WC_RETRY_EXC_ERR"
			x.Payload, x.Received, x.Start, x.End, x.Goodput = 2500, 4000, 1, 1.0002, 160e6
			x.CompletionMin, x.CompletionMean, x.CompletionP25, x.CompletionP50, x.CompletionP75 = 20, 40, 20, 20, 60
			x.CompletionP90, x.CompletionP95, x.CompletionP99, x.CompletionP999, x.CompletionMax = 60, 60, 60, 60, 60
			x.SlowdownMean, x.SlowdownP50, x.SlowdownP99, x.SlowdownMax = 2, 1, 3, 3
		}},
		{"one complete at once, nothing since", whole, func(r *TransferRecord) {
			r.CountPosted(units.Second)
			r.CountPosted(units.Second)
			r.SetReceived(units.Second+10*us, 1250)
			r.RecordCompletion(units.Second+20*us, units.Second)
		}, func(x *TransferResult) {
			x.Posted, x.Completed, x.Payload, x.Received, x.Start, x.End, x.Goodput = 2, 1, 1250, 1250, 1, 1.0002, 50e6
			allOf(x, 20, 1)
		}},
		{"two complete, one fails, one is flushed", whole, func(r *TransferRecord) {
			for range 4 {
				r.CountPosted(units.Second)
			}
			r.RecordCompletion(units.Second+20*us, units.Second)
			r.RecordCompletion(units.Second+20*us, units.Second)
			r.SetReceived(units.Second+35*us, 4000)
			r.RecordFailure(units.Second+100*us, "IBV_WC_RETRY_EXC_ERR")
			r.RecordFailure(units.Second+100*us, "IBV_WC_WR_FLUSH_ERR")
		}, func(x *TransferResult) {
			x.Posted, x.Completed, x.Failed, x.FirstFailure = 4, 2, 2, "IBV_WC_RETRY_EXC_ERR"
			x.Payload, x.Received, x.Start, x.End, x.Goodput = 2500, 4000, 1, 1.0001, 200e6
			allOf(x, 20, 1)
		}},
		{"of UD what has come counts", with(func(x *Transfer) { x.Verb, x.Service = Send, roce.UD }), func(r *TransferRecord) {
			for range 2 {
				r.CountPosted(0)
				r.RecordCompletion(20*us, 0)
			}
			r.SetReceived(100*us, 1250)
		}, func(x *TransferResult) {
			x.Verb, x.Service, x.Posted, x.Completed, x.Payload, x.Received, x.End, x.Goodput = "send", "UD", 2, 2, 2500, 1250, 0.0001, 100e6
			allOf(x, 20, 1)
		}},
		{"empty messages", with(func(x *Transfer) { x.Size = 0 }), func(r *TransferRecord) {
			r.CountPosted(0)
			r.RecordCompletion(15*us, 0)
		}, func(x *TransferResult) {
			x.MessageSize, x.Posted, x.Completed, x.End, x.Ideal = 0, 1, 1, 15e-6, 10
			allOf(x, 15, 1.5)
		}},
		{"counters", whole, func(r *TransferRecord) {
			r.SetCounters(TransferCounters{Packets: 1})
			r.SetCounters(TransferCounters{Packets: 200, Retransmitted: 10, Bytes: 3000, NAKs: 4, RNRNAKs: 5, Timeouts: 6, CNPs: 7, Marked: 8, OutOfSequence: 9})
		}, func(x *TransferResult) {
			x.TransferCounters = TransferCounters{200, 10, 3000, 4, 5, 6, 7, 8, 9}
			x.RetransmittedShare = 0.05
		}},
	} {
		r := NewTransferRecord(c.transfer, "h1", "h2", atRate)
		c.play(r)
		want := base
		c.want(&want)
		if diff := cmp.Diff(want, r.Result(now), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestTransferWithoutIdeal: if the ideal time is not known there is no slowdown.
func TestTransferWithoutIdeal(t *testing.T) {
	r := NewTransferRecord(Transfer{Size: 10}, "h1", "h2", nil)
	r.CountPosted(0)
	r.RecordCompletion(units.Microsecond, 0)
	if x := r.Result(units.Second); x.Ideal != 0 || x.SlowdownMean != 0 || x.SlowdownMax != 0 || x.CompletionMax != 1 {
		t.Errorf("%+v", x)
	}
}

// TestSpans compares with a sorted list: least, most and mean exactly,
// percentiles exactly while spans are few and within 1% when they are many.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(fewSpans-2, fewSpans+2), rapid.IntRange(fewSpans+1, 2000)).Draw(t, "count")
		random := rapid.Int64Range(1, int64(rapid.SampledFrom([]units.Time{2000, units.Millisecond, 900 * units.Second}).Draw(t, "longest")))
		seed := rapid.SliceOfN(random, min(n, 1), 50).Draw(t, "spans")
		var s spans
		var all []units.Time
		sum := 0.0
		for i := range n {
			x := units.Time(seed[i%len(seed)])
			s.addSpan(x)
			all = append(all, x)
			sum += float64(x)
		}
		slices.Sort(all)
		if n == 0 {
			if got := s.percentiles(0, 50, 100); !slices.Equal(got, make([]units.Time, 3)) || s.meanSpan() != 0 || s.minSpan != 0 || s.maxSpan != 0 {
				t.Fatalf("of nothing: %v, mean %v", got, s.meanSpan())
			}
			return
		}
		if s.minSpan != all[0] || s.maxSpan != all[n-1] || s.count != uint64(n) || math.Abs(float64(s.meanSpan())-sum/float64(n)) > 1+1e-9*sum {
			t.Fatalf("least %v, most %v, mean %v of %d; want %v, %v, %v", s.minSpan, s.maxSpan, s.meanSpan(), s.count, all[0], all[n-1], sum/float64(n))
		}
		for _, p := range []float64{0, 1, 25, 50, 95, 99, 99.9, 100} {
			got := s.percentiles(p)[0]
			want := all[max(int(math.Ceil(p/100*float64(n)-1e-9)), 1)-1]
			// The histogram counts in whole nanoseconds.
			if n <= fewSpans && got != want || math.Abs(float64(got-want)) > 0.01*float64(want)+1000 {
				t.Fatalf("p%v of %d is %v, want %v", p, n, got, want)
			}
		}
	})
}

// TestSpansBeyond: spans of hours work.
func TestSpansBeyond(t *testing.T) {
	var s spans
	for range fewSpans + 1 {
		s.addSpan(2 * units.Hour)
	}
	if got := s.percentiles(50, 99); got[0] != 2*units.Hour || got[1] != 2*units.Hour || s.meanSpan() != 2*units.Hour {
		t.Errorf("%v, mean %v", got, s.meanSpan())
	}
}

// TestARecordIsSmall: transfers with few messages each, of which there are
// thousands, take no histogram, and one with many messages takes one of bounded
// size.
func TestARecordIsSmall(t *testing.T) {
	var s spans
	for i := range 100_000 {
		s.addSpan(units.Time(i) * units.Microsecond)
		if i < fewSpans && s.many != nil {
			t.Fatalf("a histogram for %d messages", i+1)
		}
	}
	if s.few != nil || len(s.many.counts) > 5000 {
		t.Errorf("%d spans kept one by one, %d buckets", len(s.few), len(s.many.counts))
	}
	if n := testing.AllocsPerRun(1000, func() { s.addSpan(units.Millisecond) }); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
}

// transferResults draws valid results, with numbers that CSV preserves.
func transferResults() *rapid.Generator[[]TransferResult] {
	one := rapid.Custom(func(t *rapid.T) TransferResult {
		text := func(name string) string { return rapid.StringMatching(`[a-z ,"\n]{0,6}`).Draw(t, name) }
		count := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		number := func(name string) float64 { return float64(rapid.Int64Range(0, 1<<40).Draw(t, name)) / 8 }
		return TransferResult{
			Transfer: "t" + text("transfer"), Verb: text("verb"), Service: text("service"), From: text("from"), To: text("to"),
			MessageSize: rapid.Int64Range(0, 1<<31).Draw(t, "size"), QPs: rapid.Int64Range(1, 1<<14).Draw(t, "qps"),
			Posted: count("posted"), Completed: count("completed"), Failed: count("failed"), FirstFailure: text("failure"),
			Payload: rapid.Int64().Draw(t, "payload"), Received: rapid.Int64().Draw(t, "received"),
			Start: number("start"), End: number("end"), Goodput: rapid.Int64().Draw(t, "goodput"), Ideal: number("ideal"),
			CompletionMin: number("min"), CompletionMean: number("mean"), CompletionP25: number("p25"), CompletionP50: number("p50"), CompletionP75: number("p75"),
			CompletionP90: number("p90"), CompletionP95: number("p95"), CompletionP99: number("p99"), CompletionP999: number("p999"), CompletionMax: number("max"),
			SlowdownMean: number("smean"), SlowdownP50: number("s50"), SlowdownP99: number("s99"), SlowdownMax: number("smax"),
			TransferCounters: TransferCounters{
				Packets: count("packets"), Retransmitted: count("again"), Bytes: count("bytes"), NAKs: count("naks"), RNRNAKs: count("rnr"),
				Timeouts: count("timeouts"), CNPs: count("cnps"), Marked: count("marked"), OutOfSequence: count("oos"),
			},
			RetransmittedShare: number("share"),
		}
	})
	return rapid.SliceOfN(one, 0, 4)
}

// TestTransfersReadBack: results are read back as written, in both forms, and
// both have the same columns.
func TestTransfersReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := transferResults().Draw(t, "results")
		var table, list bytes.Buffer
		if err := WriteTransfersCSV(&table, want); err != nil {
			t.Fatal(err)
		}
		if err := WriteTransfersJSON(&list, want); err != nil {
			t.Fatal(err)
		}
		text := list.String()
		header, _, _ := strings.Cut(table.String(), "\n")
		if names := strings.Split(header, ","); !IsTransfers(names) || Is(names) {
			t.Fatalf("the header is not recognised: %s", header)
		}
		got, err := ReadTransfersCSV(&table)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("CSV: %v (-want +got):\n%s", err, diff)
		}
		got, err = ReadTransfersJSON(&list)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("JSON: %v (-want +got):\n%s", err, diff)
		}
		if len(want) == 0 {
			return
		}
		var objects []map[string]any
		if err := json.Unmarshal([]byte(text), &objects); err != nil {
			t.Fatal(err)
		}
		columns := strings.Split(header, ",")
		for _, c := range columns {
			if _, ok := objects[0][c]; !ok {
				t.Fatalf("JSON has no %s", c)
			}
		}
		if len(objects[0]) != len(columns) {
			t.Fatalf("%d fields of JSON for %d columns", len(objects[0]), len(columns))
		}
	})
}

// TestTransfersHeader checks the columns against the documentation.
func TestTransfersHeader(t *testing.T) {
	const want = "transfer,verb,service,from,to,message_bytes,qps,posted_messages,completed_messages,failed_messages,first_failure," +
		"payload_bytes,received_bytes,start_s,end_s,goodput_bps,ideal_us," +
		"completion_min_us,completion_mean_us,completion_p25_us,completion_p50_us,completion_p75_us,completion_p90_us," +
		"completion_p95_us,completion_p99_us,completion_p999_us,completion_max_us," +
		"slowdown_mean,slowdown_p50,slowdown_p99,slowdown_max," +
		"sent_packets,retransmitted_packets,sent_bytes,naks,rnr_naks,timeouts,cnps,marked_packets,out_of_sequence_packets,retransmitted_share,outages,outage_longest_us\n"
	var b strings.Builder
	if err := WriteTransfersCSV(&b, nil); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteTransfersJSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestReadTransfersErrors: files without transfer records are refused with the
// reason.
func TestReadTransfersErrors(t *testing.T) {
	const head = "transfer,message_bytes,posted_messages,completed_messages,start_s,end_s\n"
	for text, want := range map[string]string{
		"":                           "empty",
		"flow,sent_packets\n":        "missing column transfer, message_bytes, posted_messages",
		head + "a,1,1,1,0,1\nb,1,-1": "wrong number of fields",
		head + "a,x,1,1,0,1\n":       `line 2: message_bytes: "x" is not a whole number`,
		head + "a,1,-1,1,0,1\n":      `line 2: posted_messages: "-1" is not a whole number, not negative`,
		head + "a,1,1,1,now,1\n":     `line 2: start_s: "now" is not a number`,
	} {
		if _, err := ReadTransfersCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "{}", `[{"transfer": 1}]`, `[{"flow": "x"}]`} {
		if _, err := ReadTransfersJSON(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "not a JSON array of records of transfers") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestSumTransfers: goodput over the whole time, Jain's index, counters.
func TestSumTransfers(t *testing.T) {
	of := func(goodput int64, start, end float64) TransferResult {
		return TransferResult{MessageSize: 1, Posted: 3, Completed: 2, Payload: 10, Received: 11, Goodput: goodput, Start: start, End: end,
			TransferCounters: TransferCounters{Packets: 100, Retransmitted: 1, Bytes: 2, NAKs: 3, RNRNAKs: 4, Timeouts: 5, CNPs: 6, Marked: 7, OutOfSequence: 8}}
	}
	failed := of(0, 1, 2)
	failed.Failed, failed.FirstFailure = 1, "IBV_WC_RNR_RETRY_EXC_ERR"
	for _, c := range []struct {
		name     string
		results  []TransferResult
		goodput  int64
		fairness float64
	}{
		{"one", []TransferResult{of(1e9, 1, 2)}, 1e9, 1},
		{"two at once", []TransferResult{of(1e9, 1, 2), of(1e9, 1, 2)}, 2e9, 1},
		{"one after the other", []TransferResult{of(1e9, 1, 2), of(1e9, 2, 3)}, 1e9, 1},
		{"one has all", []TransferResult{of(4e9, 1, 2), failed, of(0, 1, 2), of(0, 1, 2)}, 4e9, 0.25},
		{"3 to 1", []TransferResult{of(3e9, 0, 2), of(1e9, 0, 2)}, 4e9, 0.8},
		{"nobody got anything", []TransferResult{of(0, 1, 2), of(0, 1, 1)}, 0, 0},
		{"some never began or are empty", []TransferResult{of(2e9, 3, 4), {MessageSize: 1}, {Posted: 2, Completed: 2, Start: 3, End: 4}}, 2e9, 1},
	} {
		s := SumTransfers(c.results)
		if s.Goodput != c.goodput || math.Abs(s.Fairness-c.fairness) > 1e-12 || s.Transfers != len(c.results) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if SumTransfers(nil) != nil {
		t.Error("a sum of nothing")
	}
	got := SumTransfers([]TransferResult{of(1e9, 1, 2), failed})
	want := &TransferSums{
		Transfers: 2, Posted: 6, Completed: 4, Failed: 1, FailedOf: 1, FirstFailure: "IBV_WC_RNR_RETRY_EXC_ERR", Payload: 20, Received: 22, Goodput: 1e9, Fairness: 0.5,
		TransferCounters: TransferCounters{200, 2, 4, 6, 8, 10, 12, 14, 16}, RetransmittedShare: 0.01,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFairnessIsAShare: Jain's index lies between 1/n and 1, and does not
// depend on the unit of goodput.
func TestFairnessIsAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.Int64Range(0, 400_000_000), 1, 40).Draw(t, "goodputs")
		results, thousandfold := make([]TransferResult, len(rates)), make([]TransferResult, len(rates))
		for i, g := range rates {
			results[i] = TransferResult{Transfer: fmt.Sprint(i), MessageSize: 1, Posted: 1, Goodput: g, End: 1}
			thousandfold[i] = results[i]
			thousandfold[i].Goodput *= 1000
		}
		a, b := SumTransfers(results).Fairness, SumTransfers(thousandfold).Fairness
		if slices.Max(rates) == 0 {
			if a != 0 {
				t.Fatalf("%v of nothing", a)
			}
			return
		}
		if n := float64(len(rates)); a < 1/n-1e-9 || a > 1+1e-9 || math.Abs(a-b) > 1e-9 {
			t.Fatalf("%v and %v of %d", a, b, len(rates))
		}
	})
}
