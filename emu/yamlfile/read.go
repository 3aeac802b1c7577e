// Package yamlfile reads YAML files into Go values: it keeps the place of each value, so that
// faults are reported at their line with a hint, and many of them at once. It makes the JSON
// Schema of the same types, and patches one file with values of another (graft.go). Lab files
// and experiment files are read with it.
package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on the input, far beyond any lab: they keep a damaged or hostile file from
// exhausting the machine's memory or time.
const (
	maxFile    = 2 << 20 // bytes
	maxNesting = 100     // of lists and mappings
	maxValues  = 500_000 // after following aliases
	maxCost    = 3e8     // of mappings: half the sum of the squares of their numbers of keys
	maxErrors  = 50
	maxFaults  = 1000 // faults with the same cause make one error
)

// Reader converts the text of a file to Go values and collects the faults. Each value is
// registered under a pointer to it, so that a later check can show where the wrong value
// is in the file.
type Reader struct {
	// Special reads types that need special treatment but cannot have a method for it; it
	// reports whether it has read what ptr points to. It may be nil.
	Special func(ptr any, n ast.Node, what string) bool

	file  string
	lines []string
	errs  Errors

	warnings Errors
	faults   int
	found    int              // faults, including those that are not reported again
	places   map[any]ast.Node // by pointer to the Go value
	kept     map[any]any      // likewise, what Special stores with the value
	anchors  map[*ast.AliasNode]ast.Node
	foreign  map[*token.Token]*Reader // tokens of other files
	inlined  map[ast.Node]string      // texts that WriteCanonical writes instead of values
	values   int
	nesting  int
}

func New(file string, src []byte) *Reader {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(src))
	return &Reader{
		file:    file,
		lines:   strings.Split(text, "\n"),
		places:  map[any]ast.Node{},
		kept:    map[any]any{},
		anchors: map[*ast.AliasNode]ast.Node{},
		foreign: map[*token.Token]*Reader{},
		inlined: map[ast.Node]string{},
	}
}

// ReportFault reports a fault of the value that place points to.
func (r *Reader) ReportFault(place any, hint, format string, args ...any) {
	r.FailAt(r.places[place], hint, format, args...)
}

// FailAt reports a fault at a node of the file; nil means the beginning of the file.
func (r *Reader) FailAt(n ast.Node, hint, format string, args ...any) {
	var at *token.Token
	if n != nil {
		at = firstToken(n)
	}
	r.addLike(at, hint, fmt.Sprintf(format, args...), format)
}

// HasEnoughFaults reports whether there are enough faults to stop.
func (r *Reader) HasEnoughFaults() bool { return len(r.errs) >= maxErrors || r.faults >= maxFaults }

func (r *Reader) addFault(at *token.Token, hint, message string) {
	r.addLike(at, hint, message, message)
}

// addLike reports a fault. Faults at one place whose messages have the same format are
// one mistake: a default is checked everywhere that it applies. So are faults with the
// same message at several places, such as a name that is misspelt where it is defined and
// right wherever it is used.
func (r *Reader) addLike(at *token.Token, hint, message, like string) {
	r.found++
	if r.HasEnoughFaults() {
		return
	}
	r.faults++
	r.addTo(&r.errs, at, hint, message, like)
}

// addTo adds a fault or a warning to a list.
func (r *Reader) addTo(list *Errors, at *token.Token, hint, message, like string) {
	e := &Error{Message: message, Hint: hint, like: like}
	e.File, e.Line, e.Column, e.Source = r.placeOf(at)
	for _, o := range *list {
		samePlace := o.File == e.File && o.Line == e.Line && o.Column == e.Column
		switch {
		case samePlace && o.like == like:
			if o.Message != message && !slices.Contains(o.same, message) {
				o.same = append(o.same, message)
			}
			return
		case o.Message == message && o.Hint == hint && o.File == e.File:
			o.addPlace(e)
			return
		}
	}
	*list = append(*list, e)
}

