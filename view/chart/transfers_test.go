package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/traffic/workload"

	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/canvas"
)

// mice returns transfers of one message each, with sizes from 1 KB to 8 MB.
// Their slowdowns grow with factor.
func mice(factor float64) (results []workload.TransferResult) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		size := 1000 << (i % 14)
		ideal := 10 + float64(size)*8/10_000
		v := 1 + factor*random.ExpFloat64()*(1+float64(i%14)/4)
		x := workload.TransferResult{
			Transfer: fmt.Sprint("m", i), Verb: "write", Service: "RC", MessageSize: int64(size), QPs: 1, Posted: 1, Completed: 1, Payload: int64(size),
			Start: float64(i) / 1e4, End: float64(i)/1e4 + ideal*v/1e6, Ideal: ideal, Goodput: int64(float64(size) * 8e6 / (ideal * v)),
			TransferCounters: workload.TransferCounters{Packets: uint64(size/1000 + 1)},
		}
		results = append(results, took(x, ideal*v))
	}
	return results
}

// took fills in the completion times of messages, in order.
func took(x workload.TransferResult, us ...float64) workload.TransferResult {
	at := func(share float64) float64 { return us[max(int(math.Ceil(share*float64(len(us))-1e-9)), 1)-1] }
	x.Completed = uint64(len(us))
	for _, t := range us {
		x.CompletionMean += t / float64(len(us))
	}
	x.CompletionMin, x.CompletionP25, x.CompletionP50, x.CompletionP75, x.CompletionP90 = at(0), at(0.25), at(0.5), at(0.75), at(0.9)
	x.CompletionP95, x.CompletionP99, x.CompletionP999, x.CompletionMax = at(0.95), at(0.99), at(0.999), at(1)
	return x
}

func transferFile(t *testing.T, name string, results []workload.TransferResult) string {
	t.Helper()
	var b bytes.Buffer
	format := workload.WriteTransfersCSV
	if filepath.Ext(name) == ".json" {
		format = workload.WriteTransfersJSON
	}
	if err := format(&b, results); err != nil {
		t.Fatal(err)
	}
	return write(t, name, b.String())
}

// TestTransfers works through an example: two transfers with several messages
// and one that failed.
func TestTransfers(t *testing.T) {
	results := []workload.TransferResult{
		took(workload.TransferResult{Transfer: "a", MessageSize: 1000, Posted: 2, Start: 0, End: 1, Goodput: 3e9, Ideal: 10}, 10, 20),
		took(workload.TransferResult{Transfer: "b", MessageSize: 1 << 20, Posted: 4, Failed: 3, FirstFailure: "IBV_WC_RETRY_EXC_ERR", Start: 0, End: 1, Goodput: 1e9, Ideal: 100,
			TransferCounters: workload.TransferCounters{Packets: 100, Retransmitted: 25, Timeouts: 7}}, 400),
	}
	for _, name := range []string{"t.csv", "t.json"} {
		r := open(t, Options{}, transferFile(t, name, results))
		var text bytes.Buffer
		r.Write(&text)
		squeezed := strings.Join(strings.Fields(text.String()), " ")
		for _, want := range []string{
			name + ": 2 transfers goodput 4Gbps in all, Jain's fairness index 0.800; 3 of 6 messages completed failed 3 messages in 1 of 2 transfers, the first with IBV_WC_RETRY_EXC_ERR RoCE 100 packets sent, 25% of them again, 7 timeouts",
			"over messages mean min p50 p90 p95 p99 max completion 143us 10us 20us 400us 400us 400us 400us slowdown 2.33 1 2 4 4 4 4",
			"over transfers mean min p50 p90 p95 p99 max goodput 2Gbps 1Gbps 1Gbps 3Gbps 3Gbps 3Gbps 3Gbps",
			"slowdown of size messages mean min p50 p90 p95 p99 max 1KB 2 1.5 1 1 2 2 2 2 1.05MB 1 4 4 4 4 4 4 4",
		} {
			if !strings.Contains(squeezed, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text.String())
			}
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Records []struct {
				File      string  `json:"file"`
				Transfers int     `json:"transfers"`
				Failed    int     `json:"failed_messages"`
				Fairness  float64 `json:"fairness"`
				Packets   int     `json:"sent_packets"`
				Slowdown  struct {
					Unit string  `json:"unit"`
					P50  float64 `json:"p50"`
				} `json:"slowdown"`
				Sizes []struct {
					From     int64 `json:"from_bytes"`
					To       int64 `json:"to_bytes"`
					Messages int   `json:"messages"`
				} `json:"slowdown_by_size"`
			} `json:"transfer_records"`
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		x := got.Records[0]
		if x.Transfers != 2 || x.Failed != 3 || x.Fairness != 0.8 || x.Packets != 100 || x.Slowdown.P50 != 2 || len(x.Sizes) != 2 || x.Sizes[1].To != 1<<20 || x.Sizes[0].Messages != 2 {
			t.Errorf("%s: %s", name, b)
		}
	}
}

