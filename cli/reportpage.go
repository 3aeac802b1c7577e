package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/view/chart"
)

// writePage writes one HTML page with the results of a run: its report (weft sim
// --json), its series and its records, each kind with its sums and its picture. The date is that of
// the page: a report in virtual time does not depend on it.
func writePage(name string, files []string, o chart.Options, date time.Time) error {
	groups, rest := chart.GroupFiles(files)
	var sections []chart.Section
	title := "weft"
	for _, f := range rest {
		r, err := readReport(f)
		if err != nil {
			return badInput(err)
		}
		var text bytes.Buffer
		r.Write(&text)
		title = r.Lab
		sections = append(sections, chart.Section{Title: f, Text: text.String()})
	}
	for _, g := range groups {
		r, err := chart.Open(g, o)
		if err != nil {
			return badInput(err)
		}
		f, note, err := r.Figure()
		if err != nil {
			f, note = nil, "no picture: "+err.Error()
		}
		var text bytes.Buffer
		r.Write(&text)
		if note != "" {
			fmt.Fprintln(&text, note)
		}
		sections = append(sections, chart.Section{Title: strings.Join(g, ", "), Text: text.String(), Figure: f})
	}
	version, err := versionText()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := chart.WritePage(&page, title, fmt.Sprintf("%s. Written on %s.", version, date.Format(time.DateOnly)), sections); err != nil {
		return err
	}
	return renameio.WriteFile(name, page.Bytes(), 0o666)
}

// readReport reads the report of a run as weft sim --json prints it.
func readReport(name string) (*report.Report, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &report.Report{}
	if err := json.Unmarshal(data, r); err != nil || r.Lab == "" || r.Clock == "" {
		return nil, fmt.Errorf("%s is neither a report (weft sim --json), a series nor records", name)
	}
	return r, nil
}
