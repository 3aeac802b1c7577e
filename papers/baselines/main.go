// Command baselines reproduces the baselines' own figures in virtual time and prints expected
// values beside ours. README.md has the details.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

var experiments = []*Experiment{&convergence, &incast, &timely, &dctcp, &qcn}

func main() {
	weft := flag.String("weft", "bin/weft", "the weft command")
	dir := flag.String("dir", "papers/baselines", "directory of the experiments")
	quick := flag.Bool("quick", false, "the quick forms, which write nothing")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: baselines [flags] NAME...|all\nThe names are %s.\n", strings.Join(names(), ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(func(args ...string) *exec.Cmd { return exec.Command(*weft, args...) }, *dir, *quick, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "baselines:", err)
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, e := range experiments {
		all = append(all, e.Name)
	}
	return all
}

// run runs the named experiments, or all. The full forms write results, pictures and the tables
// of README.md.
func run(weft Weft, dir string, quick bool, which []string) error {
	var chosen []*Experiment
	for _, name := range which {
		before := len(chosen)
		for _, e := range experiments {
			if name == e.Name || name == "all" {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) == before {
			return fmt.Errorf("there is no experiment %q: choose from %s, all", name, strings.Join(names(), ", "))
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("name an experiment: %s, all", strings.Join(names(), ", "))
	}
	var failure error
	for _, e := range chosen {
		runs, out, err := e.run(weft, dir, quick)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n\n%s\n", e.Title, table(out.Rows))
		for i := range out.Rows {
			if r := &out.Rows[i]; !r.Sound() {
				failure = errors.Join(failure, fmt.Errorf("%s: %s: %.4g, expected %s %.4g", e.Name, r.What, r.Ours, r.Relation, r.Expected))
			}
		}
		if !quick {
			if err := e.write(dir, runs, out); err != nil {
				return err
			}
		}
	}
	if !quick {
		failure = errors.Join(failure, rewrite(dir))
	}
	return failure
}

// run runs the labs of an experiment one after the other.
func (e *Experiment) run(weft Weft, dir string, quick bool) (runs []*Run, out *Outcome, err error) {
	labs, length := e.Labs, units.Time(0)
	if quick {
		length = e.QuickFor
		if e.Quick != nil {
			labs = e.Quick
		}
	}
	for _, lab := range labs {
		r, err := weft.simulate(filepath.Join(dir, e.Name, lab+".yaml"), length)
		if err != nil {
			return nil, nil, err
		}
		r.Lab = lab
		r.Command = fmt.Sprintf("weft sim papers/baselines/%s/%s.yaml --json --qp --series series.csv", e.Name, lab)
		runs = append(runs, r)
	}
	out, err = e.Measure(runs)
	return runs, out, err
}

// result is the file of one experiment.
type result struct {
	Experiment string   `json:"experiment"`
	Command    string   `json:"command"`
	Runs       []record `json:"runs"`
	Rows       []Row    `json:"rows"`
}

type record struct {
	Lab      string     `json:"lab"`
	Command  string     `json:"command"`
	Seed     uint64     `json:"seed"`
	Duration units.Time `json:"duration"`
	Events   uint64     `json:"events"`
	Trace    string     `json:"trace"`
}

// write writes results and pictures to the directory of the experiment.
func (e *Experiment) write(dir string, runs []*Run, out *Outcome) error {
	r := result{Experiment: e.Name, Command: "papers/baselines/run.sh " + e.Name, Rows: out.Rows}
	for _, x := range runs {
		r.Runs = append(r.Runs, record{x.Lab, x.Command, x.Report.Seed, x.Report.Emulated, x.Report.Events, x.Report.Trace})
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, e.Name, "result.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	for name, p := range out.Pictures {
		if err := draw(p, filepath.Join(dir, e.Name, name+".png")); err != nil {
			return err
		}
	}
	return nil
}

func draw(p *chart.Picture, file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return p.Write(f, "png")
}

// rewrite puts the tables of all results into README.md, each between two comments.
func rewrite(dir string) error {
	file := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, err := withTables(string(text), dir)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(now), 0o644)
}

func withTables(text, dir string) (string, error) {
	for _, e := range experiments {
		b, err := os.ReadFile(filepath.Join(dir, e.Name, "result.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not run yet
		}
		if err != nil {
			return "", err
		}
		var r result
		if err := json.Unmarshal(b, &r); err != nil {
			return "", fmt.Errorf("%s: %w", e.Name, err)
		}
		begin, end := fmt.Sprintf("<!-- %s -->\n", e.Name), fmt.Sprintf("<!-- end of %s -->", e.Name)
		i, j := strings.Index(text, begin), strings.Index(text, end)
		if i < 0 || j < i {
			return "", fmt.Errorf("README.md has no place for the table of %s: %s ... %s", e.Name, begin, end)
		}
		text = text[:i+len(begin)] + table(r.Rows) + text[j:]
	}
	return text, nil
}
