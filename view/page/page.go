// Package page holds the common parts of self-contained HTML pages, which need no other
// file and no network: head, style, and embedded pictures.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
)

//go:embed page.html
var frame string

// New makes the template of a page from the template of its body. Both are executed with
// the same value, which has a Title. The body embeds an SVG picture, given as bytes, with svg.
func New(body string, more template.FuncMap) *template.Template {
	t := template.New("page").Funcs(template.FuncMap{"svg": inlineSVG}).Funcs(more)
	return template.Must(template.Must(t.Parse(frame)).Parse(`{{define "body"}}` + body + `{{end}}`))
}

// inlineSVG returns an SVG picture without the prologue, which is only allowed at the
// beginning of a file. The picture was drawn by weft, so it is trusted.
func inlineSVG(svg []byte) template.HTML {
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:]
	}
	return template.HTML(svg)
}
