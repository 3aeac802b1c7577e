package yamlfile

import (
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// WriteCanonical writes a document as one text without comments, aliases and merge keys.
// Documents with the same contents in the same order give the same text. It is YAML, and
// reads back as the same document. Texts that replace values (Inline) are written instead
// of them.
func (r *Reader) WriteCanonical(n ast.Node) string {
	var b strings.Builder
	r.appendCanonical(&b, n)
	return b.String()
}

func (r *Reader) appendCanonical(b *strings.Builder, n ast.Node) {
	n = r.ResolveNode(n)
	if n == nil {
		return // reported already
	}
	if text, ok := r.inlined[n]; ok {
		b.WriteString(quoteText(text))
		return
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		b.WriteByte('[')
		for i, e := range list.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			r.appendCanonical(b, e)
		}
		b.WriteByte(']')
		return
	}
	if text, ok := ScalarText(n); ok {
		switch n.(type) {
		case *ast.StringNode, *ast.LiteralNode:
			text = quoteText(text)
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
		b.WriteString(quoteText(e.Key) + ": ")
		r.appendCanonical(b, e.Value)
	}
	b.WriteByte('}')
}

// quoteText returns a text in double quotes, with escapes that JSON and YAML share.
func quoteText(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // text can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
