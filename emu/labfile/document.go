package labfile

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/protocols/cc"
)

// Document is a lab file whose text is parsed, but not yet read into a Lab.
type Document struct {
	Reader *yamlfile.Reader // collects faults, and knows the place of every value
	root   ast.Node
}

// Parse parses src, the text of a lab file. The filename appears in errors. The
// error is a yamlfile.Errors.
func Parse(filename string, src []byte) (*Document, error) {
	r := newReader(filename, src)
	root := r.Parse()
	if root == nil {
		return nil, r.Err()
	}
	return &Document{r, root}, nil
}

// AdoptValue returns a lab that is a value in another file; errors refer to that file.
func AdoptValue(filename string, lab yamlfile.Value) *Document {
	r := newReader(filename, nil)
	return &Document{r, r.AdoptValue(lab)}
}

// Patch is a change to a lab file before it is read: see yamlfile.Reader.Patch.
type Patch struct {
	Path  string
	Value yamlfile.Value
	At    yamlfile.Value // what errors about the path refer to
}

// ApplyPatches applies patches in order. An error in a patch refers to the file that the patch
// is in.
func (d *Document) ApplyPatches(patches []Patch) error {
	for i := range patches {
		d.Reader.PatchValue(d.root, patches[i].Path, patches[i].Value, patches[i].At)
	}
	return d.Reader.Err()
}

// ReadLab reads the document. The error lists everything that cannot be read.
func (d *Document) ReadLab() (*Lab, error) {
	var lab Lab
	d.Reader.Read(&lab, d.root, "the file")
	if err := d.Reader.Err(); err != nil {
		return nil, err
	}
	return &lab, nil
}

// Text returns the document as one text that needs no other files. It is complete once
// the texts that the lab names have been read (TextFile.Read). It fails if it is longer
// than a lab file may be.
func (d *Document) Text() (string, error) {
	text := d.Reader.WriteCanonical(d.root)
	if yamlfile.TooLong(text) {
		d.Reader.FailAt(d.root, "files named by a lab become part of it, so that it can run elsewhere: use shorter ones", "the lab and its files exceed the size limit of a lab file")
		return "", d.Reader.Err()
	}
	return text, nil
}

// newReader returns a reader of lab files.
func newReader(filename string, src []byte) *yamlfile.Reader {
	r := yamlfile.New(filename, src)
	r.Special = func(ptr any, n ast.Node, what string) bool {
		c, ok := ptr.(*cc.Choice)
		if ok {
			readControl(r, c, n, what)
		}
		return ok
	}
	return r
}
