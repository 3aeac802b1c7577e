// Package page is what HTML pages share that need no other file and no network: their head
// and style, and pictures as parts of them.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
)

//go:embed page.html
var frame string

// New makes a template of a page from the template of its body. Both are executed with the
// same value, which has a Title. A body draws an SVG picture, as bytes, with svg.
func New(body string, more template.FuncMap) *template.Template {
	t := template.New("page").Funcs(template.FuncMap{"svg": inline}).Funcs(more)
	return template.Must(template.Must(t.Parse(frame)).Parse(`{{define "body"}}` + body + `{{end}}`))
}

// inline is an SVG picture without what may stand only at the beginning of a file. It is
// what weft has drawn.
func inline(svg []byte) template.HTML {
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:]
	}
	return template.HTML(svg)
}
