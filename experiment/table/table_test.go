package table

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var flows = &Table{Name: "flows", Columns: []Column{
	{Name: "flow", Texts: []string{"a", "b", "c", "7"}},
	{Name: "size_bytes", Numbers: []float64{100, 5000, 100_000, 1e6}},
	{Name: "fct_us", Numbers: []float64{10, 20, Unknown, 40}},
	{Name: "counted", Numbers: []float64{0, 1, 1, 0}, Bool: true},
}}

// TestOf_FieldsBecomeColumns checks that the fields of records become columns.
func TestOf_FieldsBecomeColumns(t *testing.T) {
	type inner struct {
		Bytes uint64 `json:"sent_bytes"`
	}
	type record struct {
		Name string  `json:"name,omitempty"`
		Done bool    `json:"done"`
		At   float64 `json:"at_s"`
		List []int   `json:"list"`
		inner
		hidden int
	}
	got := Of("x", []record{{Name: "a", Done: true, At: 1.5, inner: inner{7}}, {Name: "b", hidden: 1}})
	want := &Table{Name: "x", Columns: []Column{
		{Name: "name", Texts: []string{"a", "b"}}, {Name: "done", Numbers: []float64{1, 0}, Bool: true},
		{Name: "at_s", Numbers: []float64{1.5, 0}}, {Name: "sent_bytes", Numbers: []float64{7, 0}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := Of[record]("x", nil); none.Len() != 0 || none.Check() != nil || !none.Columns[0].IsText() {
		t.Errorf("of no records: %+v", none)
	}
}

// TestZip_IsReadBackExactly checks that tables are read back exactly as written, and that the same
// tables give the same bytes.
func TestZip_IsReadBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 5).Draw(t, "rows")
		want := Bundle{{Name: "a", Columns: []Column{
			{Name: "n", Numbers: rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.Just(Unknown)), rows, rows).Draw(t, "n")},
			{Name: "t", Texts: rapid.SliceOfN(rapid.StringMatching(`[a-z0-9 ,"é]*`), rows, rows).Draw(t, "t")},
			{Name: "b", Numbers: rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, Unknown}), rows, rows).Draw(t, "b"), Bool: true},
		}}, {Name: "b", Columns: []Column{{Name: "x", Numbers: []float64{}}}}}
		var one, two bytes.Buffer
		if err := want.WriteZip(&one); err != nil {
			t.Fatal(err)
		}
		if err := want.WriteZip(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatal("another time, other bytes", err)
		}
		got, err := ReadZip(one.Bytes())
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
	bad := Bundle{{Name: "a", Columns: []Column{{Name: "x", Numbers: []float64{1}}, {Name: "y"}}}}
	if err := bad.WriteZip(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "column y has 0 rows") {
		t.Errorf("columns of different lengths: %v", err)
	}
}

// TestRows_EachFormOfCondition checks each form of a condition.
func TestRows_EachFormOfCondition(t *testing.T) {
	for _, c := range []struct {
		column string
		any    []string
		want   []int
	}{
		{"flow", []string{"a", "c"}, []int{0, 2}},
		{"flow", []string{"[a-b]"}, []int{0, 1}},
		{"flow", []string{"7"}, []int{3}},
		{"size_bytes", []string{"<100KB"}, []int{0, 1}},
		{"size_bytes", []string{"<=100KB"}, []int{0, 1, 2}},
		{"size_bytes", []string{">5000"}, []int{2, 3}},
		{"size_bytes", []string{">=5KB"}, []int{1, 2, 3}},
		{"size_bytes", []string{"5KB..1MB"}, []int{1, 2}},
		{"size_bytes", []string{"100", "=1MB"}, []int{0, 3}},
		{"fct_us", []string{"<1s"}, []int{0, 1, 3}}, // one is unknown
		{"fct_us", []string{">=0.02ms"}, []int{1, 3}},
		{"counted", []string{"true"}, []int{1, 2}},
		{"counted", []string{"false"}, []int{0, 3}},
		{"counted", []string{"true", "false"}, []int{0, 1, 2, 3}},
		{"counted", []string{"1"}, []int{1, 2}},
		{"counted", []string{"<1"}, []int{0, 3}},
	} {
		got, err := Filter{{c.column, c.any}}.FilterRows(flows)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s %v: %v (-want +got):\n%s", c.column, c.any, err, diff)
		}
	}
	both := Filter{{"flow", []string{"a", "b"}}, {"size_bytes", []string{">1KB"}}}
	if got, err := both.FilterRows(flows); err != nil || !cmp.Equal(got, []int{1}) {
		t.Errorf("two conditions: %v, %v", got, err)
	}
	for _, c := range []struct{ column, any, want string }{
		{"sizes", "1", `no column "sizes": it has flow, size_bytes, fct_us, counted`},
		{"flow", "[a", "a [ needs its ]"},
		{"size_bytes", "<10us", "write for example"},
		{"size_bytes", "5KB..1KB", "is empty"},
		{"counted", "yes", `counted: "yes" is not a number: write true or false`},
		{"size_bytes", "true", "write for example"},
	} {
		if _, err := (Filter{{c.column, []string{c.any}}}).FilterRows(flows); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.column, c.any, err, c.want)
		}
	}
}

