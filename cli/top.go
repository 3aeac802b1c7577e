package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/top"
)

// A sample stops the engine for a moment: more than ten per second would be noticeable.
const (
	minInterval = 100 * units.Millisecond
	maxInterval = units.Hour
)

func newTop() *cobra.Command {
	interval := units.Second
	var once bool
	c := &cobra.Command{
		Use:   "top [LAB]",
		Short: "Watch a running lab's ports: rates, queues, drops, marks, pauses",
		Long: `Watch the ports of a running lab: rates in and out, utilization of the link,
queues, drops, marks, trims, and the share of time for which a port is paused by
its peer or pauses it. The header shows how well the emulator keeps up.

Keys: < and > (or the arrows) choose the column to sort by, r reverses, / filters
by name (esc ends it), t shows switches or hosts only, c or enter shows a port's
classes, p or space freezes and resumes, q quits.

With --once, or if standard output is not a terminal that can be drawn on, it
prints one table and exits.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeLabs,
	}
	name := labFlag(c)
	spanFlag(c, &interval, "interval", "time between two samples, 100ms to 1h")
	c.Flags().BoolVar(&once, "once", false, "print what happened in one interval as plain text")
	c.RunE = func(c *cobra.Command, args []string) error {
		if interval < minInterval || interval > maxInterval {
			return badInput(fmt.Errorf("--interval %v: it must be from %v to %v", interval, minInterval, maxInterval))
		}
		if len(args) == 1 {
			if *name != "" && *name != args[0] {
				return badInput(errors.New("the argument and --lab name different labs: use one of them"))
			}
			*name = args[0]
		}
		client, err := connectLab(*name)
		if err != nil {
			return err
		}
		every := interval.Duration()
		if term := os.Getenv("TERM"); once || !isTerminal(os.Stdout) || term == "" || term == "dumb" {
			return top.PrintOnce(c.Context(), client.Sample, every, stdout)
		}
		return top.Run(c.Context(), client.Sample, every)
	}
	return c
}
