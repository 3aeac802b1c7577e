package yamlfile

import (
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Canonical writes a document as one text without comments, aliases and merge keys.
// Documents with the same contents in the same order give the same text. It is YAML, and
// reads back as the same document. Texts that replace values (Inline) are written instead
// of them.
func (r *Reader) Canonical(n ast.Node) string {
	var b strings.Builder
	r.canonical(&b, n)
	return b.String()
}

func (r *Reader) canonical(b *strings.Builder, n ast.Node) {
	n = r.Resolve(n)
	if n == nil {
		return // reported already
	}
	if text, ok := r.inlined[n]; ok {
		b.WriteString(quoted(text))
		return
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		b.WriteByte('[')
		for i, e := range list.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			r.canonical(b, e)
		}
		b.WriteByte(']')
		return
	}
	if text, ok := ScalarText(n); ok {
		switch n.(type) {
		case *ast.StringNode, *ast.LiteralNode:
			text = quoted(text)
		}
		b.WriteString(text)
		return
	}
	if _, none := n.(*ast.NullNode); none {
		b.WriteString("null")
		return
	}
	entries, _ := r.Entries(n)
	b.WriteByte('{')
	for i, e := range entries {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(e.Key) + ": ")
		r.canonical(b, e.Value)
	}
	b.WriteByte('}')
}

// quoted returns a text in double quotes, with escapes that JSON and YAML share.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // text can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
