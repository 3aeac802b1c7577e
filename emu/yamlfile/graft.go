package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A patch replaces a value of a file by a value of another file, or adds it, before the
// file is read. Its nodes keep their own places, so that errors refer to their own file.

// Value is a part of a file with which another file can be patched.
type Value struct {
	from *Reader
	node ast.Node
}

// ValueOf returns the value at a place of the file; ok is false if it is not in the file.
func (r *Reader) ValueOf(place any) (v Value, ok bool) {
	n := r.places[place]
	return Value{r, n}, n != nil
}

// Text returns a single value as it is written; ok is false for a list or a mapping.
func (v Value) Text() (text string, ok bool) { return ScalarText(v.from.ResolveNode(v.node)) }

// Node returns the value's node of the syntax tree.
func (v Value) Node() ast.Node { return v.node }

// FailValue reports a fault of a value.
func (r *Reader) FailValue(v Value, hint, format string, args ...any) {
	for t := range tokensOf(v.node) {
		r.foreign[t] = v.from
	}
	r.FailAt(v.node, hint, format, args...)
}

// placeOf returns the place of a token; nil means the beginning of the file.
func (r *Reader) placeOf(at *token.Token) (file string, line, column int, source string) {
	of := r
	if from := r.foreign[at]; from != nil {
		of = from
	}
	line, column = 1, 1
	if at != nil {
		line, column = max(at.Position.Line, 1), max(at.Position.Column, 1)
	}
	if line <= len(of.lines) {
		source = of.lines[line-1]
	}
	return of.file, line, column, source
}

// PatchValue puts value at a path of the document, such as topology.kinds.host.nic or
// workload[0].arrivals.load, and replaces what is there. Missing mappings on the path are
// created; a list must have the entry, or be one shorter: then the value is appended. A
// null value removes the key. Errors refer to at.
func (r *Reader) PatchValue(doc ast.Node, path string, value, at Value) {
	value.node = r.AdoptValue(value)
	for t := range tokensOf(at.node) {
		r.foreign[t] = at.from
	}
	steps, err := splitPath(path)
	if err != nil {
		r.FailAt(at.node, "write for example topology.kinds.link.rate or workload[0].poisson.rate", "%q is not a valid path: %v", path, err)
		return
	}
	r.patchNode(doc, steps, path, value.node, at.node)
}

// AdoptValue makes a value of another file a part of this one. It returns a copy, which can be
// patched, and whose nodes keep their places in their own file.
func (r *Reader) AdoptValue(v Value) ast.Node {
	for t := range tokensOf(v.node) {
		r.foreign[t] = v.from
	}
	maps.Copy(r.anchors, v.from.anchors)
	return cloneNode(v.node)
}

// step is a key of a mapping, or an index into a list.
type step struct {
	key   string
	index int // into a list; -1 for a key
}

