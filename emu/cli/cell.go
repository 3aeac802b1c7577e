package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/experiment"
	"github.com/weftlab/weft/emu/experiment/cell"
)

// cellCommand runs one cell of an experiment, for the process that runs the others.
const cellCommand = "run-cell"

func newCell() *cobra.Command {
	return &cobra.Command{
		Use:    cellCommand,
		Short:  "Run a cell of an experiment: its job comes to standard input, its tables go to standard output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var j experiment.Job
			if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
				return badInput(fmt.Errorf("standard input has no job: %w", err))
			}
			var tell func(experiment.Progress)
			if f := os.NewFile(3, "progress"); f != nil {
				w := json.NewEncoder(f)
				tell = func(p experiment.Progress) { _ = w.Encode(p) } // nobody listens any more: the run goes on
			}
			tables, err := cell.Run(c.Context(), &j, tell)
			if err != nil {
				return err
			}
			var zip bytes.Buffer
			if err := tables.WriteZip(&zip); err != nil {
				return err
			}
			_, err = os.Stdout.Write(zip.Bytes())
			return err
		},
	}
}
