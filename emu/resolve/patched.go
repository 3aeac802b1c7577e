package resolve

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// Patch is a change to a lab file before it is read: see yamlfile.Reader.Patch.
type Patch struct {
	Path  string
	Value yamlfile.Value
	At    yamlfile.Value // what errors about the path refer to
}

// ParsePatched reads a lab file with patches applied in order, and with a seed that
// overrides the file's. Text is the patched file as one text: Parse makes the same plan
// from it. Errors are those of Parse; an error in a patch refers to the file that the
// patch is in.
func ParsePatched(filename string, src []byte, seed uint64, patches []Patch) (p *plan.Plan, text string, err error) {
	r := newReader(filename, src)
	doc := r.Parse()
	if doc == nil {
		return nil, "", r.Err()
	}
	return parsePatched(r, doc, seed, patches)
}

// ParsePatchedValue is ParsePatched for a lab inside another file: errors refer to that
// file. Filename names the lab if it has no name.
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
		r.FailAt(doc, "files named by a lab become part of it, so that it can run elsewhere: use shorter ones", "the lab and its files exceed the size limit of a lab file")
		return nil, "", r.Err()
	}
	return p, text, nil
}