// splitPath parses a path: keys separated by dots, followed by [n] for entries of lists. A
// key that contains a dot is quoted.
func splitPath(path string) (steps []step, err error) {
	rest := path
	for rest != "" {
		switch {
		case rest[0] == '[':
			text, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(text)
			if !ok || err != nil || n < 0 {
				return nil, fmt.Errorf("[ needs an index of 0 or more and ]")
			}
			steps, rest = append(steps, step{index: n}), after
		case rest[0] == '"':
			text, after, ok := strings.Cut(rest[1:], `"`)
			if !ok {
				return nil, fmt.Errorf("a quote is not closed")
			}
			steps, rest = append(steps, step{key: text, index: -1}), after
		default:
			n := strings.IndexAny(rest, ".[")
			if n < 0 {
				n = len(rest)
			}
			if n == 0 {
				return nil, fmt.Errorf("a key is empty")
			}
			steps, rest = append(steps, step{key: rest[:n], index: -1}), rest[n:]
		}
		if rest != "" && rest[0] == '.' {
			if rest = rest[1:]; rest == "" {
				return nil, fmt.Errorf("it ends in a dot")
			}
		} else if rest != "" && rest[0] != '[' {
			return nil, fmt.Errorf("a dot is missing before %q", rest)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	return steps, nil
}

// patchNode descends from a node by steps and puts value there.
func (r *Reader) patchNode(n ast.Node, steps []step, path string, value, at ast.Node) {
	last := len(steps) == 1
	s := steps[0]
	switch c := n.(type) {
	case *ast.MappingNode:
		if s.index >= 0 {
			r.FailAt(at, "", "%s: cannot set entry [%d] of a mapping", path, s.index)
			return
		}
		r.patchMapping(c, steps, path, value, at)
	case *ast.SequenceNode:
		switch {
		case s.index < 0:
			r.FailAt(at, fmt.Sprintf("write [0] to [%d] for one of its entries", max(len(c.Values)-1, 0)), "%s: cannot set key %q of a list", path, s.key)
		case s.index > len(c.Values):
			r.FailAt(at, "", "%s: the list has %d entries and no [%d]", path, len(c.Values), s.index)
		case s.index == len(c.Values) && !last:
			r.FailAt(at, "", "%s: the list has %d entries, and only a whole entry can be added", path, len(c.Values))
		case s.index == len(c.Values):
			c.Values = append(c.Values, value)
		case last:
			c.Values[s.index] = value
		default:
			c.Values[s.index] = r.ownCopy(c.Values[s.index])
			r.patchNode(c.Values[s.index], steps[1:], path, value, at)
		}
	case nil:
	default:
		r.FailAt(at, "", "%s: cannot descend into %s", path, kindName(n))
	}
}

// patchMapping puts value under a key of a mapping, or below it.
func (r *Reader) patchMapping(m *ast.MappingNode, steps []step, path string, value, at ast.Node) {
	s, last := steps[0], len(steps) == 1
	entries, _ := r.Entries(m) // including those from merge keys
	i := slices.IndexFunc(entries, func(e KeyValue) bool { return e.Key == s.key })
	own := slices.IndexFunc(m.Values, func(p *ast.MappingValueNode) bool {
		key, ok := ScalarText(r.ResolveNode(p.Key))
		return ok && key == s.key && !p.Key.IsMergeKey()
	})
	_, remove := value.(*ast.NullNode)
	switch {
	case last && remove && own >= 0:
		m.Values = slices.Delete(m.Values, own, own+1)
		return
	case last && remove && i < 0:
		return
	case !last && steps[1].index >= 0 && i < 0:
		r.FailAt(at, "", "%s: there is no list %s for an entry [%d]", path, s.key, steps[1].index)
		return
	}
	put := value
	if !last {
		put = emptyMapping(firstToken(at))
		if i >= 0 {
			put = r.descendInto(entries[i].Value, steps[1], at)
		}
	}
	if own >= 0 {
		m.Values[own].Value = put
	} else {
		key := makeEntry(s.key, put, firstToken(at))
		r.foreign[key.Key.GetToken()] = r.foreign[firstToken(at)]
		m.Values = append(m.Values, key)
	}
	if !last && put != nil {
		r.patchNode(put, steps[1:], path, value, at)
	}
}

// descendInto returns the node that a step below a value descends into. Nothing is an empty
// mapping. A word stands for a mapping with that key and no settings, as in nic: roce or
// cc: dcqcn.
func (r *Reader) descendInto(value ast.Node, next step, at ast.Node) ast.Node {
	n := r.ownCopy(value)
	if _, none := n.(*ast.NullNode); none {
		return emptyMapping(firstToken(at))
	}
	if text, ok := ScalarText(n); ok && next.key == text {
		m, key := emptyMapping(firstToken(at)), firstToken(n)
		m.Values = append(m.Values, makeEntry(text, &ast.NullNode{BaseNode: &ast.BaseNode{}, Token: key}, key))
		return m
	}
	return n
}

// ownCopy returns a value that no other part of the file shares: for an alias, a copy of its
// target.
func (r *Reader) ownCopy(n ast.Node) ast.Node {
	resolved := r.ResolveNode(n)
	if resolved != n {
		return cloneNode(resolved)
	}
	return n
}

// cloneNode copies a value as deep as patches can change it.
func cloneNode(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.MappingNode:
		c := *n
		c.Values = make([]*ast.MappingValueNode, len(n.Values))
		for i, v := range n.Values {
			entry := *v
			entry.Value = cloneNode(v.Value)
			c.Values[i] = &entry
		}
		return &c
	case *ast.SequenceNode:
		c := *n
		c.Values = make([]ast.Node, len(n.Values))
		for i, v := range n.Values {
			c.Values[i] = cloneNode(v)
		}
		return &c
	case *ast.AnchorNode:
		return cloneNode(n.Value)
	}
	return n
}

// emptyMapping returns an empty mapping at the place of a token.
func emptyMapping(at *token.Token) *ast.MappingNode {
	return &ast.MappingNode{BaseNode: &ast.BaseNode{}, IsFlowStyle: true, Start: at, End: at}
}

// makeEntry returns an entry of a mapping at the place of a token.
func makeEntry(key string, value ast.Node, at *token.Token) *ast.MappingValueNode {
	t := *at
	t.Value, t.Type = key, token.StringType
	return &ast.MappingValueNode{BaseNode: &ast.BaseNode{}, Start: at, Key: ast.String(&t), Value: value}
}

// tokensOf returns the tokens of a node and of all nodes below it.
func tokensOf(n ast.Node) map[*token.Token]bool {
	c := collector{}
	if n != nil {
		ast.Walk(c, n)
	}
	return c
}

type collector map[*token.Token]bool

// Visit implements ast.Visitor.
func (c collector) Visit(n ast.Node) ast.Visitor {
	c[n.GetToken()], c[firstToken(n)] = true, true
	return c
}
