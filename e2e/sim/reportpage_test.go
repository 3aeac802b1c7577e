package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestReportPage_HasReportSeriesAndRecords: one page with a run's report, series and records,
// without external references.
func TestReportPage_HasReportSeriesAndRecords(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	o, e, code := testlab.RunWeft(t, weft, "sim", "../../scripts/labs/incast-dcqcn.yaml", "--json", "--series", in("q.csv"), "--transfer-records", in("t.csv"))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	if err := os.WriteFile(in("run.json"), []byte(o), 0o644); err != nil {
		t.Fatal(err)
	}
	if o, e, code := testlab.RunWeft(t, weft, "report", in("q.csv"), in("run.json"), in("t.csv"), "--html", in("run.html")); code != 0 || o != "" {
		t.Fatalf("exit code %d\n%s%s", code, o, e)
	}
	page, err := os.ReadFile(in("run.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if strings.Count(text, "<svg") != 2 || strings.Count(text, "<h2>") != 3 || !strings.Contains(text, "<h1>incast-dcqcn</h1>") || !strings.Contains(text, "packets  ") {
		t.Errorf("%d pictures, %d headings\n%.2000s", strings.Count(text, "<svg"), strings.Count(text, "<h2>"), text)
	}
	for _, want := range []string{"<figcaption>queue over emulated time, of ", "<figcaption>share of messages over completion time, of ", "Written on 2", " build "} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q\n%.3000s", want, text)
		}
	}
	for _, never := range []string{"<script", "src=", "href=", "<?xml"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if _, e, code := testlab.RunWeft(t, weft, "report", in("run.json"), "../../go.mod", "--html", in("none.html")); code != testlab.ExitBadInput || !strings.Contains(e, "go.mod is neither a report") {
		t.Errorf("a file of no kind: exit code %d\n%s", code, e)
	}
	if _, err := os.Stat(in("none.html")); err == nil {
		t.Error("a page was written")
	}
}
