package spec

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// Patch is a change to a lab file before it is read: see yamlfile.Reader.Patch.
type Patch struct {
	Path  string
	Value yamlfile.Value
	At    yamlfile.Value // what to blame for the path
}

// ParsePatched reads a lab file with patches, in their order, and with a seed in place of
// its own. Text is the patched file as one text: Parse makes the same plan of it. Errors
// are those of Parse; what a patch brings in is shown where it stands in its own file.
func ParsePatched(filename string, src []byte, seed uint64, patches []Patch) (p *plan.Plan, text string, err error) {
	r := newReader(filename, src)
	doc := r.Parse()
	if doc == nil {
		return nil, "", r.Err()
	}
	return parsePatched(r, doc, seed, patches)
}

// ParsePatchedValue is ParsePatched for a lab that is a part of another file: errors are of
// that file. Filename gives the lab its name where it has none.
func ParsePatchedValue(filename string, lab yamlfile.Value, seed uint64, patches []Patch) (p *plan.Plan, text string, err error) {
	r := newReader(filename, nil)
	return parsePatched(r, r.Adopt(lab), seed, patches)
}

func parsePatched(r *yamlfile.Reader, doc ast.Node, seed uint64, patches []Patch) (p *plan.Plan, text string, err error) {
	for i := range patches {
		r.Patch(doc, patches[i].Path, patches[i].Value, patches[i].At)
	}
	if err := r.Err(); err != nil {
		return nil, "", err
	}
	if p, err = parseDocument(r, doc, &seed); err != nil {
		return nil, "", err
	}
	text = r.Canonical(doc)
	if yamlfile.TooLong(text) {
		r.FailAt(doc, "the files that a lab names become part of it, so that it can run elsewhere: use shorter ones", "the lab and its files are longer than a lab file can be")
		return nil, "", r.Err()
	}
	return p, text, nil
}
