package file

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/sim/units"
)

// Options select the form of an experiment.
type Options struct {
	Quick bool     // use the file's quick form
	Seeds []uint64 // override the file's seeds; nil keeps them
}

// maxCells bounds the cells of an experiment.
const maxCells = 100_000

// Load reads the experiment file at path. The error is a yamlfile.Errors, unless a file
// cannot be read at all.
func Load(path string, o Options) (*experiment.Experiment, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src, o)
}

// Parse reads the text of an experiment file. Its path appears in errors, and the lab's
// path is relative to it.
func Parse(path string, src []byte, o Options) (*experiment.Experiment, error) {
	r := yamlfile.New(path, src)
	doc := r.Parse()
	if doc == nil {
		return nil, r.Err()
	}
	v := &resolver{Reader: r, options: o, e: &experiment.Experiment{File: path, Text: src, Quick: o.Quick}}
	r.Read(&v.file, doc, "the file")
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := v.resolveExperiment(); err != nil {
		return nil, err
	}
	return v.e, nil
}

// Schema returns the JSON Schema of experiment files.
func Schema() ([]byte, error) {
	return yamlfile.Schema("weft experiment file", experimentFile{}, nil)
}

// resolver makes an experiment from its file.
type resolver struct {
	*yamlfile.Reader
	file    experimentFile
	options Options
	e       *experiment.Experiment

	levels [][]level    // by factor
	tables table.Bundle // tables of the real programs, without rows
}

// level is a level of a factor: its changes to the lab.
type level []labfile.Patch

