package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/experiment"
)

func newCollect() *cobra.Command {
	var f experimentFlags
	c := &cobra.Command{
		Use:   "collect FILE DIR...",
		Short: "Merge the parts of an experiment that weft experiment --part ran",
		Long: `Merge the parts of an experiment: take the cells that weft experiment --part
left in the directories, and print and draw the whole. Nothing is run; cells
missing from all parts are listed.`,
		Example: `  weft experiment fct.yaml -o part1 --part 1/2    # on one machine
  weft experiment fct.yaml -o part2 --part 2/2    # on another, by the same build
  weft collect fct.yaml part1 part2 -o whole`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return collectParts(c.Context(), args[0], args[1:], &f) },
	}
	c.Flags().StringVarP(&f.out, "out", "o", "", "directory for the results; default the experiment's name plus .result, in the current directory")
	c.Flags().BoolVar(&f.quick, "quick", false, "the parts are of the file's quick form")
	c.Flags().StringSliceVar(&f.seeds, "seed", nil, "seeds of the parts, if not the file's")
	c.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	c.Flags().BoolVar(&f.noDraw, "no-pictures", false, "draw no pictures")
	return c
}

func collectParts(ctx context.Context, name string, parts []string, f *experimentFlags) error {
	r, err := openExperiment(name, f)
	if err != nil {
		return err
	}
	for _, dir := range parts {
		if _, err := os.Stat(filepath.Join(dir, cellsDir)); err != nil {
			return badInput(fmt.Errorf("%s has no experiment results: %w", dir, err))
		}
		from := experiment.NewStore(filepath.Join(dir, cellsDir))
		for i := range r.jobs {
			if err := r.store.CopyFrom(from, r.jobs[i].Key); err != nil {
				return err
			}
		}
	}
	missing := &missingCells{}
	outcomes, err := r.Experiment.Run(ctx, r.jobs, r.store, missing, nil)
	if err != nil {
		return err
	}
	report := r.Report(r.jobs, outcomes, r.version, r.commandAgain(name))
	if err := r.writeAndPrint(report); err != nil {
		return err
	}
	for i, cell := range missing.names {
		if i == 10 {
			fmt.Fprintf(os.Stderr, "weft: and %d more\n", len(missing.names)-i)
			break
		}
		fmt.Fprintf(os.Stderr, "weft: no part has %s\n", cell)
	}
	if missing.names != nil {
		return fmt.Errorf("%d of %d cells are missing: they were not run, or were run by another build or with another file", len(missing.names), len(r.jobs))
	}
	return verdictOf(report)
}

// missingCells is a runner that runs nothing and records the jobs it was given.
type missingCells struct{ names []string }

// Run records the jobs.
func (m *missingCells) Run(_ context.Context, jobs []experiment.Job, _ experiment.Watcher) error {
	for i := range jobs {
		m.names = append(m.names, jobs[i].Name)
	}
	return nil
}
