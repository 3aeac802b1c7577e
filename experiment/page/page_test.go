package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
)

// TestPage_HasTheWholeResult checks that the page contains the whole result, refers to nothing outside, and
// escapes text from files.
func TestPage_HasTheWholeResult(t *testing.T) {
	unknown := table.Number(table.Unknown)
	r := &experiment.Report{
		Name: "fct", Title: "FCT <b>of flows</b>", File: "fct.yaml", Text: "lab: <script>alert(1)</script>", LabName: "lab.yaml", LabText: "topology: {}",
		Version: "weft v1", Command: "weft experiment fct.yaml", Clocks: []experiment.Clock{experiment.Virtual}, Seeds: []uint64{1, 2},
		Factors:  []experiment.Factor{{Name: "system", Levels: []string{"a", "b"}}},
		Measures: []experiment.Header{{Name: "fct", Title: "FCT", Unit: "fct_us", Of: "mean of fct_us of flows"}},
		Summaries: []experiment.Summary{
			{Measure: "fct", Levels: []string{"a"}, Values: []float64{1, 2}, Value: 1.5, Low: -4.85, High: 7.85, Ratio: 0.75, Paper: &experiment.PaperValue{Value: 2, Source: "Fig. 3", Origin: experiment.ReadOff}},
			{Measure: "fct", Levels: []string{"b"}, Value: unknown, Low: unknown, High: unknown, Ratio: unknown},
		},
		Cells: []experiment.CellReport{
			{Levels: []string{"a"}, Seed: 1, Outcome: experiment.Outcome{State: experiment.Done}},
			{Levels: []string{"b"}, Seed: 2, Outcome: experiment.Outcome{State: experiment.Failed, Error: "it took longer than 1s", Log: "the log"}},
		},
		Verdicts: []experiment.Verdict{{Text: "fct() > 1", Held: true}, {Text: "fct() > 2", Why: []string{"fct(a) is 1.5us"}}},
	}
	var b bytes.Buffer
	date := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	svg := []byte(`<?xml version="1.0"?><svg width="10" height="10"></svg>`)
	if err := Write(&b, r, []Picture{{Name: "slowdown", Caption: "what is seen", SVG: svg}}, date); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"FCT &lt;b&gt;of flows", "&lt;script&gt;", `<svg width="10"`, "slowdown", "1.5us", "± 6.3us", "2us", "Fig. 3, read off",
		"holds", "fails", "fct(a) is 1.5us", "1 failed", "it took longer than 1s", "the log", "weft experiment fct.yaml", "topology: {}", "mean of fct_us of flows", "Written on 2026-05-04", "what is seen",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<script", "<?xml", "http://", "https://", "src=", "href=", "NaN"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal("its elements do not match:", err)
		}
	}
}

// TestPage_HasTwoFactorsAsAGrid: a measure over two factors has a line for each level of one and a
// column for each of the other; one with bins has rows. A lab in the experiment's file is there
// once.
func TestPage_HasTwoFactorsAsAGrid(t *testing.T) {
	r := &experiment.Report{
		Name: "x", File: "x.yaml", Text: "lab: inline-lab", LabName: "x.yaml", LabText: "inline-lab", Seeds: []uint64{1, 2},
		Factors:  []experiment.Factor{{Name: "system", Levels: []string{"a", "b"}}, {Name: "load", Levels: []string{"50%", "80%"}}},
		Measures: []experiment.Header{{Name: "fct", Title: "FCT", Unit: "fct_us", Center: experiment.Mean}, {Name: "sizes", Title: "sizes"}},
	}
	unknown := table.Number(table.Unknown)
	for i, levels := range [][]string{{"a", "50%"}, {"a", "80%"}, {"b", "50%"}} {
		x := table.Number(i + 1)
		r.Summaries = append(r.Summaries, experiment.Summary{Measure: "fct", Levels: levels, Value: x, Low: x - 0.5, High: x + 0.5, Ratio: unknown},
			experiment.Summary{Measure: "sizes", Bin: "small", Levels: levels, Value: 7, Low: unknown, High: unknown, Ratio: unknown})
	}
	var b bytes.Buffer
	if err := Write(&b, r, nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		`<th>system \ load</th><th class="n">50%</th><th class="n">80%</th>`,
		`<tr><td>a</td><td class="n">1us <small>± 500ns</small></td><td class="n">2us <small>± 500ns</small></td></tr>`,
		`<tr><td>b</td><td class="n">3us <small>± 500ns</small></td><td class="n"></td></tr>`,
		"mean of 2 seeds", "<td>small</td><td>a</td><td>50%</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(text, "inline-lab"); n != 1 {
		t.Errorf("the lab is there %d times", n)
	}
}
