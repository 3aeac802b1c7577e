package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/draw"
	"github.com/weftlab/weft/experiment/file"
	"github.com/weftlab/weft/experiment/page"
	"github.com/weftlab/weft/experiment/pool"
	"github.com/weftlab/weft/experiment/remote"
)

type experimentFlags struct {
	out    string
	quick  bool
	seeds  []string
	jobs   int
	part   string
	list   bool
	json   bool
	noDraw bool

	on     string // URL of a NATS server
	serve  string // address of a server to start in this process
	access accessFlags
}

func newExperiment() *cobra.Command {
	f := experimentFlags{jobs: runtime.GOMAXPROCS(0)}
	c := &cobra.Command{
		Use:   "experiment FILE",
		Short: "Run an experiment: a lab with factors, seeds, measures and expectations",
		Long: `Run an experiment file: run its lab with every level of its factors and with every
seed, on all cores, and print a table with means and 95% confidence intervals
beside a paper's values. Pictures, a page and the results go to a directory.

Finished cells stay there, so an interrupted experiment continues where it
stopped, and after a change of the file only the changed cells run.

With clock: wall in the file a cell is a lab with real hosts, in which the file's
programs run, as with weft up and weft exec; their output is measured. This needs
root or a user namespace, as weft up does.`,
		Example: `  weft experiment papers/websearch/websearch.yaml --quick
  weft experiment papers/websearch/websearch.yaml -o out --seed 1,2,3
  weft experiment papers/websearch/websearch.yaml -o part3 --part 3/16`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.checkFlags(c.Flags()); err != nil {
				return badInput(err)
			}
			return runExperiment(c.Context(), args[0], &f)
		},
	}
	c.Flags().StringVarP(&f.out, "out", "o", "", "directory for the results; default the experiment's name plus .result, in the current directory")
	c.Flags().BoolVar(&f.quick, "quick", false, "run the file's quick form")
	c.Flags().StringSliceVar(&f.seeds, "seed", nil, "seeds in place of the file's, such as 1,2,3")
	numberFlag(c, &f.jobs, "jobs", "j", "virtual-time cells that run in parallel; default one per core. Wall-clock cells run one at a time")
	c.Flags().StringVar(&f.part, "part", "", "run only a part of the cells, such as 3/16: the third of sixteen; weft collect merges the parts")
	c.Flags().BoolVar(&f.list, "list", false, "list the cells and which of them have been run; run none")
	c.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	c.Flags().BoolVar(&f.noDraw, "no-pictures", false, "draw no pictures")
	c.Flags().StringVar(&f.on, "on", "", "run the cells on the workers of the NATS server at this URL, such as nats://server:4222 (weft worker)")
	c.Flags().StringVar(&f.serve, "serve", "", "run the NATS server at this address, such as 127.0.0.1:4222, and run cells here too")
	f.access.addFlags(c)
	return c
}

// checkFlags refuses flags that have no effect in combination with others.
func (f *experimentFlags) checkFlags(flags *pflag.FlagSet) error {
	if f.on != "" && f.serve != "" {
		return errors.New("--on and --serve exclude each other: use an existing server, or start one")
	}
	if f.on != "" && flags.Changed("jobs") {
		return errors.New("--jobs has no effect with --on: weft worker --jobs sets how many cells run on its machine")
	}
	if f.on != "" || f.serve != "" {
		return nil
	}
	var err error
	flags.Visit(func(x *pflag.Flag) {
		if strings.HasPrefix(x.Name, accessPrefix) {
			err = fmt.Errorf("--%s needs a NATS server: add --on URL or --serve ADDRESS", x.Name)
		}
	})
	return err
}

// experimentRun is an experiment with the store of its results.
type experimentRun struct {
	*experiment.Experiment
	flags   *experimentFlags
	version string
	jobs    []experiment.Job
	store   *experiment.Store
}

// cellsDir is the subdirectory of the results with the store of the cells.
const cellsDir = "cells"

// openExperiment reads an experiment and opens the store of its results.
func openExperiment(name string, f *experimentFlags) (*experimentRun, error) {
	o := file.Options{Quick: f.quick}
	for _, text := range f.seeds {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, badInput(fmt.Errorf("--seed %s: write whole numbers, such as --seed 1,2,3", text))
		}
		o.Seeds = append(o.Seeds, seed)
	}
	e, err := file.Load(name, o)
	if err != nil {
		return nil, badInput(err)
	}
	for _, w := range e.Warnings {
		fmt.Fprintln(os.Stderr, "weft:", w)
	}
	if f.out == "" {
		f.out = e.Name + ".result"
	}
	r := &experimentRun{Experiment: e, flags: f}
	if r.version, err = versionText(); err != nil {
		return nil, err
	}
	r.jobs = e.ListJobs(r.version)
	r.store = experiment.NewStore(filepath.Join(f.out, cellsDir))
	return r, nil
}

