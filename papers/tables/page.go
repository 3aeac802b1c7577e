package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weftlab/weft/experiment"
)

const (
	opening = "<!-- table "
	closing = "<!-- end of table -->"
)

// renderPage returns a page with its tables written from the results beside it.
func renderPage(page string, text []byte) ([]byte, error) {
	reports := map[string]*experiment.Report{}
	var out strings.Builder
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i])
		names, ok := strings.CutPrefix(lines[i], opening)
		if !ok {
			continue
		}
		place := func(k int) string { return fmt.Sprintf("%s:%d", page, k+1) }
		t := &tableContext{}
		for _, name := range strings.Fields(names) {
			r, err := readReport(reports, page, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place(i), err)
			}
			t.names, t.reports = append(t.names, name), append(t.reports, r)
		}
		var rows []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "-->"; i++ {
			out.WriteString(lines[i])
			row, err := t.renderRow(lines[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place(i), err)
			}
			rows = append(rows, row)
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s: the comment with the table does not end: write --> on its own line", place(i-1))
		}
		out.WriteString(lines[i] + strings.Join(rows, ""))
		begin := i
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != closing; i++ {
			if line := strings.TrimSpace(lines[i]); line != "" && line[0] != '|' {
				break
			}
		}
		if i == len(lines) || strings.TrimSpace(lines[i]) != closing {
			return nil, fmt.Errorf("%s: the table does not end: write %s below it", place(begin), closing)
		}
		out.WriteString(lines[i])
	}
	return []byte(out.String()), nil
}

// readReport reads a result beside a page, once.
func readReport(known map[string]*experiment.Report, page, name string) (*experiment.Report, error) {
	if r := known[name]; r != nil {
		return r, nil
	}
	file := filepath.Join(filepath.Dir(page), "results", name, "result.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := experiment.ReadReport(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	known[name] = r
	return r, nil
}

var (
	braces = regexp.MustCompile(`\{[^{}]*\}`)
	words  = regexp.MustCompile(`("[^"]*"|[^\s"])+`)
)

// splitWords splits what is between braces at blanks outside of quotes, and removes the quotes.
func splitWords(text string) []string {
	found := words.FindAllString(text, -1)
	for i, w := range found {
		found[i] = strings.ReplaceAll(w, `"`, "")
	}
	return found
}

// renderRow replaces the values of a row.
func (t *tableContext) renderRow(row string) (string, error) {
	var failure error
	out := braces.ReplaceAllStringFunc(row, func(cell string) string {
		text, err := t.renderValue(splitWords(strings.Trim(cell, "{}")))
		if err != nil && failure == nil {
			failure = fmt.Errorf("%s: %w", cell, err)
		}
		return text
	})
	return out, failure
}
