package chart

import (
	"bytes"
	"html/template"
	"io"

	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/page"
)

// Section is one part of a page: a text, as printed, and a figure.
type Section struct {
	Title  string
	Text   string
	Figure *figure.Figure // nil if there is none
}

var run = page.New(`<h1>{{.Title}}</h1>
{{range .Sections}}<h2>{{.Title}}</h2>
{{if .Figure}}{{svg (draw .Figure)}}
{{end}}{{if .Text}}<pre>{{.Text}}</pre>
{{end}}{{end}}`, template.FuncMap{"draw": func(f *figure.Figure) ([]byte, error) {
	var b bytes.Buffer
	err := f.Write(&b, "svg")
	return b.Bytes(), err
}})

// WritePage writes one HTML page that needs no other file and no network.
func WritePage(w io.Writer, title string, sections []Section) error {
	return run.Execute(w, map[string]any{"Title": title, "Sections": sections})
}

// GroupFiles groups files by kind, in the order of the first file of each kind. Files of no
// known kind are returned in none.
func GroupFiles(files []string) (groups [][]string, none []string) {
	at := map[kind]int{}
	for _, name := range files {
		k, err := kindOf(name)
		if err != nil {
			none = append(none, name)
			continue
		}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], name)
	}
	return groups, none
}
