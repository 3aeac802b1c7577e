package yamlfile

import (
	"encoding"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weftlab/weft/emu/suggest"
)

// The YAML package's own Decoder stops at the first fault and does not keep the
// places of values. This one reads the syntax tree into Go types, continues after a
// fault, keeps the order of mappings, and remembers places.
//
// A type is read by its own DecodeNode method if it has one, otherwise from text if it is
// an encoding.TextUnmarshaler, otherwise by its kind: struct, pointer, slice, string,
// bool or integer. Structs name their keys in yaml tags; a key without omitempty is
// required.

// Decoder is a type that decodes itself from the syntax tree. What names the value in
// messages.
type Decoder interface {
	DecodeNode(r *Reader, n ast.Node, what string)
}

// noun is a struct with its own name for messages, such as "a link". Others are
// called by their key.
type noun interface{ Noun() string }

// choice is a struct of pointers of which a file sets exactly one: see OneKey.
type choice interface{ Choice() }

// mover is a struct with hints for keys that belong elsewhere.
type mover interface{ MovedKeys() map[string]string }

// Field is a key of a struct.
type Field struct {
	Name     string
	Index    []int
	Required bool
}

// keys holds the keys of a struct, and their names.
type keys struct {
	fields []Field
	names  []string
}

// keysOf caches the keys of structs: a file has thousands of the same type, and
// reflection is the greatest cost of reading one.
var keysOf sync.Map // by reflect.Type

// FieldsOf returns the keys of a struct, with those of inlined structs. Callers must
// not modify the result.
func FieldsOf(t reflect.Type) []Field { return findKeys(t).fields }

func findKeys(t reflect.Type) *keys {
	if k, ok := keysOf.Load(t); ok {
		return k.(*keys)
	}
	k := &keys{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name != "" {
			k.fields = append(k.fields, Field{name, f.Index, !strings.Contains(options, "omitempty")})
			k.names = append(k.names, name)
		}
	}
	k.names = slices.Clip(k.names)
	keysOf.Store(t, k)
	return k
}

// ResolveNode follows anchors, aliases and tags to the value itself.
func (r *Reader) ResolveNode(n ast.Node) ast.Node {
	for range maxNesting {
		switch at := n.(type) {
		case *ast.AnchorNode:
			n = at.Value
		case *ast.TagNode:
			n = at.Value
		case *ast.AliasNode:
			if n = r.anchors[at]; n == nil {
				r.FailAt(at, "", "there is no anchor &%s before this", at.Value.GetToken().Value)
				return nil
			}
		default:
			return joinSplitKey(n)
		}
	}
	r.FailAt(n, "", "this alias refers to itself")
	return nil
}

// joinSplitKey corrects a mistake of the parser inside braces: it takes h1:eth0 for a
// mapping, though a colon without a following blank is part of the text (YAML 1.2.2
// §7.3.3).
func joinSplitKey(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	colon, key, value := m.Values[0].Start, m.Values[0].Key.GetToken(), m.Values[0].Value
	after := firstToken(value)
	if key.Type != token.StringType || !isAdjacent(key, colon) || !isAdjacent(colon, after) ||
		after.Type == token.SingleQuoteType || after.Type == token.DoubleQuoteType {
		return n
	}
	text, ok := ScalarText(joinSplitKey(value))
	if !ok {
		return n
	}
	whole := *key
	whole.Value += ":" + text
	return ast.String(&whole)
}

