package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
)

func newDown() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "down [LAB]",
		Short: "End a lab, print its report and remove everything it made",
		Long: `End a lab and print its report. Programs still running in its hosts are ended.
What a crashed lab left behind is removed as well. Without a name it ends the
lab that WEFT_LAB names, or the only one, if that was started from this terminal
or directory; otherwise it asks, or without a terminal wants the name.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeLabs,
	}
	given := labFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := labOf(args, *given)
		if err != nil {
			return err
		}
		labs, err := labsToEnd(name, all)
		if err != nil {
			return err
		}
		var errs []error
		for _, i := range labs {
			errs = append(errs, endLab(c.Context(), i, asJSON))
		}
		return errors.Join(errs...)
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "end all labs")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func labsToEnd(name string, all bool) ([]netnslab.Info, error) {
	if name == "" && !all {
		name = os.Getenv(labVariable)
	}
	switch {
	case name != "" && all:
		return nil, badInput(fmt.Errorf("both --all and the lab %s are given: give one", name))
	case name != "":
		i, err := netnslab.FindLab(name)
		return []netnslab.Info{i}, err
	}
	labs, err := netnslab.ListLabs()
	switch {
	case err != nil || all:
		return labs, err
	case len(labs) == 0:
		return nil, errors.New("there is no lab to end" + rootsLabs())
	case len(labs) > 1:
		return nil, badInput(fmt.Errorf("there are %d labs: name one, or use --all", len(labs)))
	}
	return labs, mayEnd(labs[0])
}

// How long a lab may take to end after a request, after SIGTERM and after SIGKILL.
const (
	askedGrace    = 10 * time.Second
	signalledWait = 5 * time.Second
	killedWait    = 2 * time.Second
)

// endLab ends one lab: with a request, else with SIGTERM, else with SIGKILL.
func endLab(ctx context.Context, i netnslab.Info, asJSON bool) error {
	if !i.Running {
		if err := netnslab.SweepLab(i.Name); err != nil {
			return err
		}
		printf("removed what lab %s had left behind when it crashed\n", i.Name)
		return nil
	}
	grace := askedGrace
	if slices.ContainsFunc(i.Hosts, func(h netnslab.HostInfo) bool { return h.Virtual }) {
		grace += lab.PowerOff // for guests that write to their disks
	}
	r, err := askDown(ctx, i)
	if err == nil {
		if waitForOwnerEnd(i, grace) {
			return finishReport(r, asJSON)
		}
		err = fmt.Errorf("it has not ended %v after its report", grace)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Fprintf(os.Stderr, "weft: lab %s: %v; sending it a signal\n", i.Name, err)
	for _, step := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.SIGTERM, signalledWait}, {unix.SIGKILL, killedWait}} {
		if err := unix.Kill(i.PID, step.signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("lab %s, pid %d: %w", i.Name, i.PID, err)
		}
		_ = unix.Kill(i.PID, unix.SIGCONT) // a stopped process acts on no signal but SIGKILL
		if waitForOwnerEnd(i, step.wait) {
			break
		}
	}
	if err := netnslab.SweepLab(i.Name); err != nil && !errors.Is(err, netnslab.ErrUnknown) {
		return err
	}
	return nil
}

// askDown asks a lab to end. A stopped process is continued before the request: a
// request whose client has given up would end the lab without a report. A process that
// was just told to stop may still run for a moment, so askDown first asks for the
// status, which may go unanswered.
func askDown(ctx context.Context, i netnslab.Info) (*report.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askedGrace, fmt.Errorf("its process %d has not answered for %v", i.PID, askedGrace))
	defer cancel()
	client := lab.NewClient(i.Dir)
	var silent *lab.NoAnswerError
	if _, err := client.Status(ctx); errors.As(err, &silent) && silent.Stopped {
		fmt.Fprintf(os.Stderr, "weft: process %d of lab %s is stopped: resuming it to end the lab\n", i.PID, i.Name)
		if err := unix.Kill(i.PID, unix.SIGCONT); err != nil {
			return nil, fmt.Errorf("SIGCONT to its process %d: %w", i.PID, err)
		}
	}
	return client.Down(ctx)
}

// waitForOwnerEnd waits until a lab's owner has ended and reports whether it has.
func waitForOwnerEnd(i netnslab.Info, wait time.Duration) bool {
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		now, err := netnslab.FindLab(i.Name)
		if err != nil || !now.Running || now.PID != i.PID {
			return true
		}
	}
	return false
}