// TestStatistics_AreThoseOfNumpy checks examples; the quantiles are numpy's.
func TestStatistics_AreThoseOfNumpy(t *testing.T) {
	for name, want := range map[string]float64{
		"count": 4, "sum": 100, "mean": 25, "min": 10, "max": 40, "median": 25, "stddev": 12.909944487358056, "deviation": 10,
		"jain": 100. * 100 / (4 * 3000), "p25": 17.5, "p50": 25, "p99": 39.7, "p99.9": 39.97,
	} {
		s, err := ParseStatistic(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Of([]float64{40, Unknown, 10, 30, 20}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		none := s.Of(nil)
		if known := !math.IsNaN(none); known != (name == "count" || name == "sum") {
			t.Errorf("%s of nothing: %v", name, none)
		}
	}
	for _, name := range []string{"", "p", "p0", "p100", "pxx", "average"} {
		if _, err := ParseStatistic(name); err == nil || !strings.Contains(err.Error(), "mean") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSettling_IsTheTimeToTheBounds checks the time from the first row to the last one that enters the
// bounds, for rows in any order.
func TestSettling_IsTheTimeToTheBounds(t *testing.T) {
	for _, c := range []struct {
		what           string
		of             Settling
		times, numbers []float64
		want           float64
	}{
		{"of the mean of the last quarter", Settling{0.1, Unknown}, []float64{10, 11, 12, 13, 14}, []float64{0, 300, 95, 99, 101}, 2},
		{"in another order", Settling{0.1, Unknown}, []float64{14, 11, 13, 12, 10}, []float64{101, 300, 99, 95, 0}, 2},
		{"what was near and left does not count", Settling{0.1, Unknown}, []float64{0, 1, 2, 3}, []float64{100, 120, 100, 100}, 2},
		{"of a target", Settling{0.1, 200}, []float64{0, 1, 2}, []float64{100, 180, 220}, 1},
		{"at once", Settling{0.1, 100}, []float64{5, 6}, []float64{100, 100}, 0},
		{"of a target below 0", Settling{0.1, -100}, []float64{0, 1}, []float64{0, -95}, 1},
		{"what is not known is left out", Settling{0.1, Unknown}, []float64{0, 1, 2, 3}, []float64{Unknown, 50, 100, Unknown}, Unknown},
		{"likewise, with a target", Settling{0.1, 100}, []float64{0, 1, 2, 3}, []float64{Unknown, 50, 100, Unknown}, 2},
		{"never", Settling{0.1, 100}, []float64{0, 1, 2}, []float64{100, 100, 111}, Unknown},
		{"of nothing", Settling{0.1, 100}, nil, nil, Unknown},
	} {
		if got := c.of.Of(c.times, nil, c.numbers); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestReaching_IsTheTimeToTheFirstSuchRow checks the time from the first row, or from the beginning of
// its interval, to the first one that meets the condition, for rows in any order.
func TestReaching_IsTheTimeToTheFirstSuchRow(t *testing.T) {
	for _, c := range []struct {
		what                      string
		until                     string
		times, intervals, numbers []float64
		want                      float64
	}{
		{"it may leave again", "<10", []float64{10, 11, 12, 13}, nil, []float64{50, 9, 20, 8}, 1},
		{"in another order", "<10", []float64{13, 11, 10, 12}, nil, []float64{8, 9, 50, 20}, 1},
		{"from the beginning of an interval", ">=10", []float64{2, 4}, []float64{2, 2}, []float64{1, 10}, 4},
		{"at once", ">=10", []float64{5, 6}, nil, []float64{10, 10}, 0},
		{"what is not known does not count", "<10", []float64{0, 1, 2}, nil, []float64{Unknown, Unknown, 1}, 2},
		{"never", "<10", []float64{0, 1}, nil, []float64{10, 11}, Unknown},
		{"of nothing", "<10", nil, nil, nil, Unknown},
	} {
		b, err := ParseBounds("", c.until)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Reaching{b, c.until}).Of(c.times, c.intervals, c.numbers); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestFormat_UsesUnits checks that values are formatted in their units.
func TestFormat_UsesUnits(t *testing.T) {
	for _, c := range []struct {
		column string
		x      float64
		want   string
	}{
		{"fct_us", 12.3456, "12.3us"}, {"fct_us", 0.0123, "12.3ns"}, {"fct_us", 2_500_000, "2.5s"}, {"time_s", 0, "0s"},
		{"fct_us", 999.96, "1ms"},
		{"size_bytes", 100_000, "100KB"}, {"size_bytes", 1_234_567, "1.23MB"}, {"size_bytes", -64, "-64B"},
		{"goodput_bps", 39.8e9, "39.8Gbps"}, {"loss_share", 0.0123, "1.23%"},
		{"slowdown", 1.2345, "1.23"}, {"slowdown", 123456, "123456"}, {"slowdown", 0.00123, "0.00123"}, {"slowdown", 1e-9, "0.000000001"},
		{"slowdown", Unknown, "-"},
	} {
		if got := Format(c.column, c.x, 3); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.column, c.x, got, c.want)
		}
	}
}

// TestParse_UsesUnits checks that values are parsed in the units of their columns.
func TestParse_UsesUnits(t *testing.T) {
	for _, c := range []struct {
		column, text string
		want         float64
	}{
		{"fct_us", "1ms", 1000}, {"fct_us", "12", 12}, {"time_s", "10us", 1e-5}, {"size_bytes", "10KB", 10_000},
		{"goodput_bps", "40Gbps", 40e9}, {"loss_share", "5%", 0.05}, {"slowdown", "1.5", 1.5},
	} {
		if got, err := Parse(c.column, c.text); err != nil || math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s %s: %v, %v", c.column, c.text, got, err)
		}
	}
	for column, text := range map[string]string{"slowdown": "5us", "fct_us": "5KB", "size_bytes": "fast"} {
		if _, err := Parse(column, text); err == nil {
			t.Errorf("%s %s is read", column, text)
		}
	}
}