// isAdjacent reports whether b begins where a ends.
func isAdjacent(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

// Read fills the value that ptr points to from n. What names it in messages.
func (r *Reader) Read(ptr any, n ast.Node, what string) {
	if n = r.ResolveNode(n); n == nil {
		return
	}
	r.values++
	r.nesting++
	defer func() { r.nesting-- }()
	if r.values > maxValues || r.nesting > maxNesting {
		r.FailAt(n, "", "the file has more than %d values, or aliases that refer to themselves", maxValues)
		return
	}
	r.places[ptr] = n

	if r.Special != nil && r.Special(ptr, n, what) {
		return
	}
	switch p := ptr.(type) {
	case Decoder:
		p.DecodeNode(r, n, what)
		return
	case encoding.TextUnmarshaler:
		r.readText(ptr, n, what)
		return
	}
	switch v := reflect.ValueOf(ptr).Elem(); v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.Read(v.Interface(), n, what)
	case reflect.Struct:
		r.readStruct(v, n, what)
	case reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			if n.Type() != ast.NullType {
				r.ReportKind(n, what, "a list", "")
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
		for i, e := range list.Values {
			r.Read(v.Index(i).Addr().Interface(), e, "an entry of "+what)
		}
	default:
		r.readText(ptr, n, what)
	}
}

// readText fills the value that ptr points to from a scalar.
func (r *Reader) readText(ptr any, n ast.Node, what string) {
	text, ok := ScalarText(n)
	if !ok {
		r.ReportKind(n, what, "a single value", "")
		return
	}
	if _, isString := ptr.(*string); isString && n.Type() != ast.StringType && n.Type() != ast.LiteralType {
		r.FailAt(n, "put it in quotes: "+strconv.Quote(text), "%s must be text, not %s", what, kindName(n))
		return
	}
	err := ParseScalar(ptr, text)
	var named *HintError
	switch {
	case errors.As(err, &named):
		r.FailAt(n, named.Hint, "%s: %s", what, named.Msg)
	case err != nil:
		r.FailAt(n, "", "%s: %v", what, err)
	}
}

// readStruct fills a struct from a mapping.
func (r *Reader) readStruct(v reflect.Value, n ast.Node, what string) {
	r.ReadFields(v, n, what, nil)
}

// ReadFields fills a struct from a mapping. Extra holds pointers to fill from further
// keys of the mapping.
func (r *Reader) ReadFields(v reflect.Value, n ast.Node, what string, extra map[string]any) {
	before := len(r.errs)
	if named, ok := v.Interface().(noun); ok {
		what = named.Noun()
	}
	keys := findKeys(v.Type())
	fields, names := keys.fields, keys.names // names is clipped
	for key := range extra {
		names = append(names, key)
	}
	entries, ok := r.Entries(n)
	if !ok {
		r.ReportKind(n, what, "a mapping (key: value)", what+" has "+strings.Join(names, ", "))
		return
	}
	given := make([]bool, len(names))
	for _, e := range entries {
		if ptr := extra[e.Key]; ptr != nil {
			r.Read(ptr, e.Value, e.Key)
			continue
		}
		i := slices.Index(names, e.Key)
		if i < 0 {
			if m, ok := v.Interface().(mover); ok && m.MovedKeys()[e.Key] != "" {
				r.FailAt(e.At, m.MovedKeys()[e.Key], "unknown key %q", e.Key)
				continue
			}
			r.FailAt(e.At, suggest.Hint(e.Key, what+" has", names), "unknown key %q", e.Key)
			// Do not also report the intended key as missing.
			if near, ok := suggest.Nearest(e.Key, names); ok {
				given[slices.Index(names, near)] = true
			}
			continue
		}
		given[i] = true
		r.Read(v.FieldByIndex(fields[i].Index).Addr().Interface(), e.Value, e.Key)
	}
	var missing []string
	for i, f := range fields {
		if f.Required && !given[i] {
			missing = append(missing, f.Name)
		}
	}
	if len(missing) > 0 {
		r.FailAt(n, what+" has "+strings.Join(names, ", "), "%s lacks %s", what, strings.Join(missing, ", "))
	}
	if _, ok := v.Interface().(choice); ok && len(entries) != 1 && len(r.errs) == before {
		r.FailAt(n, "write one of "+strings.Join(names, ", "), "%s must have one key, not %d", what, len(entries))
	}
}

// KeyValue is one entry of a mapping.
type KeyValue struct {
	Key   string
	At    ast.Node // the key
	Value ast.Node
}

// Entries returns the entries of a mapping in order; an absent value counts as an
// empty mapping. Entries from a merge key (<<) come last, without those that the
// mapping overrides.
func (r *Reader) Entries(n ast.Node) (entries []KeyValue, ok bool) {
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
		key, ok := ScalarText(r.ResolveNode(p.Key))
		if !ok {
			r.FailAt(p.Key, "", "a key must be a single word")
			continue
		}
		if first := seen[key]; first != nil {
			r.FailAt(p.Key, "it is already used on line "+strconv.Itoa(firstToken(first).Position.Line), "duplicate key %q", key)
			continue
		}
		seen[key] = p.Key
		entries = append(entries, KeyValue{key, p.Key, p.Value})
	}
	for _, m := range merged {
		entries = r.mergeEntries(entries, seen, m)
	}
	return entries, true
}