func runExperiment(ctx context.Context, name string, f *experimentFlags) error {
	if f.jobs < 1 {
		return badInput(fmt.Errorf("--jobs %d: must be at least 1", f.jobs))
	}
	part, parts, err := parsePart(f.part)
	if err != nil {
		return badInput(fmt.Errorf("--part: %w", err))
	}
	r, err := openExperiment(name, f)
	if err != nil {
		return err
	}
	if f.list {
		return r.listCells()
	}
	runner, closeRunner, err := r.newRunner(ctx)
	if err != nil {
		return err
	}
	defer closeRunner()
	if n := r.toRun(experiment.Wall); n > 1 {
		fmt.Fprintf(os.Stderr, "weft: %d cells run in wall-clock time: one at a time on a machine, regardless of --jobs\n", n)
	}
	watch := newExperimentProgress(r, os.Stderr)
	outcomes, err := r.runPart(ctx, runner, watch, part, parts)
	watch.eraseLine()
	var interrupted *interruption
	if err != nil && errors.As(context.Cause(ctx), &interrupted) {
		err = nil // the report covers what has been run
		nextSignalKills()
	}
	if err != nil {
		return r.explainStop(err)
	}
	report := r.Report(r.jobs, outcomes, r.version, r.commandAgain(name))
	if interrupted != nil && report.Partial != "" {
		report.Partial += ": " + interrupted.Error()
	}
	if err := r.writeAndPrint(report); err != nil {
		return err
	}
	if interrupted != nil {
		return interrupted.exitError("after %d of %d cells: run the same command again to continue", report.CountCells(experiment.Done), len(report.Cells))
	}
	return verdictOf(report)
}

// explainStop adds to the error of a run how many of its cells can be continued with.
func (r *experimentRun) explainStop(err error) error {
	stored := len(r.jobs) - r.toRun(experiment.Virtual) - r.toRun(experiment.Wall)
	return fmt.Errorf("%w\n%d of %d cells are stored: run the same command again to continue", err, stored, len(r.jobs))
}

// toRun counts the cells with clock c that have not been run.
func (r *experimentRun) toRun(c experiment.Clock) (n int) {
	for i := range r.jobs {
		if r.jobs[i].Clock == c && !r.store.Has(r.jobs[i].Key) {
			n++
		}
	}
	return n
}

// newRunner returns the runner of the cells: processes of this machine, or the workers of a
// NATS server.
func (r *experimentRun) newRunner(ctx context.Context) (experiment.Runner, func(), error) {
	f := r.flags
	if f.on == "" && f.serve == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		return &pool.Pool{Size: f.jobs, Command: []string{self, cellCommand}}, func() {}, nil
	}
	var closers []func()
	closeAll := func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	access := f.access.accessTo(f.on)
	var failed <-chan error // of the server, if it is ours
	if f.serve != "" {
		s, a, err := f.access.serveStore(f.serve, f.out)
		if err != nil {
			return nil, nil, err
		}
		closers, access, failed = append(closers, s.Close), a, s.Failed()
	}
	client, err := f.access.dialServer(ctx, access)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	closers = append(closers, client.Close)
	if f.serve != "" {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := workUntil(ctx, &cluster.Worker{Client: client, Slots: f.jobs}); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "weft: no cells run here:", err)
			}
		}()
		closers = append(closers, func() { cancel(); <-done })
	}
	return &remote.Runner{Client: client, ID: r.experimentID(), Title: r.Name, Version: r.version, Failed: failed}, closeAll, nil
}

