// Package resolve implements the lab file: it reads YAML, resolves every default,
// kind, generator and address, checks all of it, and returns a plan.Plan. Every
// error gives the place in the file and a correction. The JSON Schema of the
// file is made from the types that it is read into.
//
// The format is described in docs/lab; its topology follows
// containerlab's, with generators added.
package resolve

import (
	"os"

	"github.com/goccy/go-yaml/ast"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/protocols/cc"
)

// Load reads the lab file at path. The error is an Errors, unless the file
// itself cannot be read.
func Load(path string) (*plan.Plan, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// Parse reads src, the text of a lab file. The filename appears in errors, and
// names the lab if the text does not. The error is an Errors with at most fifty
// entries: everything that cannot be read; if there is nothing of that kind,
// faults in nodes and links; otherwise faults in all the rest.
func Parse(filename string, src []byte) (*plan.Plan, error) { return parse(filename, src, nil) }

// ParseSeed is Parse with a seed that overrides the file's.
func ParseSeed(filename string, src []byte, seed uint64) (*plan.Plan, error) {
	return parse(filename, src, &seed)
}

func parse(filename string, src []byte, seed *uint64) (*plan.Plan, error) {
	r := newReader(filename, src)
	doc := r.Parse()
	if doc == nil {
		return nil, r.Err()
	}
	return parseDocument(r, doc, seed)
}

func parseDocument(r *yamlfile.Reader, doc ast.Node, seed *uint64) (*plan.Plan, error) {
	var lab labFile
	r.Read(&lab, doc, "the file")
	if err := r.Err(); err != nil {
		return nil, err
	}
	if seed != nil {
		lab.Seed = seed
	}
	return resolve(r, &lab)
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