// Warn reports that the value at place is allowed, and probably not what its author wants.
// Warnings are joined like faults. At most maxErrors are kept.
func (r *Reader) Warn(place any, hint, format string, args ...any) {
	if len(r.warnings) >= maxErrors {
		return
	}
	var at *token.Token
	if n := r.places[place]; n != nil {
		at = firstToken(n)
	}
	r.addTo(&r.warnings, at, hint, fmt.Sprintf(format, args...), format)
}

// Warnings returns the warnings so far, in order of their places.
func (r *Reader) Warnings() Errors {
	slices.SortStableFunc(r.warnings, func(a, b *Error) int { return a.place().comparePlace(b.place()) })
	return r.warnings
}

// Err returns the faults found so far, ordered by line, or nil.
func (r *Reader) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.errs
}

// Line returns the line of the value that place points to, for hints.
func (r *Reader) Line(place any) int {
	if n := r.places[place]; n != nil {
		return firstToken(n).Position.Line
	}
	return 1
}

// Parse parses the file's one YAML document. It returns nil if there is a fault.
func (r *Reader) Parse() (doc ast.Node) {
	text := strings.Join(r.lines, "\n")
	if len(text) > maxFile {
		r.addFault(nil, "let a generator make large topologies", fmt.Sprintf("the file is longer than %d MiB", maxFile>>20))
		return nil
	}
	// The parser is third-party code that gets arbitrary input: if it panics, treat that
	// as another way in which the file is not YAML.
	defer func() {
		if p := recover(); p != nil {
			doc = nil
			r.addFault(nil, "", fmt.Sprintf("this is not YAML: %v", p))
		}
	}()
	tokens := lexer.Tokenize(text)
	if t, message := tooMuch(tokens); t != nil {
		r.addFault(t, "", message)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var bad *yaml.SyntaxError
	switch {
	case errors.As(err, &bad) && bad.Token != nil:
		hint := ""
		if line := bad.Token.Position.Line; line <= len(r.lines) {
			hint = syntaxHint(r.lines[line-1])
		}
		r.addFault(bad.Token, hint, "this is not YAML: "+bad.Message)
		return nil
	case err != nil:
		r.addFault(nil, "", "this is not YAML: "+err.Error())
		return nil
	}
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.DirectiveType {
			continue
		}
		if doc != nil {
			r.FailAt(d.Body, "write one file for each lab", "a second document begins here")
			return nil
		}
		doc = d.Body
	}
	if doc == nil {
		r.addFault(nil, "write at least topology: with nodes:", "the file is empty")
		return nil
	}
	ast.Walk(&anchorFinder{reader: r, named: map[string]ast.Node{}}, doc)
	return doc
}

var colonKey = regexp.MustCompile(`[{,] *([a-zA-Z0-9_.-]+:[a-zA-Z0-9_.-]+): `)

// syntaxHint returns a hint for a line that the parser does not accept.
func syntaxHint(line string) string {
	if strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
		return "indent with spaces: YAML does not allow tabs"
	}
	if strings.Contains(line, "({") {
		return "put an expression in quotes: 'fct({system: \"a\"}) < 2'"
	}
	if key := colonKey.FindStringSubmatch(line); key != nil {
		return fmt.Sprintf("write a key with a colon in quotes: %q", key[1])
	}
	return ""
}

