package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
)

// TestRecordFlags_RefuseWhatCannotBeWritten, with the flag's name.
func TestRecordFlags_RefuseWhatCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		flags            recordFlags
		flows, transfers int
		want             string // "" means no error
	}{
		{recordFlags{}, 0, 0, ""},
		{recordFlags{streams: "f.csv", transfers: "t.json"}, 1, 1, ""},
		{recordFlags{streams: "f.txt"}, 1, 1, "--stream-records f.txt: end the name in .csv or .json"},
		{recordFlags{transfers: "t"}, 1, 1, "--transfer-records t: end the name in .csv or .json"},
		{recordFlags{streams: "x.csv", transfers: "./x.csv"}, 1, 1, "--stream-records and --transfer-records are both x.csv"},
		{recordFlags{streams: "f.csv"}, 0, 1, "--stream-records f.csv: the workload of lab.yaml has no flows"},
		{recordFlags{transfers: "t.csv"}, 1, 0, "--transfer-records t.csv: the workload of lab.yaml has no RDMA transfers"},
	} {
		err := c.flags.checkFiles()
		if err == nil {
			err = c.flags.refuseMissing("lab.yaml", c.flows, c.transfers)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: error %v, want %q", c.flags, err, c.want)
		}
	}
}

// TestRecords_EachKindGoesToItsFile, in the format given by the file name.
func TestRecords_EachKindGoesToItsFile(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	r := &report.Report{Flows: []workload.Result{{Flow: "f", Sent: 3, Received: 2}}}
	r.SetTransfers([]workload.TransferResult{{Transfer: "a", Posted: 2, Completed: 1}, {Transfer: "b"}})
	for _, f := range []recordFlags{{}, {streams: in("f.csv"), transfers: in("t.json")}, {streams: in("f.json"), transfers: in("t.csv")}} {
		if err := f.writeRecords(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&recordFlags{transfers: in("none/t.csv")}).writeRecords(r); err == nil || !strings.Contains(err.Error(), "none/t.csv") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 4 {
		t.Errorf("files %v", files)
	}
	for name, read := range map[string]func(*os.File) (any, error){
		"f.csv":  func(f *os.File) (any, error) { return workload.ReadCSV(f) },
		"f.json": func(f *os.File) (any, error) { return workload.ReadJSON(f) },
		"t.csv":  func(f *os.File) (any, error) { return workload.ReadTransfersCSV(f) },
		"t.json": func(f *os.File) (any, error) { return workload.ReadTransfersJSON(f) },
	} {
		f, err := os.Open(in(name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(f)
		f.Close()
		var want any = r.Flows
		if name[0] == 't' {
			want = r.Transfers
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestRenamedFlags_WorkAndWarn: the old names set the same files, and the warning names the new ones.
func TestRenamedFlags_WorkAndWarn(t *testing.T) {
	for _, c := range []struct{ old, name string }{{"flows", "stream-records"}, {"transfers", "transfer-records"}} {
		cmd := newSim()
		warning := captureStderr(t, func() {
			if err := cmd.ParseFlags([]string{"--" + c.old, "x.csv"}); err != nil {
				t.Fatal(err)
			}
		})
		if got := cmd.Flags().Lookup(c.name).Value.String(); got != "x.csv" {
			t.Errorf("--%s sets --%s to %q", c.old, c.name, got)
		}
		if want := "weft: --" + c.old + " is now --" + c.name; !strings.Contains(warning, want) {
			t.Errorf("the warning %q lacks %q", warning, want)
		}
		if !cmd.Flags().Lookup(c.old).Hidden {
			t.Errorf("--%s is in the help", c.old)
		}
	}
}

// captureStderr returns what f writes to standard error.
func captureStderr(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = before
	w.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
