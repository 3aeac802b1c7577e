package spec

import (
	"encoding"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/protocols/cc"
)

// The YAML package's own decoder stops at the first fault and forgets where a
// value stood. This one reads the syntax tree into the types of file.go,
// goes on after a fault, keeps the order of mappings, and remembers places.
//
// A type is read by its own decode method if it has one, otherwise from text
// if it is an encoding.TextUnmarshaler, otherwise by its kind: struct,
// pointer, slice, string, bool or integer. Structs name their keys in yaml
// tags; a key without omitempty must be there.

// decoder is a type that reads itself from the syntax tree. What names the
// value in messages.
type decoder interface {
	decode(r *reader, n ast.Node, what string)
}

// noun is a struct with a name of its own for messages, such as "a link".
// Others go by the key that they stand behind.
type noun interface{ noun() string }

// choice is a struct of pointers of which a file sets exactly one: see oneKey.
type choice interface{ choice() }

// mover is a struct that helps with keys which stand elsewhere: it says where.
type mover interface{ moved() map[string]string }

// field is a key of a struct.
type field struct {
	name     string
	index    []int
	required bool
}

// fieldsOf gives the keys of a struct, with those of inlined structs.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name != "" {
			fields = append(fields, field{name, f.Index, !strings.Contains(options, "omitempty")})
		}
	}
	return fields
}

func keysOf(t reflect.Type) []string {
	var names []string
	for _, f := range fieldsOf(t) {
		names = append(names, f.name)
	}
	return names
}

// resolve follows anchors, aliases and tags to the value itself.
func (r *reader) resolve(n ast.Node) ast.Node {
	for range maxNesting {
		switch at := n.(type) {
		case *ast.AnchorNode:
			n = at.Value
		case *ast.TagNode:
			n = at.Value
		case *ast.AliasNode:
			if n = r.anchors[at]; n == nil {
				r.failAt(at, "", "there is no anchor &%s before this", at.Value.GetToken().Value)
				return nil
			}
		default:
			return unsplit(n)
		}
	}
	r.failAt(n, "", "this alias leads to itself")
	return nil
}

// unsplit repairs what the parser does inside braces: it takes h1:eth0 for a
// mapping, though a colon that no blank follows is part of the text (YAML
// 1.2.2 §7.3.3).
func unsplit(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	colon, key, value := m.Values[0].Start, m.Values[0].Key.GetToken(), m.Values[0].Value
	after := start(value)
	if key.Type != token.StringType || !touches(key, colon) || !touches(colon, after) ||
		after.Type == token.SingleQuoteType || after.Type == token.DoubleQuoteType {
		return n
	}
	text, ok := scalarText(unsplit(value))
	if !ok {
		return n
	}
	whole := *key
	whole.Value += ":" + text
	return ast.String(&whole)
}

