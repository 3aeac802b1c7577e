package fabrictest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/observe/records"
)

// Records is a sink that keeps records.
type Records []records.Record

// PutRecord implements records.Sink.
func (k *Records) PutRecord(r *records.Record) error { *k = append(*k, *r); return nil }

// Close implements records.Sink.
func (k *Records) Close() error { return nil }

// CheckOnce fails unless each flow of a list has one record, and its agents were told
// about it once each.
func CheckOnce(t testing.TB, l *List, all []records.Record, reads bool) {
	t.Helper()
	want := map[string]int{}
	for _, flows := range l.Flows {
		for _, f := range flows {
			want[fmt.Sprint(f.From, f.To, f.Tag, f.Size, f.At, f.Group)]++
		}
	}
	for _, r := range all {
		want[fmt.Sprint(r.From, r.To, r.Tag, r.Size, r.Created, r.Group)]--
		if r.State == records.Done && (r.Arrived > r.End || r.Started < r.Created || r.Acked != r.Size) {
			t.Errorf("%+v", r)
		}
	}
	for f, n := range want {
		if n != 0 {
			t.Errorf("flow %s has %d records too few", f, n)
		}
	}
	arrived, completed := map[string]int{}, map[string]int{}
	for h, x := range l.Told {
		for _, f := range x.Arrived {
			arrived[fmt.Sprint(f.From, f.To, f.Tag, f.Size)]++
			if f.To != h {
				t.Errorf("host %d is told of the arrival of %+v", h, f)
			}
		}
		for _, f := range x.Completed {
			completed[fmt.Sprint(f.From, f.To, f.Tag, f.Size)]++
			if (f.From != h) != reads {
				t.Errorf("host %d is told of the completion of %+v", h, f)
			}
		}
	}
	for _, r := range all {
		key, n := fmt.Sprint(r.From, r.To, r.Tag, r.Size), 0
		if r.State == records.Done {
			n = 1
		}
		if arrived[key] != n && r.State != records.Failed || completed[key] != n {
			t.Errorf("%+v: arrived %d times, completed %d times", r, arrived[key], completed[key])
		}
	}
}

// FirstDifference returns the first line in which two texts differ.
func FirstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(x), len(y))
}
