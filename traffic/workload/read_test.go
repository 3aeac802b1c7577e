package workload

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead: records that were written are read back, in both forms.
func TestRead(t *testing.T) {
	want := []Result{
		{Flow: "a", Pattern: "cbr", From: "h1", To: "h2", Payload: 1000, Offered: 1e9, Sent: 10, Received: 8, Lost: 2, LossShare: 0.2, Marked: 1,
			Duplicated: 3, Reordered: 4, Start: 0.5, End: 1.25, Goodput: 9e8, DelayMin: 1.5, DelayMean: 2.25, DelayP50: 2, DelayP99: 3, DelayMax: 3.125},
		{Flow: "b, c", Sent: 1, Lost: 1, LossShare: 1},
	}
	var table, list bytes.Buffer
	if err := WriteCSV(&table, want); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(&list, want); err != nil {
		t.Fatal(err)
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	got, err := ReadCSV(&table)
	if diff := cmp.Diff(want, got, near); diff != "" || err != nil {
		t.Errorf("CSV: %v (-want +got):\n%s", err, diff)
	}
	got, err = ReadJSON(&list)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("JSON: %v (-want +got):\n%s", err, diff)
	}
}

// TestReadErrors: files without flow records are refused with the reason.
func TestReadErrors(t *testing.T) {
	const head = "flow,sent_packets,received_packets,start_s,end_s,more\n"
	for text, want := range map[string]string{
		"":                                   "empty",
		"flow,sent_packets\n":                "missing column received_packets, start_s, end_s",
		head + "a,1,2,0,1,x\nb,-1,2,0,1,x\n": `line 3: sent_packets: "-1" is not a whole number`,
		head + "a,1,2,zero,1,x\n":            `line 2: start_s: "zero" is not a number`,
		head + "a,1\n":                       "line 2",
	} {
		if _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "{}", `[{"flow": 1}]`, `[{"name": "x"}]`} {
		if _, err := ReadJSON(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "not a JSON array of flow records") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
