// Tables writes the tables of papers/*/*.md from the results beside them.
//
//	go run ./papers/tables            # rewrites all
//	go run ./papers/tables --check    # only says what differs; the exit code is 1 if anything does
//
// A table that comes from results stands between two comments. The first names the results,
// which are in results/NAME/result.json beside the page, and has the table as it is to be
// written, with values in braces:
//
//	<!-- table fig14
//	| | slowest flow | Jain's index | paper |
//	| --- | --- | --- | --- |
//	| 1 packet of buffer | {least buffer_1 %.1fM} Mb/s | {jain buffer_1 %.2f} | "many flows starved" |
//	-->
//	| what is written |
//	<!-- end of table -->
//
// A value is a measure, a level of each factor that has several, and a bin if the measure has
// bins, in any order; FACTOR=LEVEL where two factors have a level of that name, and in quotes
// if there are blanks in it. It ends with a format:
//
//	%.2fM    in millions, with the verb of package fmt; also k, G, m, u, n and %, a hundredth
//	%,d      a whole number with commas
//	±.1fu    the value, ±, and half of the 95% interval
//
// Before the measure may stand paper, for the paper's value, lowest, middle or highest, for one
// among the seeds, and NAME: for one of several results. "A / B", "A - B" and "A + B" combine two
// values, of which one may be a number; max and min before them take the largest or the smallest
// over all bins that both have.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "change nothing, and fail if a table differs")
	flag.Parse()
	pages, err := filepath.Glob("papers/*/*.md")
	if err != nil || len(pages) == 0 {
		fmt.Fprintln(os.Stderr, "there are no papers/*/*.md: run this in the root of the module")
		os.Exit(2)
	}
	failed := false
	for _, page := range pages {
		if err := writePage(page, *check); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// writePage writes the tables of a page, or with check returns an error if one differs.
func writePage(page string, check bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	next, err := renderPage(page, text)
	switch {
	case err != nil:
		return err
	case bytes.Equal(text, next):
		return nil
	case check:
		return fmt.Errorf("%s: a table is not as its results have it: run go run ./papers/tables\n%s", page, firstDifference(text, next))
	}
	return os.WriteFile(page, next, 0o666)
}

// firstDifference returns the first line that differs, in both forms.
func firstDifference(a, b []byte) string {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return fmt.Sprintf("\tline %d\n\tpage    %s\n\tresults %s", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("\tthe page has %d lines, and should have %d", len(x), len(y))
}