// touches tells whether b begins where a ends.
func touches(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

// read fills the value that ptr points to from n. What names it in messages.
func (r *reader) read(ptr any, n ast.Node, what string) {
	if n = r.resolve(n); n == nil {
		return
	}
	r.values++
	r.nesting++
	defer func() { r.nesting-- }()
	if r.values > maxValues || r.nesting > maxNesting {
		r.failAt(n, "", "the file has more than %d values, or aliases that lead to themselves", maxValues)
		return
	}
	r.places[ptr] = n

	switch p := ptr.(type) {
	case decoder:
		p.decode(r, n, what)
		return
	case *cc.Choice:
		r.readControl(p, n, what)
		return
	case encoding.TextUnmarshaler:
		r.readText(ptr, n, what)
		return
	}
	switch v := reflect.ValueOf(ptr).Elem(); v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.read(v.Interface(), n, what)
	case reflect.Struct:
		r.readStruct(v, n, what)
	case reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			if n.Type() != ast.NullType {
				r.wrong(n, what, "a list", "")
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
		for i, e := range list.Values {
			r.read(v.Index(i).Addr().Interface(), e, "an entry of "+what)
		}
	default:
		r.readText(ptr, n, what)
	}
}

// readText fills the value that ptr points to from a scalar.
func (r *reader) readText(ptr any, n ast.Node, what string) {
	text, ok := scalarText(n)
	if !ok {
		r.wrong(n, what, "a single value", "")
		return
	}
	if _, isString := ptr.(*string); isString && n.Type() != ast.StringType && n.Type() != ast.LiteralType {
		r.failAt(n, "put it in quotes: "+strconv.Quote(text), "%s must be text, not %s", what, describe(n))
		return
	}
	err := parseScalar(ptr, text)
	var named *plan.NameError
	switch {
	case errors.As(err, &named):
		r.failAt(n, named.Hint, "%s: %s", what, named.Msg)
	case err != nil:
		r.failAt(n, "", "%s: %v", what, err)
	}
}

// readStruct fills a struct from a mapping.
func (r *reader) readStruct(v reflect.Value, n ast.Node, what string) {
	r.readFields(v, n, what, nil)
}

// readFields fills a struct from a mapping, and what extra points to from further keys
// of it.
func (r *reader) readFields(v reflect.Value, n ast.Node, what string, extra map[string]any) {
	before := len(r.errs)
	if named, ok := v.Interface().(noun); ok {
		what = named.noun()
	}
	fields, names := fieldsOf(v.Type()), keysOf(v.Type())
	for key := range extra {
		names = append(names, key)
	}
	entries, ok := r.entries(n)
	if !ok {
		r.wrong(n, what, "a mapping (key: value)", what+" has "+strings.Join(names, ", "))
		return
	}
	for _, e := range entries {
		if ptr := extra[e.key]; ptr != nil {
			r.read(ptr, e.value, e.key)
			continue
		}
		i := slices.Index(names, e.key)
		if i < 0 {
			if m, ok := v.Interface().(mover); ok && m.moved()[e.key] != "" {
				r.failAt(e.at, m.moved()[e.key], "unknown key %q", e.key)
				continue
			}
			r.failAt(e.at, suggest.Hint(e.key, what+" has", names), "unknown key %q", e.key)
			// What was meant by it is not missing besides.
			if near, ok := suggest.Nearest(e.key, names); ok {
				fields[slices.Index(names, near)].required = false
			}
			continue
		}
		fields[i].required = false
		r.read(v.FieldByIndex(fields[i].index).Addr().Interface(), e.value, e.key)
	}
	var missing []string
	for _, f := range fields {
		if f.required {
			missing = append(missing, f.name)
		}
	}
	if len(missing) > 0 {
		r.failAt(n, what+" has "+strings.Join(names, ", "), "%s lacks %s", what, strings.Join(missing, ", "))
	}
	if _, ok := v.Interface().(choice); ok && len(entries) != 1 && len(r.errs) == before {
		r.failAt(n, "write one of "+strings.Join(names, ", "), "%s has %d keys, not one", what, len(entries))
	}
}

// keyValue is one entry of a mapping.
type keyValue struct {
	key   string
	at    ast.Node // the key
	value ast.Node
}

// entries gives the entries of a mapping in their order; an absent value
// counts as an empty mapping. Those that a merge key (<<) brings in come
// last, without what the mapping says itself.
func (r *reader) entries(n ast.Node) (entries []keyValue, ok bool) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return nil, true
	default:
		return nil, false
	}
	seen := map[string]ast.Node{}
	var merged []ast.Node
	for _, p := range pairs {
		if p.Key.IsMergeKey() {
			merged = append(merged, p.Value)
			continue
		}
		key, ok := scalarText(r.resolve(p.Key))
		if !ok {
			r.failAt(p.Key, "", "a key is a single word")
			continue
		}
		if first := seen[key]; first != nil {
			r.failAt(p.Key, "it is there on line "+strconv.Itoa(start(first).Position.Line)+" already", "the key %q is there twice", key)
			continue
		}
		seen[key] = p.Key
		entries = append(entries, keyValue{key, p.Key, p.Value})
	}
	for _, m := range merged {
		entries = r.merge(entries, seen, m)
	}
	return entries, true
}

// merge adds the entries of the mapping, or the list of mappings, that a
// merge key names.
func (r *reader) merge(entries []keyValue, seen map[string]ast.Node, n ast.Node) []keyValue {
	r.nesting++
	defer func() { r.nesting-- }()
	r.values++
	n = r.resolve(n)
	if n == nil || r.values > maxValues || r.nesting > maxNesting {
		return entries
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, m := range list.Values {
			entries = r.merge(entries, seen, m)
		}
		return entries
	}
	more, ok := r.entries(n)
	if !ok {
		r.wrong(n, "<<", "a mapping, or a list of them", "")
	}
	for _, e := range more {
		if seen[e.key] == nil {
			seen[e.key] = e.at
			entries = append(entries, e)
		}
	}
	return entries
}

// wrong reports a value of the wrong kind.
func (r *reader) wrong(n ast.Node, what, want, hint string) {
	r.failAt(n, hint, "%s must be %s, not %s", what, want, describe(n))
}

// describe names the kind of a value.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "nothing"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.BoolType:
		return "true or false"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	}
	return "text"
}

// scalarText gives a single value as it is written.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// entry is one entry of a dict.
type entry[T any] struct {
	Name  string
	Value T
}

// dict is a mapping with names of the user's choice, in the order of the
// file.
type dict[T any] []entry[T]

func (d *dict[T]) decode(r *reader, n ast.Node, what string) {
	entries, ok := r.entries(n)
	if !ok {
		r.wrong(n, what, "a mapping (name: value)", "")
		return
	}
	*d = make(dict[T], len(entries)) // of the final size: places are pointers into it
	for i, e := range entries {
		at := &(*d)[i]
		at.Name = e.key
		r.places[&at.Name] = e.at
		r.read(&at.Value, e.value, e.key)
	}
}

// oneOrMore is a list for which a single value may stand.
type oneOrMore[T any] []T

func (l *oneOrMore[T]) decode(r *reader, n ast.Node, what string) {
	if _, ok := n.(*ast.SequenceNode); ok {
		r.read((*[]T)(l), n, what)
		return
	}
	*l = make(oneOrMore[T], 1)
	r.read(&(*l)[0], n, what)
}

// scalar is a single value of any kind, as it is written.
type scalar string

func (s *scalar) decode(r *reader, n ast.Node, what string) {
	text, ok := scalarText(n)
	if !ok {
		r.wrong(n, what, "a single value", "")
	}
	*s = scalar(text)
}
