package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
)

func newSet() *cobra.Command {
	var out, in, asJSON bool
	var class string
	c := &cobra.Command{
		Use:   "set PORT KEY=VALUE...",
		Short: "Change a link or a queue of a running lab",
		Long: `Change the link at a port, in both directions unless --out or --in says
otherwise. The settings are the link settings of the lab file:

  weft set s1:3 loss=1% rate=1Gbps
  weft set h1:eth0 state=down
  weft set --out s1:3 delay=1ms jitter=100us jitter-distribution=normal

Or change the queue of the port, at a port with several classes that of --class: limit;
alpha and weight of a class; the marking thresholds kmin, kmax and pmax (red) or k (step);
and when the port pauses its peer for the class: xoff or pause-alpha, xon or offset:

  weft set s1:3 limit=200KB
  weft set s1:3 --class roce xoff=300KB xon=290KB kmin=50KB

The port may also be written lab/port.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeSettings,
	}
	name := labFlag(c)
	c.Flags().BoolVar(&out, "out", false, "only the direction that leaves the port")
	c.Flags().BoolVar(&in, "in", false, "only the direction that enters the port")
	c.Flags().StringVarP(&class, "class", "c", "", "the class whose queue changes, at a port with several")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		*name, args[0] = splitLab(*name, args[0])
		if class != "" || change.SetsQueue(args[1:]) {
			if out || in {
				return badInput(errors.New("--out and --in are for links: a queue is where packets leave the port"))
			}
			return setQueue(c.Context(), *name, args, class, asJSON)
		}
		patch, err := change.ParseAssignments(args[1:])
		if err != nil {
			return badInput(err)
		}
		direction, err := directionOf(out, in)
		if err != nil {
			return err
		}
		client, err := connectLab(*name)
		if err != nil {
			return err
		}
		r, err := client.Set(c.Context(), args[0], direction, patch)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(r)
		}
		printSettings(r)
		return nil
	}
	return c
}

// setQueue changes a queue and shows it.
func setQueue(ctx context.Context, name string, args []string, class string, asJSON bool) error {
	patch, err := change.ParseQueueAssignments(args[1:])
	if err != nil {
		return badInput(err)
	}
	client, err := connectLab(name)
	if err != nil {
		return err
	}
	p, err := client.SetQueue(ctx, args[0], class, patch)
	if err != nil {
		return badInput(err)
	}
	if asJSON {
		return printJSON(p)
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if len(p.Classes) == 0 {
		fmt.Fprintf(t, "%s\tqueue %s\tlimit %s\n", p.Name, report.Size(float64(p.QueueBytes)), report.Size(float64(p.QueueLimit)))
	}
	for _, k := range p.Classes {
		if class != "" && k.Name != class {
			continue
		}
		fmt.Fprintf(t, "%s\tclass %s\tqueue %s", p.Name, k.Name, report.Size(float64(k.QueueBytes)))
		if k.QueueLimit > 0 {
			fmt.Fprintf(t, "\tlimit %s", report.Size(float64(k.QueueLimit)))
		}
		if k.Xoff > 0 {
			fmt.Fprintf(t, "\txoff %s", report.Size(float64(k.Xoff)))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func directionOf(out, in bool) (string, error) {
	switch {
	case out && in:
		return "", badInput(errors.New("--out and --in exclude each other; without them both directions change"))
	case out:
		return lab.Egress, nil
	case in:
		return lab.Ingress, nil
	}
	return lab.Both, nil
}

// printSettings shows both directions of a link as they are now.
func printSettings(r lab.SetResult) {
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, p := range r.Ports {
		l := p.Link
		fmt.Fprintf(t, "%s -> %s\t%s\trate %s\tdelay %s\tmtu %d", p.Name, p.Peer, l.State, l.Rate, l.Delay, l.MTU)
		for _, s := range []struct {
			name  string
			value fmt.Stringer
			shown bool
		}{
			{"loss", l.Loss, l.Loss > 0}, {"corrupt", l.Corrupt, l.Corrupt > 0}, {"duplicate", l.Duplicate, l.Duplicate > 0},
			{"reorder", l.Reorder, l.Reorder > 0}, {"reorder-by", l.ReorderBy, l.Reorder > 0},
			{"jitter", l.Jitter, l.Jitter > 0}, {"jitter-distribution", l.JitterDistribution, l.Jitter > 0},
		} {
			if s.shown {
				fmt.Fprintf(t, "\t%s %s", s.name, s.value)
			}
		}
		if l.JitterReorder {
			fmt.Fprint(t, "\tjitter-reorder true")
		}
		if l.DropMatch != "" {
			fmt.Fprintf(t, "\tdrop-match %s", l.DropMatch)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