// TestTransferPictures checks that each picture of one file and of several is
// visible, with names on its axes.
func TestTransferPictures(t *testing.T) {
	a, b := transferFile(t, "a.csv", mice(1)), transferFile(t, "b.json", mice(4))
	for _, c := range []struct {
		o          Options
		files      []string
		lines      string
		x          string
		unit       figure.Unit
		y          string
		logX, logY figure.Scale
		names      string
	}{
		{Options{}, []string{a}, "a", "completion time", figure.Seconds, "share of messages", "", "", ""},
		{Options{What: "slowdown", LogX: true}, []string{a, b}, "a b", "slowdown", "", "share of messages", figure.Log, "", ""},
		{Options{What: "goodput"}, []string{a, b}, "a b", "goodput", figure.BitsPerSecond, "share of transfers", "", "", ""},
		{Options{What: "slowdown-by-size"}, []string{a}, "p50 p95 p99", "message size, up to", "", "slowdown", "", "", "1KB 4KB 8KB 32KB 64KB 128KB 512KB 1.02MB 4.1MB 8.19MB"},
		{Options{What: "slowdown-by-size", LogY: true}, []string{a, b}, "a p50 a p95 a p99 b p50 b p95 b p99", "message size, up to", "", "slowdown", "", figure.Log, "*"},
		{Options{What: "slowdown-by-size"}, []string{a, b, transferFile(t, "c.csv", mice(1))}, "a p99 b p99 c p99", "message size, up to", "", "slowdown", "", "", "*"},
	} {
		f, p, note := figureIn(t, open(t, all(c.o), c.files...))
		if got := strings.Join(lineNames(p), " "); got != c.lines || p.X.Label != c.x || p.X.Unit != c.unit || p.Y.Label != c.y || p.X.Scale != c.logX || p.Y.Scale != c.logY || (note != "") != (len(c.files) > 2) {
			t.Errorf("%+v: lines %q, x %+v, y %+v, note %q", c.o, got, p.X, p.Y, note)
		}
		if got := strings.Join(p.X.Names, " "); c.names != "*" && got != c.names {
			t.Errorf("%+v: sizes %s, want %s", c.o, got, c.names)
		}
		i := drawPNG(t, f)
		for k, s := range p.Series {
			if near(i, canvas.Colours[max(s.Style.Colour, 1)-1]) < 20 {
				t.Errorf("%+v: line %d cannot be seen", c.o, k)
			}
			if first, last := s.Y[0], s.Y[len(s.Y)-1]; c.o.What != "slowdown-by-size" && (first != 0 || last != 1) {
				t.Errorf("%+v: %s goes from %v to %v", c.o, s.Name, first, last)
			}
		}
	}
}

// TestOneSize checks that a single size is a visible dot.
func TestOneSize(t *testing.T) {
	results := mice(1)[:1]
	results[0].MessageSize = 0
	f, p, _ := figureIn(t, open(t, all(Options{What: "slowdown-by-size"}), transferFile(t, "one.csv", results)))
	if got := strings.Join(p.X.Names, " "); got != "0B" || len(p.Series[2].X) != 1 {
		t.Errorf("sizes %s, points %v", got, p.Series[2].X)
	}
	if i := drawPNG(t, f); near(i, canvas.Colours[2]) < 20 {
		t.Error("the dot cannot be seen")
	}
}

