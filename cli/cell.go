package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
	"github.com/weftlab/weft/experiment/real"
	"github.com/weftlab/weft/experiment/table"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// cellCommand runs one cell of an experiment, for the process that runs the others.
const cellCommand = "run-cell"

// progressFD is the file descriptor on which a cell reports its progress.
const progressFD = 3

func newCell() *cobra.Command {
	var rootless, name string
	c := &cobra.Command{
		Use:    cellCommand,
		Short:  "Run a cell of an experiment: read its job from standard input, write its tables to standard output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var j experiment.Job
			if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
				return badInput(fmt.Errorf("no job on standard input: %w", err))
			}
			var tell func(experiment.Progress)
			progress := os.NewFile(progressFD, "progress")
			if progress != nil {
				w := json.NewEncoder(progress)
				tell = func(p experiment.Progress) { _ = w.Encode(p) } // the run continues without a reader
			}
			var tables table.Bundle
			var err error
			switch {
			case j.Clock != experiment.Wall:
				tables, err = cell.Run(c.Context(), &j, tell)
			case rootless != "":
				if err := netnslab.EnterRootless(rootless); err != nil {
					return err
				}
				tables, err = runReal(c.Context(), name, &j, tell)
			default:
				if err := real.SweepLeftovers(); err != nil {
					fmt.Fprintln(os.Stderr, "weft: cannot remove what a cell left behind:", err)
				}
				name = real.LabName(&j)
				if netnslab.IsUnprivileged() {
					return cellRootless(c.Context(), name, &j, progress)
				}
				tables, err = runReal(c.Context(), name, &j, tell)
			}
			if err != nil {
				return err
			}
			var zip bytes.Buffer
			if err := tables.WriteZip(&zip); err != nil {
				return err
			}
			_, err = stdout.Write(zip.Bytes())
			return err
		},
	}
	c.Flags().StringVar(&rootless, "rootless", "", "")
	c.Flags().StringVar(&name, "lab", "", "")
	return c
}

// runReal runs a cell in wall-clock time in this process.
func runReal(ctx context.Context, name string, j *experiment.Job, tell func(experiment.Progress)) (table.Bundle, error) {
	unix.CloseOnExec(progressFD) // the hosts' programs would keep it open
	r := real.Runner{Name: name, Enter: hostCommand(name), Tell: tell, Warn: func(err error) { fmt.Fprintln(os.Stderr, "weft:", err) }}
	return r.Run(ctx, j)
}

// cellRootless runs a cell in wall-clock time in a process with its own namespaces, as
// upRootless runs a lab.
func cellRootless(ctx context.Context, name string, j *experiment.Job, progress *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := netnslab.PrepareRootless(name)
	if err != nil {
		return err
	}
	job, err := json.Marshal(j)
	if err != nil {
		return err
	}
	c := exec.Command(self, cellCommand, "--rootless", dir, "--lab", name)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(job), os.Stdout, os.Stderr
	c.ExtraFiles = []*os.File{progress}
	c.SysProcAttr = netnslab.NewNamespaces()
	return runInside(ctx, c, "cell", name)
}