var (
	namePattern       = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	identifierPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// resolveExperiment fills in the experiment; the error lists all faults.
func (v *resolver) resolveExperiment() error {
	v.resolveHeader()
	v.resolveClocks()
	v.resolveFactors()
	v.resolvePrograms()
	v.resolveSeeds()
	v.resolveRecording()
	if err := v.readLab(); err != nil {
		return err
	}
	if err := v.Err(); err != nil {
		return err
	}
	v.resolveMeasures()
	v.resolvePlots()
	v.resolvePaper()
	if err := v.Err(); err != nil {
		return err
	}
	v.resolveExpectations()
	if err := v.Err(); err != nil {
		return err
	}
	return v.makeCells()
}

// override overrides *to with a setting of the file, if from is not nil.
func override[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (v *resolver) resolveHeader() {
	e, f := v.e, &v.file
	override(&e.Title, f.Title)
	if f.Name != nil {
		e.Name = *f.Name
		if !namePattern.MatchString(e.Name) {
			v.ReportFault(f.Name, "at most 64 letters, digits, _ . -", "%q cannot be the experiment's name", e.Name)
		}
	} else {
		base := filepath.Base(e.File)
		e.Name = strings.TrimSuffix(base, filepath.Ext(base))
		if !namePattern.MatchString(e.Name) {
			v.ReportFault(f, "say name: in the file", "the file's name %q cannot be the experiment's", base)
		}
	}
	if f.Limit.Time != nil {
		e.Timeout = time.Duration(*f.Limit.Time / units.Nanosecond)
	}
	override(&e.Memory, f.Limit.Memory)
	if v.options.Quick && f.Quick == nil {
		v.ReportFault(f, "write quick: with smaller settings, such as seeds: 1", "the file has no quick form")
	}
}

// resolveFactors resolves the factors.
func (v *resolver) resolveFactors() {
	for i := range v.file.Vary {
		name, form := &v.file.Vary[i].Name, &v.file.Vary[i].Value
		if !identifierPattern.MatchString(*name) || *name == "bin" || *name == "seed" {
			v.ReportFault(name, "letters, digits and _, but not bin or seed", "%q cannot be a factor's name", *name)
		}
		if v.e.FactorIndex(*name) >= 0 {
			v.ReportFault(name, "the clocks are already a factor of that name", "%q cannot be a factor's name", *name)
		}
		f := experiment.Factor{Name: *name}
		var levels []level
		add := func(place any, name string, l level) {
			if f.LevelIndex(name) >= 0 {
				v.ReportFault(place, "", "%s has the level %q twice", f.Name, name)
			}
			f.Levels, levels = append(f.Levels, name), append(levels, l)
		}
		for k := range form.levels {
			entry := &form.levels[k]
			add(&entry.Name, entry.Name, v.resolvePatches(entry.Value))
		}
		for k := range form.values {
			text, ok := form.values[k].Text()
			if !ok {
				v.FailValue(form.values[k].Value, "name the levels: {LEVEL: {PATH: VALUE}, ...}", "a value must be a scalar, because it names the level")
				continue
			}
			var l level
			for p := range form.paths {
				at, _ := v.ValueOf(&form.paths[p])
				l = append(l, labfile.Patch{Path: form.paths[p], Value: form.values[k].Value, At: at})
			}
			add(form, text, l)
		}
		if len(f.Levels) == 0 {
			v.ReportFault(form, "give it levels, or leave it out", "the factor %s has no levels", f.Name)
		}
		f, levels = v.quickLevels(f, levels)
		v.e.Factors, v.levels = append(v.e.Factors, f), append(v.levels, levels)
	}
	v.e.Zip = v.file.Combine != nil && *v.file.Combine == "zip"
	if v.e.Zip && len(v.e.Clocks) > 1 {
		v.ReportFault(v.file.Combine, "write combine: product, or give each clock its own experiment file", "two clocks are run with each combination of the other factors")
	}
	for _, f := range v.e.Factors {
		if first := v.e.Factors[0]; v.e.Zip && len(f.Levels) != len(first.Levels) {
			v.ReportFault(v.file.Combine, "give all factors the same number of levels, or write combine: product", "%s has %d levels, and %s %d", first.Name, len(first.Levels), f.Name, len(f.Levels))
		}
	}
}

// quickLevels keeps only the levels that the quick form runs.
func (v *resolver) quickLevels(f experiment.Factor, levels []level) (experiment.Factor, []level) {
	if !v.options.Quick || v.file.Quick == nil {
		return f, levels
	}
	for i := range v.file.Quick.Vary {
		q := &v.file.Quick.Vary[i]
		if q.Name != f.Name {
			continue
		}
		less := experiment.Factor{Name: f.Name}
		var kept []level
		for k := range q.Value {
			l := f.LevelIndex(string(q.Value[k]))
			if l < 0 {
				v.ReportFault(&q.Value[k], suggest.Hint(string(q.Value[k]), "its levels are", f.Levels), "%s has no level %q", f.Name, q.Value[k])
				continue
			}
			less.Levels, kept = append(less.Levels, f.Levels[l]), append(kept, levels[l])
		}
		return less, kept
	}
	return f, levels
}

// resolvePatches converts a mapping of paths to patches.
func (v *resolver) resolvePatches(p patches) (l level) {
	for i := range p {
		at, _ := v.ValueOf(&p[i].Name)
		l = append(l, labfile.Patch{Path: p[i].Name, Value: p[i].Value.Value, At: at})
	}
	return l
}

func (v *resolver) resolveSeeds() {
	e := v.e
	e.Seeds = []uint64{1}
	if v.file.Seeds != nil {
		e.Seeds = *v.file.Seeds
	}
	if q := v.file.Quick; v.options.Quick && q != nil {
		for i := range q.Vary {
			if e.FactorIndex(q.Vary[i].Name) < 0 {
				v.ReportFault(&q.Vary[i].Name, suggest.Hint(q.Vary[i].Name, "the factors are", v.factorNames()), "there is no factor %q", q.Vary[i].Name)
			}
		}
		if q.Seeds != nil {
			e.Seeds = *q.Seeds
		}
	}
	if v.options.Seeds != nil {
		e.Seeds = v.options.Seeds
	}
}

func (v *resolver) factorNames() (names []string) {
	for _, f := range v.e.Factors {
		names = append(names, f.Name)
	}
	return names
}

func (v *resolver) resolveRecording() {
	f, rec := &v.file.Record, &v.e.Record
	rec.Queues, rec.Flows = f.Queues, f.Flows
	if len(rec.Queues)+len(rec.Flows) == 0 {
		if f.Every != nil {
			v.ReportFault(f.Every, "write queues: or flows: too", "every has no effect without a series")
		}
		return
	}
	rec.Every = units.Millisecond
	override(&rec.Every, f.Every)
}

// readLab reads the lab file.
func (v *resolver) readLab() error {
	f := &v.file.Lab
	if f.path == nil {
		v.e.Lab, v.e.LabText = v.e.File, []byte(v.WriteCanonical(f.inline.Node()))
		return nil
	}
	v.e.Lab = *f.path
	if !filepath.IsAbs(v.e.Lab) {
		v.e.Lab = filepath.Join(filepath.Dir(v.e.File), v.e.Lab)
	}
	var err error
	if v.e.LabText, err = os.ReadFile(v.e.Lab); err != nil {
		v.ReportFault(f.path, "the path of a lab is relative to the experiment's file", "the lab cannot be read: %v", err)
	}
	return v.Err()
}

// parseLab reads the lab with patches.
func (v *resolver) parseLab(seed uint64, patches []labfile.Patch) (*plan.Plan, string, error) {
	if inline := v.file.Lab.inline; inline != nil {
		return resolve.ParsePatchedValue(v.e.Lab, inline.Value, seed, patches)
	}
	return resolve.ParsePatched(v.e.Lab, v.e.LabText, seed, patches)
}

// makeCells makes the lab of each cell, and returns the errors of the first one that is wrong.
func (v *resolver) makeCells() error {
	e := v.e
	all := experiment.CombineLevels(e.Factors, e.Zip)
	if len(all)*len(e.Seeds) > maxCells {
		v.ReportFault(&v.file.Vary, "leave out levels or seeds", "the experiment has more than %d cells", maxCells)
		return v.Err()
	}
	for _, levels := range all {
		patches := v.resolvePatches(v.file.Set)
		if v.options.Quick && v.file.Quick != nil {
			patches = append(patches, v.resolvePatches(v.file.Quick.Set)...)
		}
		for f, l := range levels {
			patches = append(patches, v.levels[f][l]...)
		}
		for i, seed := range e.Seeds {
			p, text, err := v.parseLab(seed, patches)
			if err != nil {
				return fmt.Errorf("%w\nthis is the lab of %s", err, experiment.DescribeLevels(e.Factors, levels))
			}
			clock := v.clockOf(levels)
			if err := cell.Check(p, &e.Record, clock); err != nil {
				v.ReportFault(&v.file.Record, "", "record: %v", err)
				return v.Err()
			}
			e.Cells = append(e.Cells, experiment.Cell{Levels: levels, Seed: seed, Clock: clock, Lab: []byte(text)})
			if i > 0 {
				continue
			}
			if clock == experiment.Wall {
				if v.checkHosts(p); v.Err() != nil {
					return v.Err()
				}
				continue
			}
			if len(p.Flows)+len(p.Transfers)+len(p.Traffic) == 0 {
				v.ReportFault(&v.file.Lab, "give the lab a workload, or set one", "nothing sends in the lab of %s", experiment.DescribeLevels(e.Factors, levels))
				return v.Err()
			}
		}
	}
	slices.SortStableFunc(e.Cells, func(a, b experiment.Cell) int { return slices.Compare(a.Levels, b.Levels) })
	return v.Err()
}
