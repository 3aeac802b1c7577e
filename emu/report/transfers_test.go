package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/traffic/workload"
)

// TestTransfers: the table, its columns, and the sums, in a run with failures
// and in one without.
func TestTransfers(t *testing.T) {
	calm := workload.TransferResult{
		Transfer: "h1-h2", Verb: "write", Service: "RC", From: "h1", To: "h2", MessageSize: 1 << 20, QPs: 1, Posted: 100, Completed: 100, Payload: 100 << 20,
		Start: 0, End: 1, Goodput: 9.5e9, Ideal: 850, CompletionP50: 900, CompletionP99: 1234.5, CompletionMax: 2000, SlowdownP99: 1.452,
		TransferCounters: workload.TransferCounters{Packets: 1000},
	}
	lossy := calm
	lossy.Transfer, lossy.Completed, lossy.Failed, lossy.FirstFailure, lossy.Goodput, lossy.SlowdownP99 = "h3-h2", 90, 8, "IBV_WC_RETRY_EXC_ERR", 4.75e9, 1234.5
	lossy.TransferCounters = workload.TransferCounters{Packets: 1000, Retransmitted: 100, CNPs: 7, NAKs: 3, RNRNAKs: 2, Timeouts: 1, Marked: 50, OutOfSequence: 40}
	silent := workload.TransferResult{Transfer: "h4-h2", Verb: "read", MessageSize: 10, Posted: 1, Start: 0.5, End: 0.5}
	for _, c := range []struct {
		name    string
		results []workload.TransferResult
		want    string
	}{
		{"none", nil, ""},
		{"one", []workload.TransferResult{calm}, `transfer verb messages size goodput completion p50 p99 max slowdown p99
h1-h2 write 100 1.05MB 9.5Gbps 900us 1.23ms 2ms 1.45
goodput 9.5Gbps in all; 100 of 100 messages completed
RoCE 1000 packets sent
`},
		{"three, with trouble", []workload.TransferResult{calm, lossy, silent}, `transfer verb messages size goodput completion p50 p99 max slowdown p99 retransmitted marked CNPs failed
h1-h2 write 100 1.05MB 9.5Gbps 900us 1.23ms 2ms 1.45 0 0 0 0
h3-h2 write 90 of 100 1.05MB 4.75Gbps 900us 1.23ms 2ms 1234 100 50 7 8 (IBV_WC_RETRY_EXC_ERR)
h4-h2 read 0 of 1 10B 0bps - - - - 0 0 0 0
goodput 14.25Gbps in all, Jain's fairness index 0.600; 190 of 201 messages completed
failed 8 messages in 1 of 3 transfers, the first with IBV_WC_RETRY_EXC_ERR
RoCE 2000 packets sent, 5% of them again, 50 marked, 7 CNPs, 40 out of sequence, 3 NAKs, 2 RNR NAKs, 1 timeouts
`},
		{"without an ideal", []workload.TransferResult{silent}, `transfer verb messages size goodput completion p50 p99 max
h4-h2 read 0 of 1 10B 0bps - - -
goodput 0bps in all; 0 of 1 messages completed
`},
	} {
		r := &Report{}
		r.SetTransfers(c.results)
		var b strings.Builder
		r.writeTransfers(&b)
		if diff := cmp.Diff(c.want, squeeze(b.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.want != "" && !strings.Contains(squeeze(text(r)), c.want) {
			t.Errorf("%s: the report does not have it:\n%s", c.name, text(r))
		}
	}
}

// TestManyTransfers: the text shows the first, JSON has all, and both have the sums.
func TestManyTransfers(t *testing.T) {
	var results []workload.TransferResult
	for i := range maxTransfers + 5 {
		results = append(results, workload.TransferResult{Transfer: fmt.Sprint("t", i), Verb: "send", MessageSize: 1, Posted: 2, Completed: 2})
	}
	r := &Report{}
	r.SetTransfers(results)
	if got := text(r); strings.Count(got, "send") != maxTransfers || !strings.Contains(got, "and 5 more transfers\n") || !strings.Contains(got, "50 of 50 messages") {
		t.Errorf("%s", got)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(results, back.Transfers); diff != "" || back.TransferSums == nil || back.TransferSums.Posted != 50 {
		t.Errorf("%+v (-want +got):\n%s", back.TransferSums, diff)
	}
	if b, err := json.Marshal(&Report{}); err != nil || bytes.Contains(b, []byte("transfer")) {
		t.Errorf("%v, a report without transfers: %s", err, b)
	}
}

func TestSize(t *testing.T) {
	for b, want := range map[int64]string{
		0: "0B", 64: "64B", 1000: "1KB", 1024: "1.02KB", 4096: "4.1KB", 4097: "4.1KB", 64_000: "64KB", 1 << 20: "1.05MB", 3 << 19: "1.57MB",
		1_000_000: "1MB", 1_024_000: "1.02MB", 1 << 30: "1.07GB", 1<<31 - 1: "2.15GB",
	} {
		if got := Size(float64(b)); got != want {
			t.Errorf("%d bytes are %q, want %q", b, got, want)
		}
	}
}
