package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPages_HaveTheValuesOfTheirResults: each table between markers is what its results say.
func TestPages_HaveTheValuesOfTheirResults(t *testing.T) {
	pages, err := filepath.Glob("../*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("there are no pages", err)
	}
	for _, page := range pages {
		if err := writePage(page, true); err != nil {
			t.Error(err)
		}
	}
}

// TestResults_AreInATable: each result that is committed is in a table of a page beside it.
func TestResults_AreInATable(t *testing.T) {
	results, err := filepath.Glob("../*/results/*/result.json")
	if err != nil || len(results) == 0 {
		t.Fatal("there are no results", err)
	}
	for _, result := range results {
		name, named := filepath.Base(filepath.Dir(result)), false
		pages, _ := filepath.Glob(filepath.Join(filepath.Dir(result), "../../*.md"))
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				names, ok := strings.CutPrefix(line, opening)
				named = named || ok && slices.Contains(strings.Fields(names), name)
			}
		}
		if !named {
			t.Errorf("%s: no page beside it has a table of %s", result, name)
		}
	}
}

const result = `{"name": "x", "cells": [], "factors": [{"name": "system", "levels": ["a", "b", "c d"]}, {"name": "n", "levels": ["1", "2"]}, {"name": "m", "levels": ["1", "2"]}],
"summaries": [
	{"measure": "rate", "levels": ["a", "1", "2"], "value": 2500000, "low95": 2400000, "high95": 2600000, "paper": {"value": 3000000}},
	{"measure": "rate", "levels": ["b", "1", "2"], "value": 1000000, "low95": null, "high95": null},
	{"measure": "fct", "bin": "0B..1KB", "levels": ["a", "1", "2"], "value": 0.002, "low95": 0.001, "high95": 0.003},
	{"measure": "fct", "bin": ">=1KB", "levels": ["a", "1", "2"], "value": null, "low95": null, "high95": null},
	{"measure": "fct", "bin": "0B..1KB", "levels": ["b", "1", "2"], "value": 0.004, "low95": 0.001, "high95": 0.003},
	{"measure": "fct", "bin": ">=1KB", "levels": ["b", "1", "2"], "value": 1, "low95": 1, "high95": 1},
	{"measure": "rate", "levels": ["c d", "1", "2"], "value": 7, "values": [9, 4, 8], "low95": null, "high95": null},
	{"measure": "sent", "levels": ["a", "2", "2"], "value": 1234567.4, "low95": null, "high95": null}
]}`

// TestValues covers what a table can say of a result.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "README.md")
	if err := os.MkdirAll(filepath.Join(dir, "results", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "results", "x", "result.json"), []byte(result), 0o666); err != nil {
		t.Fatal(err)
	}
	for cell, want := range map[string]string{
		"{rate a n=1 m=2 %.1fM} Mb/s":                        "2.5 Mb/s",
		"{rate m=2 n=1 a ±.1fM}":                             "2.5 ± 0.1",
		"{rate b n=1 m=2 ±.1fM}":                             "1.0",
		"{paper rate a n=1 m=2 %.0fM}":                       "3",
		"{rate a n=1 m=2 / paper rate a n=1 m=2 %.0f%}%":     "83%",
		"{x:rate a n=1 m=2 - rate b n=1 m=2 %.2fM}":          "1.50",
		"{fct a n=1 m=2 0B..1KB %.0fm} ms":                   "2 ms",
		"{fct a n=1 m=2 >=1KB %.0fm}":                        "–",
		"{max fct b n=1 m=2 %.0f}":                           "1",
		"{min fct a n=1 m=2 / fct b n=1 m=2 %.2f}":           "0.50",
		"{fct b n=1 m=2 0B..1KB / fct a n=1 m=2 0B..1KB %g}": "2",
		`{rate "c d" n=1 m=2 %.0f}`:                          "7",
		`{rate system="c d" n=1 m=2 %.0f}`:                   "7",
		`{lowest rate "c d" n=1 m=2 %.0f}, {middle rate "c d" n=1 m=2 %.0f}, {highest rate "c d" n=1 m=2 %.0f}`: "4, 8, 9",
		"{rate a n=1 m=2 / 2e6 %.2f}":  "1.25",
		"{max fct b n=1 m=2 / 2 %.1f}": "0.5",
		"{sent a n=2 m=2 %,d}":         "1,234,567",
		"{rate c n=1 m=2 %f}":          "README.md:2: {rate c n=1 m=2 %f}: \"c\" is neither a level of a factor nor a bin",
		"{rate a 1 2 %f}":              "\"1\" is a level of several factors: write FACTOR=1",
		"{rate a n=1 %f}":              "a level of m is missing: 1, 2",
		"{fct a n=1 m=2 %f}":           "",
		"{fct b n=1 m=2 %f}":           "a bin is missing",
		"{rate a n=2 m=2 %f}":          "the result has no such value",
		"{paper rate b n=1 m=2 %f}":    "the result has no value of the paper for it",
		"{loss a %f}":                  "no result of x has the measure loss",
		"{rate a n=1 m=2 2}":           "\"2\" is not a format, such as %.1fM or ±.2f",
		"{rate a n=1 m=2 %d}":          "\"%d\" is not a format, such as %.1fM or ±.2f",
		"{rate}":                       "write a measure, its levels and a format",
	} {
		text := "<!-- table x\n| " + cell + " |\n-->\n| old |\n<!-- end of table -->\nmore\n"
		out, err := renderPage(page, []byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, expected %s", cell, err, want)
			}
			continue
		}
		if got := strings.Split(string(out), "\n")[3]; want != "" && got != "| "+want+" |" {
			t.Errorf("%s: %s, expected %s", cell, got, want)
		}
		if again, err := renderPage(page, out); err != nil || string(again) != string(out) {
			t.Errorf("%s: a second time: %s, %v", cell, again, err)
		}
	}
	for text, want := range map[string]string{
		"<!-- table y\n-->\n<!-- end of table -->\n":          "no such file",
		"<!-- table x\n| a |\n":                               "the comment with the table does not end",
		"<!-- table x\n| a |\n-->\n| a |\nmore\n":             "the table does not end",
		"<!-- table x\n| a |\n-->\n| a |\n":                   "the table does not end",
		"<!-- table x\n| a |\n-->\n<!-- end of table -->\n":   "",
		"<!-- table x\n-->\n\n| b |\n<!-- end of table -->\n": "",
	} {
		if _, err := renderPage(page, []byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

// TestWritePage_WritesOrComplains: without check the page is written, with it an error has the line.
func TestWritePage_WritesOrComplains(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "README.md")
	if err := os.MkdirAll(filepath.Join(dir, "results", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "results", "x", "result.json"): result,
		page: "<!-- table x\n| {rate a n=1 m=2 %.1fM} |\n-->\n| 2.4 |\n<!-- end of table -->\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	err := writePage(page, true)
	if err == nil || !strings.Contains(err.Error(), "line 4\n\tpage    | 2.4 |\n\tresults | 2.5 |") {
		t.Errorf("%v", err)
	}
	if err := writePage(page, false); err != nil {
		t.Error(err)
	}
	if err := writePage(page, true); err != nil {
		t.Error(err)
	}
}