// tooMuch finds the place where the file exceeds what the parser should be given: it
// recurses into brackets and into list entries on one line, and the time it takes for a
// mapping grows with the square of its keys.
func tooMuch(tokens token.Tokens) (at *token.Token, message string) {
	flow, line, entries, cost := 0, 0, 0, 0
	widths := make([]int, maxNesting+1) // entries of the open brackets
	keys := map[int]int{}               // of the open block mappings, by column
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		column := t.Position.Column
		switch t.Type {
		case token.MappingKeyType:
			return t, "write a key as key: value, without ?"
		case token.SequenceStartType, token.MappingStartType:
			if flow++; flow <= maxNesting {
				widths[flow] = 0
			}
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.CollectEntryType:
			widths[flow]++
			cost += widths[flow]
		case token.SequenceEntryType, token.AnchorType, token.TagType:
			entries++
		case token.MappingValueType:
			if flow == 0 && t.Prev != nil {
				column = t.Prev.Position.Column
				keys[column]++
				cost += keys[column]
			}
		}
		if flow == 0 {
			maps.DeleteFunc(keys, func(c, _ int) bool { return c > column })
		}
		if flow > maxNesting || entries > maxNesting || len(keys) > maxNesting {
			return t, fmt.Sprintf("lists and mappings are nested more than %d deep", maxNesting)
		}
		if cost > maxCost {
			return t, "the file has too many keys: let a generator make large topologies"
		}
	}
	return nil, ""
}

// anchorFinder records for each alias the value of the preceding anchor.
type anchorFinder struct {
	reader *Reader
	named  map[string]ast.Node
}

// Visit implements ast.Visitor.
func (f *anchorFinder) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		f.named[n.Name.GetToken().Value] = n.Value
	case *ast.AliasNode:
		f.reader.anchors[n] = f.named[n.Value.GetToken().Value]
	}
	return f
}

// firstToken returns the first token of a node. The parser places a block mapping at its first
// colon.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return firstToken(n.Values[0])
		}
	case *ast.MappingValueNode:
		return firstToken(n.Key)
	}
	return n.GetToken()
}

// FirstSet returns the first of several pointers whose value is in the file.
func (r *Reader) FirstSet(places ...any) any {
	for _, p := range places {
		if r.places[p] != nil {
			return p
		}
	}
	return nil
}

// FailOnce is ReportFault for a setting that is wrong in many places that use it: only the first
// is reported.
func (r *Reader) FailOnce(place any, hint, format string, args ...any) {
	if n := r.places[place]; n != nil {
		file, line, column, _ := r.placeOf(firstToken(n))
		for _, e := range r.errs {
			if e.File == file && e.Line == line && e.Column == column {
				r.found++
				return
			}
		}
	}
	r.ReportFault(place, hint, format, args...)
}

// Faults returns the number of faults so far, including those that were not reported
// because they are the same mistake as others.
func (r *Reader) Faults() int { return r.found }

// PlaceText returns the place of a value as FILE:LINE:COLUMN, for warnings.
func (r *Reader) PlaceText(place any) string {
	var at *token.Token
	if n := r.places[place]; n != nil {
		at = firstToken(n)
	}
	file, line, column, _ := r.placeOf(at)
	return fmt.Sprintf("%s:%d:%d", file, line, column)
}

// Place returns where a value is in the file, by a pointer to it; nil if it is not in the
// file.
func (r *Reader) Place(ptr any) ast.Node { return r.places[ptr] }

// SetPlace sets where a value is in the file.
func (r *Reader) SetPlace(ptr any, n ast.Node) { r.places[ptr] = n }

// FileOf returns the name of the file that contains the value that place points to: a
// patch's file, or the file itself.
func (r *Reader) FileOf(place any) string {
	if n := r.places[place]; n != nil {
		file, _, _, _ := r.placeOf(firstToken(n))
		return file
	}
	return r.file
}

// InlineText makes WriteCanonical write a text instead of the value that place points to, such as
// the contents of a file that the value names.
func (r *Reader) InlineText(place any, text string) { r.inlined[r.places[place]] = text }

// TooLong reports whether a text is longer than Parse accepts.
func TooLong(text string) bool { return len(text) > maxFile }

// File returns the name of the file, as given.
func (r *Reader) File() string { return r.file }

// StoreWith stores something with a value, for a Special that reads more than the value holds.
func (r *Reader) StoreWith(ptr, what any) { r.kept[ptr] = what }

// StoredWith returns what is stored with a value, or nil.
func (r *Reader) StoredWith(ptr any) any { return r.kept[ptr] }
