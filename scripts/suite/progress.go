package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
)

// Intervals between lines of progress: on a terminal one line is written over and over.
const (
	terminalInterval = time.Second
	fileInterval     = 30 * time.Second
)

// maxShown is how many running tests a line of progress names.
const maxShown = 4

// showProgress writes a line of progress now and then until the context ends.
func (s *suite) showProgress(ctx context.Context, w *os.File) {
	interval, before, after := fileInterval, "", "\n"
	if term.IsTerminal(w.Fd()) {
		interval, before, after = terminalInterval, eraseLine, ""
		defer fmt.Fprint(w, eraseLine)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.mu.Lock()
			line := s.progressLine(now)
			s.mu.Unlock()
			if width, _, err := term.GetSize(w.Fd()); err == nil && before != "" {
				line = cutLine(line, width-1)
			}
			fmt.Fprint(w, before, line, after)
		}
	}
}

// eraseLine goes to the beginning of a terminal's line and erases it.
const eraseLine = "\r\x1b[K"

// printLine prints a line between those of progress.
func (s *suite) printLine(format string, args ...any) {
	fmt.Printf(eraseIfTerminal()+format+"\n", args...)
}

func eraseIfTerminal() string {
	if term.IsTerminal(os.Stdout.Fd()) {
		return eraseLine
	}
	return ""
}

// progressLine is a line that says how much is done, what runs, and for how long it has run.
func (s *suite) progressLine(now time.Time) string {
	var b strings.Builder
	var pass, fail, skip int
	var runs []string
	for _, st := range s.order {
		o := s.stages[st]
		pass, fail, skip = pass+o.passed, fail+o.failed, skip+o.skipped
		if o.verdict == running {
			runs = append(runs, st.name+o.runningTests(now))
		}
	}
	fmt.Fprintf(&b, "[%s] %d passed, %d failed, %d skipped", formatClock(now.Sub(s.start)), pass, fail, skip)
	for _, r := range runs {
		b.WriteString("; " + r)
	}
	return b.String()
}

// runningTests names the tests of a stage that have run longest.
func (o *outcome) runningTests(now time.Time) string {
	type one struct {
		name  string
		since time.Duration
	}
	var all []one
	for id, t := range o.tests {
		if id.test != "" && !strings.Contains(id.test, "/") && t.verdict == running && !t.began.IsZero() {
			all = append(all, one{id.String(), now.Sub(t.began)})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return int(b.since - a.since) })
	if len(all) == 0 {
		return ""
	}
	var shown []string
	for _, x := range all[:min(len(all), maxShown)] {
		shown = append(shown, fmt.Sprintf("%s (%s)", x.name, formatClock(x.since)))
	}
	if more := len(all) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return ": " + strings.Join(shown, ", ")
}

// formatClock formats a duration as minutes and seconds.
func formatClock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// cutLine shortens a line of progress to a width.
func cutLine(line string, width int) string {
	if r := []rune(line); len(r) > width && width > 0 {
		return string(r[:width-1]) + "…"
	}
	return line
}

// maxFailureLines and maxFailureWidth bound what is printed of a failure.
const (
	maxFailureLines = 400
	maxFailureWidth = 500
)

// printEnd prints the last lines.
func printEnd(w io.Writer, all []string, maxPackages int) {
	if len(all) > maxPackages {
		fmt.Fprintf(w, "... %d lines before\n", len(all)-maxPackages)
		all = all[len(all)-maxPackages:]
	}
	for _, l := range all {
		fmt.Fprintln(w, cutLine(l, maxFailureWidth))
	}
}
