package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/pool"
	"github.com/weftlab/weft/experiment/remote"
)

func newWorker() *cobra.Command {
	var access accessFlags
	w := cluster.Worker{Slots: runtime.GOMAXPROCS(0)}
	var list bool
	var remove string
	c := &cobra.Command{
		Use:   "worker URL",
		Short: "Run experiment cells for others, with jobs from a NATS server",
		Long: `Run experiment cells for others: take jobs from the NATS server at URL, such as
nats://server:4222, until Ctrl-C. weft experiment --on URL puts them there. The
server needs JetStream. Both sides must be the same build of weft.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := access.dialServer(c.Context(), access.accessTo(args[0]))
			if err != nil {
				return err
			}
			defer client.Close()
			switch {
			case list:
				return listCluster(c.Context(), client)
			case remove != "":
				return client.RemoveExperiment(c.Context(), remove)
			case w.Slots < 1:
				return badInput(fmt.Errorf("--jobs %d: must be at least 1", w.Slots))
			}
			w.Client = client
			w.Say = printNotice
			err = workUntil(c.Context(), &w)
			if errors.Is(err, context.Canceled) {
				return nil // Ctrl-C is the normal end
			}
			return explainAccess(err)
		},
	}
	numberFlag(c, &w.Slots, "jobs", "j", "cells that run in parallel; default one per core")
	c.Flags().StringVar(&w.Name, "name", "", "name of this worker; default the machine's and the process ID, such as node7-4711")
	c.Flags().BoolVar(&list, "list", false, "list the workers and the experiments on the server, and run nothing")
	c.Flags().StringVar(&remove, "remove", "", "remove an abandoned experiment from the server, by its id in --list")
	access.addFlags(c)
	return c
}

// workUntil takes jobs until ctx ends.
func workUntil(ctx context.Context, w *cluster.Worker) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if w.Version, err = versionText(); err != nil {
		return err
	}
	return w.Run(ctx, remote.Run(&pool.Pool{Size: w.Slots, Command: []string{self, cellCommand}}, w.Say))
}

// printNotice prints a line about what this process does.
func printNotice(format string, args ...any) { fmt.Fprintf(os.Stderr, "weft: "+format+"\n", args...) }

// listCluster prints what is on a server.
func listCluster(ctx context.Context, client *cluster.Client) error {
	workers, err := client.ListWorkers(ctx)
	if err != nil {
		return err
	}
	experiments, err := client.ListExperiments(ctx)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "worker\tcells\tof\tbuild")
	for _, w := range workers {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", w.Name, len(w.Jobs), w.Slots, w.Version)
	}
	fmt.Fprintln(t, "\nexperiment\tid\tdone\tof\tcoordinator\tsince")
	for _, e := range experiments {
		coordinator := e.Coordinator
		if coordinator == "" {
			coordinator = "none: abandoned"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", strings.TrimSpace(e.Title), e.ID, e.Done+e.Taken, e.Jobs, coordinator, e.Created.Local().Format(time.DateTime))
	}
	return t.Flush()
}
