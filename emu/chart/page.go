package chart

import (
	"bytes"
	"html/template"
	"io"
	"strings"
)

// Section is one part of a page: a text as it is printed for people, and a picture.
type Section struct {
	Title   string
	Text    string
	Picture *Picture // nil for none
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{"draw": drawn}).Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: 13px; line-height: 1.35; }
svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
{{range .Sections}}<h2>{{.Title}}</h2>
{{if .Picture}}{{draw .Picture}}
{{end}}{{if .Text}}<pre>{{.Text}}</pre>
{{end}}{{end}}</body>
</html>
`))

// drawn is a picture as part of a page.
func drawn(p *Picture) (template.HTML, error) {
	var b bytes.Buffer
	if err := p.Write(&b, "svg"); err != nil {
		return "", err
	}
	svg := b.String()
	if i := strings.Index(svg, "<svg"); i > 0 {
		svg = svg[i:] // without what stands only at the beginning of a file
	}
	return template.HTML(svg), nil
}

// WritePage writes one HTML page that needs no other file and no network.
func WritePage(w io.Writer, title string, sections []Section) error {
	return page.Execute(w, map[string]any{"Title": title, "Sections": sections})
}

// Group sorts files by their kinds, in the order of the first of each. A file that is of
// none is in none.
func Group(files []string) (groups [][]string, none []string) {
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
