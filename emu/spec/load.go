// Package spec is the lab file: it reads YAML, works out every default, kind,
// generator and address, judges all of it, and gives a plan.Plan. What is
// wrong is answered with the place in the file and what would be right. The
// JSON Schema of the file is made from the types that it is read into.
//
// The form of the file is docs/lab-file.md; its topology follows
// containerlab's, with generators beside it.
package spec

import (
	"os"

	"github.com/weftlab/weft/emu/plan"
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

// Parse reads src, the text of a lab file. The filename goes into errors, and
// gives the lab its name where the text does not. The error is an Errors, at
// most fifty: of everything that cannot be read, or once that is right of
// nodes and links, or else of all the rest.
func Parse(filename string, src []byte) (*plan.Plan, error) { return parse(filename, src, nil) }

// ParseSeed is Parse with a seed in place of the file's.
func ParseSeed(filename string, src []byte, seed uint64) (*plan.Plan, error) {
	return parse(filename, src, &seed)
}

func parse(filename string, src []byte, seed *uint64) (*plan.Plan, error) {
	r := newReader(filename, src)
	doc := r.parse()
	if doc == nil {
		return nil, r.err()
	}
	var lab labFile
	r.read(&lab, doc, "the file")
	if err := r.err(); err != nil {
		return nil, err
	}
	if seed != nil {
		lab.Seed = seed
	}
	return resolve(r, &lab)
}