// experimentID identifies the experiment on a server by its cells and the build that runs them.
func (r *experimentRun) experimentID() string {
	h := sha256.New()
	for i := range r.jobs {
		h.Write([]byte(r.jobs[i].Key))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// runPart runs one part of the cells and takes the cells of other parts from the store.
func (r *experimentRun) runPart(ctx context.Context, runner experiment.Runner, w experiment.Watcher, part, parts int) ([]experiment.Outcome, error) {
	if err := r.store.CreateDirectory(); err != nil { // a part may have no cells, and is collected nevertheless
		return nil, err
	}
	if parts > 1 {
		runner = &partRunner{runner, cellsOfPart(r.jobs, part, parts)}
	}
	return r.Experiment.Run(ctx, r.jobs, r.store, runner, w)
}

// cellsOfPart returns the keys of the cells that belong to a part: every so many of all cells,
// whatever has been run already, so that parts differ by one cell at most.
func cellsOfPart(all []experiment.Job, part, parts int) map[string]bool {
	keys := map[string]bool{}
	for i := part - 1; i < len(all); i += parts {
		keys[all[i].Key] = true
	}
	return keys
}

// partRunner runs the jobs of a part.
type partRunner struct {
	experiment.Runner
	keys map[string]bool // of the part's jobs
}

// Run runs the jobs of its part.
func (p *partRunner) Run(ctx context.Context, jobs []experiment.Job, w experiment.Watcher) error {
	var mine []experiment.Job
	var index []int
	for i := range jobs {
		if p.keys[jobs[i].Key] {
			mine, index = append(mine, jobs[i]), append(index, i)
		}
	}
	return p.Runner.Run(ctx, mine, &renumbered{w, index})
}

// renumbered forwards the events of a part's jobs, with their numbers among all jobs.
type renumbered struct {
	experiment.Watcher
	index []int
}

func (w *renumbered) Started(job int, where string) { w.Watcher.Started(w.index[job], where) }

func (w *renumbered) Progress(job int, p experiment.Progress) {
	w.Watcher.Progress(w.index[job], p)
}

func (w *renumbered) Ended(job int, r experiment.Result) { w.Watcher.Ended(w.index[job], r) }

// parsePart reads "3/16"; "" means all.
func parsePart(text string) (part, parts int, err error) {
	if text == "" {
		return 1, 1, nil
	}
	a, b, ok := strings.Cut(text, "/")
	part, err1 := strconv.Atoi(a)
	parts, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || part < 1 || part > parts {
		return 0, 0, fmt.Errorf("%q is not a part: write for example 3/16, the third of sixteen", text)
	}
	return part, parts, nil
}

// commandAgain returns the command that runs the experiment again.
func (r *experimentRun) commandAgain(name string) string {
	words := []string{"weft", "experiment", name}
	if r.Quick {
		words = append(words, "--quick")
	}
	if r.flags.seeds != nil {
		words = append(words, "--seed", strings.Join(r.flags.seeds, ","))
	}
	return strings.Join(words, " ")
}

// listCells prints the cells and which of them have been run.
func (r *experimentRun) listCells() error {
	done := 0
	for i := range r.jobs {
		state := "to run"
		if r.store.Has(r.jobs[i].Key) {
			state = "done"
			done++
		}
		printf("%-6s  %s  %s\n", state, r.jobs[i].Key[:12], r.jobs[i].Name)
	}
	printf("%d of %d cells have been run\n", done, len(r.jobs))
	return nil
}

// writeAndPrint writes the result and prints it, also if it cannot be written.
func (r *experimentRun) writeAndPrint(report *experiment.Report) error {
	var json, text strings.Builder
	if err := report.WriteJSON(&json); err != nil {
		return err
	}
	report.WriteText(&text)
	err := r.writeFiles(report, json.String(), text.String())
	if r.flags.json {
		printText(json.String())
	} else {
		printText(text.String())
		printf("\nresults  %s\n", filepath.Join(r.flags.out, "index.html"))
	}
	return err
}

// writeFiles writes the result, the pictures and the page into the directory of the results.
func (r *experimentRun) writeFiles(report *experiment.Report, json, text string) error {
	if err := os.MkdirAll(r.flags.out, 0o777); err != nil {
		return err
	}
	file := func(name, data string) error {
		return experiment.WriteFile(filepath.Join(r.flags.out, name), []byte(data))
	}
	if err := file("result.json", json); err != nil {
		return err
	}
	if err := file("result.txt", text); err != nil {
		return err
	}
	var drawn []draw.Drawn
	var err error // of pictures: the page has the others
	if !r.flags.noDraw {
		drawn, err = draw.DrawPlots(r.Experiment, report, r.jobs, r.store, r.flags.out)
	}
	var pictures []page.Picture
	for _, d := range drawn {
		pictures = append(pictures, page.Picture{Name: d.Name, Caption: d.Caption, Wide: d.Wide, SVG: d.SVG})
	}
	var html strings.Builder
	if err := page.Write(&html, report, pictures, time.Now()); err != nil {
		return err
	}
	return errors.Join(err, file("index.html", html.String()))
}

// verdictOf returns an error if a cell or an expectation failed.
func verdictOf(r *experiment.Report) error {
	var faults []string
	if n := r.CountCells(experiment.Failed); n > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d cells failed", n, len(r.Cells)))
	}
	broken := 0
	for i := range r.Verdicts {
		if !r.Verdicts[i].Held {
			broken++
		}
	}
	if broken > 0 && r.Partial == "" {
		faults = append(faults, fmt.Sprintf("%d of %d expectations do not hold", broken, len(r.Verdicts)))
	}
	if n := r.CountTraffic(); n > 0 && faults == nil {
		return &exitError{exitTraffic, fmt.Errorf("modelled traffic failed in %d of %d cells", n, len(r.Cells))}
	}
	if faults == nil {
		return nil
	}
	return errors.New(strings.Join(faults, ", "))
}