// TestMessages checks that few messages are all known, that the percentiles of
// many are those of the record, and that every message counts once.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(1, 5000)).Draw(t, "messages")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		all := make([]float64, n)
		for i := range all {
			all[i] = random.ExpFloat64()
		}
		slices.Sort(all)
		var x workload.TransferResult
		if n > 0 {
			x = took(x, all...)
		}
		per := rapid.SampledFrom([]float64{1, 1e6, 3}).Draw(t, "per")
		values := appendMessages(nil, &x, per, rapid.SampledFrom([]int{1, 1000, 1_000_000}).Draw(t, "transfers"))
		d := distributionOf("s", values)
		if n == 0 {
			if d != nil {
				t.Fatalf("%d values of no message", len(values))
			}
			return
		}
		if math.Abs(d.total-float64(n)) > 1e-6*float64(n) || len(values) > 2001 {
			t.Fatalf("%d values for %v of %d messages", len(values), d.total, n)
		}
		want := []float64{x.CompletionMin / per, x.CompletionP50 / per, x.CompletionP90 / per, x.CompletionP95 / per, x.CompletionP99 / per, x.CompletionMax / per}
		if diff := cmp.Diff(want, []float64{d.Min, d.P50, d.P90, d.P95, d.P99, d.Max}); diff != "" {
			t.Fatalf("%d messages: percentiles (-want +got):\n%s", n, diff)
		}
		if n <= 5 {
			for i, v := range all {
				if values[i] != (weighted{v / per, 1}) {
					t.Fatalf("message %d of %v is %v", i, all, values[i])
				}
			}
		}
	})
}

// TestSizeBins checks that every message is in one bin, that bins do not
// overlap, that few sizes have a bin each, and that the bins of many sizes have
// about as many messages each.
func TestSizeBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var results []workload.TransferResult
		messages := map[int64]uint64{}
		total, largest := uint64(0), uint64(0)
		for range rapid.IntRange(0, 60).Draw(t, "transfers") {
			x := workload.TransferResult{
				MessageSize: rapid.Int64Range(0, 40).Draw(t, "size"), Completed: rapid.Uint64Range(0, 1000).Draw(t, "completed"),
				Ideal: float64(rapid.IntRange(0, 3).Draw(t, "ideal")),
			}
			results = append(results, x)
			if x.Ideal > 0 && x.Completed > 0 {
				messages[x.MessageSize] += x.Completed
				total += x.Completed
				largest = max(largest, messages[x.MessageSize])
			}
		}
		bins := sizeBins(results)
		sum := uint64(0)
		for i, b := range bins {
			if i > 0 && b.from <= bins[i-1].to || b.from > b.to {
				t.Fatalf("bins %v", bins)
			}
			n := b.binOf(results).Messages
			sum += n
			if float64(n) > float64(total)/maxBins+float64(largest)+1 && len(messages) > maxBins {
				t.Fatalf("%d of %d messages in bin %v", n, total, b)
			}
		}
		if sum != total || len(bins) > maxBins || len(messages) <= maxBins && len(bins) != len(messages) {
			t.Fatalf("%d bins for %d sizes, with %d of %d messages", len(bins), len(messages), sum, total)
		}
	})
}

// TestMeanIsTheRecords checks that the mean is that of the records, not of the
// approximated messages.
func TestMeanIsTheRecords(t *testing.T) {
	x := took(workload.TransferResult{Ideal: 2}, slices.Repeat([]float64{1}, 100)...)
	x.CompletionMax, x.CompletionMean = 500, 7
	if c, s := messageTimes([]workload.TransferResult{x}), slowdownDistribution([]workload.TransferResult{x}); math.Abs(c.Mean-7e-6) > 1e-15 || s.Mean != 3.5 || c.Max != 500e-6 || s.Max != 250 {
		t.Errorf("means %v and %v", c.Mean, s.Mean)
	}
}
