package records

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

// TestReadFile_ReadsWhatBothFormatsWrite: the rows of CSV and of Parquet are those that were written.
func TestReadFile_ReadsWhatBothFormatsWrite(t *testing.T) {
	names := Names{Traffic: []string{"a,b", "late"}, Hosts: []string{"h1", "h2"}}
	all := []Record{
		{ID: 1, From: 0, To: 1, Size: 1000, Counted: true, End: 3 * units.Microsecond, Started: 0, Arrived: units.Microsecond, Ideal: 2 * units.Microsecond},
		{ID: 2, Traffic: 1, From: 1, To: 0, Size: 5, State: Failed, Failure: "a \"b\"", Started: units.Never, End: units.Second, Arrived: units.Never},
		{ID: 3, From: 1, To: 0, Size: 7, State: Unfinished, Counted: true, End: units.Second, Arrived: units.Never},
		{ID: 4, From: 1, To: 0, Size: 8, Counted: true, Created: units.Second, End: 2 * units.Second, Arrived: units.Second},
	}
	at := func(v float64) *float64 { return &v }
	want := []Row{
		{"a,b", "h1", "h2", 1000, "done", true, at(3e-6), at(1.5)},
		{"late", "h2", "h1", 5, "failed", false, nil, nil},
		{"a,b", "h2", "h1", 7, "unfinished", true, nil, nil},
		{"a,b", "h2", "h1", 8, "done", true, at(1), nil},
	}
	for _, name := range []string{"f.csv", "f.parquet"} {
		path := filepath.Join(t.TempDir(), name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		var s Sink = NewCSV(f, names)
		if name == "f.parquet" {
			s = NewParquet(f, names)
		}
		for i := range all {
			if err := s.PutRecord(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var got []Row
		if err := ReadFile(path, func(r *Row) error { got = append(got, *r); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadFile_Errors: errors name the file, the line and what is wrong.
func TestReadFile_Errors(t *testing.T) {
	const header = "traffic,from,to,size_bytes,state,counted,fct_s,slowdown\n"
	for text, want := range map[string]string{
		"":                                 "the file is empty",
		"traffic,from,state\n":             "missing column to, size_bytes, counted, fct_s, slowdown",
		header + "a,b,c,x,done,true,1,1\n": `line 2: size_bytes: "x" is not a whole number`,
		header + "a,b,c,1,done,true,1,1\na,b,c,1,gone,true,1,1\n": `line 3: state: "gone" is not one of done, failed, unfinished`,
		header + "a,b,c,1,done,maybe,1,1\n":                       `counted: "maybe" is not true or false`,
		header + "a,b,c,1,done,true,soon,1\n":                     `fct_s: "soon" is not a number`,
		header + "a,b\n":                                          "wrong number of fields",
		"PAR1 and then something else":                            "it is not a complete Parquet file",
	} {
		path := filepath.Join(t.TempDir(), "f.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := ReadFile(path, func(*Row) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
