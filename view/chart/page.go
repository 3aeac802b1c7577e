package chart

import (
	"bytes"
	"fmt"
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

// Caption says what the figure shows, by its axes.
func (s *Section) Caption() string {
	p := &s.Figure.Panels[0]
	return fmt.Sprintf("%s over %s, of %s", p.Y.Label, p.X.Label, s.Title)
}

var run = page.New(`<h1>{{.Title}}</h1>
<p class="facts">{{.Facts}}</p>
{{range .Sections}}<h2>{{.Title}}</h2>
{{if .Figure}}<div class="pictures"><figure class="wide">{{svg (draw .Figure)}}<figcaption>{{.Caption}}</figcaption></figure></div>
{{end}}{{if .Text}}<pre>{{.Text}}</pre>
{{end}}{{end}}`, template.FuncMap{"draw": func(f *figure.Figure) ([]byte, error) {
	var b bytes.Buffer
	err := f.Write(&b, "svg")
	return b.Bytes(), err
}})

// WritePage writes one HTML page that needs no other file and no network. Facts say who wrote it,
// and when.
func WritePage(w io.Writer, title, facts string, sections []Section) error {
	parts := make([]*Section, len(sections))
	for i := range sections {
		parts[i] = &sections[i]
	}
	return run.Execute(w, map[string]any{"Title": title, "Facts": facts, "Sections": parts})
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
