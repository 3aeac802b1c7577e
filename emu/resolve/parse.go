// Package resolve makes a plan of a lab file: it resolves every default, kind, generator
// and address, and checks all of it. Every error gives the place in the file and a
// correction. Package labfile has the file's form.
//
// Each subject of the file has a part: a type with what it needs, on top of base, which has
// the plan so far, names, places and faults. The order of the parts matters (see resolve):
// classes come before the checks of links, and buffers, pauses and headroom after events,
// because headroom depends on the worst settings that events give a link. Hosts inherit the
// classes of their switch. Faults with one cause, such as a setting of a kind, are reported
// once.
package resolve

import (
	"os"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// File reads the lab file at path. The error is a yamlfile.Errors, unless the file itself
// cannot be read.
func File(path string) (*plan.Plan, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// Parse reads src, the text of a lab file, for virtual time. The filename appears in errors, and
// names the lab if the text does not. The error is a yamlfile.Errors with at most fifty
// entries: everything that cannot be read; if there is nothing of that kind,
// faults in nodes and links; otherwise faults in all the rest.
func Parse(filename string, src []byte) (*plan.Plan, error) {
	return parseFile(filename, src, nil, labfile.ExactClock)
}

// ParseSeed is Parse with a seed that overrides the file's.
func ParseSeed(filename string, src []byte, seed uint64) (*plan.Plan, error) {
	return parseFile(filename, src, &seed, labfile.ExactClock)
}

// ParseWallClock is Parse for wall-clock time: nodes have real clocks where the file does not say
// otherwise. A seed that is not nil overrides the file's.
func ParseWallClock(filename string, src []byte, seed *uint64) (*plan.Plan, error) {
	return parseFile(filename, src, seed, labfile.RealClock)
}

func parseFile(filename string, src []byte, seed *uint64, clock string) (*plan.Plan, error) {
	doc, err := labfile.Parse(filename, src)
	if err != nil {
		return nil, err
	}
	return resolveDocument(doc, seed, clock)
}

// ParsePatched reads a lab file with patches applied in order, and with a seed that
// overrides the file's. Text is the patched file as one text: Parse makes the same plan
// from it. Errors are those of Parse; an error in a patch refers to the file that the
// patch is in.
func ParsePatched(filename string, src []byte, seed uint64, patches []labfile.Patch) (p *plan.Plan, text string, err error) {
	doc, err := labfile.Parse(filename, src)
	if err != nil {
		return nil, "", err
	}
	return resolvePatched(doc, seed, patches)
}

// ParsePatchedValue is ParsePatched for a lab inside another file: errors refer to that
// file. Filename names the lab if it has no name.
func ParsePatchedValue(filename string, lab yamlfile.Value, seed uint64, patches []labfile.Patch) (p *plan.Plan, text string, err error) {
	return resolvePatched(labfile.AdoptValue(filename, lab), seed, patches)
}

func resolvePatched(doc *labfile.Document, seed uint64, patches []labfile.Patch) (p *plan.Plan, text string, err error) {
	if err := doc.ApplyPatches(patches); err != nil {
		return nil, "", err
	}
	if p, err = resolveDocument(doc, &seed, labfile.ExactClock); err != nil {
		return nil, "", err
	}
	if text, err = doc.Text(); err != nil {
		return nil, "", err
	}
	return p, text, nil
}

// resolveDocument reads and resolves a document; a seed that is not nil overrides the
// file's. clock is the preset of nodes whose clock the file does not set.
func resolveDocument(doc *labfile.Document, seed *uint64, clock string) (*plan.Plan, error) {
	lab, err := doc.ReadLab()
	if err != nil {
		return nil, err
	}
	if seed != nil {
		lab.Seed = seed
	}
	return resolveLab(doc.Reader, lab, clock)
}