// mergeEntries adds the entries of the mapping, or the list of mappings, that a merge key
// refers to.
func (r *Reader) mergeEntries(entries []KeyValue, seen map[string]ast.Node, n ast.Node) []KeyValue {
	r.nesting++
	defer func() { r.nesting-- }()
	r.values++
	n = r.ResolveNode(n)
	if n == nil || r.values > maxValues || r.nesting > maxNesting {
		return entries
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, m := range list.Values {
			entries = r.mergeEntries(entries, seen, m)
		}
		return entries
	}
	more, ok := r.Entries(n)
	if !ok {
		r.ReportKind(n, "<<", "a mapping, or a list of them", "")
	}
	for _, e := range more {
		if seen[e.Key] == nil {
			seen[e.Key] = e.At
			entries = append(entries, e)
		}
	}
	return entries
}

// ReportKind reports a value of the wrong kind.
func (r *Reader) ReportKind(n ast.Node, what, want, hint string) {
	r.FailAt(n, hint, "%s must be %s, not %s", what, want, kindName(n))
}

// kindName names the kind of a value.
func kindName(n ast.Node) string {
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

// ScalarText returns a single value as it is written.
func ScalarText(n ast.Node) (string, bool) {
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

// Entry is one entry of a Dict.
type Entry[T any] struct {
	Name  string
	Value T
}

// Dict is a mapping with names chosen by the user, in the order of the file.
type Dict[T any] []Entry[T]

func (d *Dict[T]) DecodeNode(r *Reader, n ast.Node, what string) {
	entries, ok := r.Entries(n)
	if !ok {
		r.ReportKind(n, what, "a mapping (name: value)", "")
		return
	}
	*d = make(Dict[T], len(entries)) // of the final size, as places are pointers into it
	for i, e := range entries {
		at := &(*d)[i]
		at.Name = e.Key
		r.places[&at.Name] = e.At
		r.Read(&at.Value, e.Value, e.Key)
	}
}

// OneOrMore is a list that may also be written as a single value.
type OneOrMore[T any] []T

func (l *OneOrMore[T]) DecodeNode(r *Reader, n ast.Node, what string) {
	if _, ok := n.(*ast.SequenceNode); ok {
		r.Read((*[]T)(l), n, what)
		return
	}
	*l = make(OneOrMore[T], 1)
	r.Read(&(*l)[0], n, what)
}

// Scalar is a single value of any kind, as it is written.
type Scalar string

func (s *Scalar) DecodeNode(r *Reader, n ast.Node, what string) {
	text, ok := ScalarText(n)
	if !ok {
		r.ReportKind(n, what, "a single value", "")
	}
	*s = Scalar(text)
}

// OneKey is embedded in structs of pointers of which a file sets exactly one.
type OneKey struct{}

// Choice marks a struct of which a file sets exactly one key.
func (OneKey) Choice() {}
