package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Error is one fault in a lab file.
type Error struct {
	File    string
	Line    int    // from 1
	Column  int    // in characters, from 1
	Source  string // the whole line
	Message string
	Hint    string // how to correct it; may be empty

	like string   // the format of Message
	same []string // further messages with this format about this place
	also []place  // further places with this message
}

// place is a place in the file, both numbers from 1.
type place struct{ line, column int }

func (p place) comparePlace(o place) int {
	return cmp.Or(cmp.Compare(p.line, o.line), cmp.Compare(p.column, o.column))
}

func (e *Error) place() place { return place{e.Line, e.Column} }

// addPlace adds another place of the same fault. The first in the file becomes
// e's own.
func (e *Error) addPlace(o *Error) {
	here, there := e.place(), o.place()
	if here == there || slices.Contains(e.also, there) {
		return
	}
	if there.comparePlace(here) < 0 {
		e.Line, e.Column, e.Source = o.Line, o.Column, o.Source
		there = here
	}
	e.also = append(e.also, there)
}

// Error returns the place and the message, the line with a mark under the
// place, and the hint.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if n := len(e.same); n > 0 {
		fmt.Fprintf(&b, ", and %d more of this kind", n)
	}
	if n := len(e.also); n > 0 {
		slices.SortFunc(e.also, place.comparePlace)
		for i, p := range e.also[:min(n, maxAlso)] {
			fmt.Fprintf(&b, "%s%d:%d", [...]string{"; also at ", ", "}[min(i, 1)], p.line, p.column)
		}
		if n > maxAlso {
			fmt.Fprintf(&b, " and %d more places", n-maxAlso)
		}
	}
	if line, mark := e.excerptLine(); strings.TrimSpace(line) != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", line, mark)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\n  %s", e.Hint)
	}
	return b.String()
}

// maxAlso bounds the places that are listed after the first.
const maxAlso = 5

// excerptWidth is how many characters of a long line are shown before and after
// the place.
const excerptWidth = 60

// excerptLine returns the line without its indentation, cut around the place if it
// is long, and the blanks that put a mark under the place.
func (e *Error) excerptLine() (line, mark string) {
	runes := []rune(e.Source)
	at := min(max(e.Column-1, 0), len(runes))
	from, to := 0, len(runes)
	for from < at && unicode.IsSpace(runes[from]) {
		from++
	}
	var before, after string
	if at-from > excerptWidth {
		from, before = at-excerptWidth, "..."
	}
	if to-at > excerptWidth {
		to, after = at+excerptWidth, "..."
	}
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	line = before + strings.Map(printable, string(runes[from:to])) + after
	return line, strings.Repeat(" ", len(before)+at-from)
}

// Errors is all faults in a lab file, ordered by line. errors.As finds the
// first *Error in it.
type Errors []*Error

// Error returns all of them, each as by Error.Error, one per line.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors for package errors.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}
