package cli

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/flowfile"
	"github.com/weftlab/weft/traffic/pattern"
)

func newFlows() *cobra.Command {
	var until units.Time
	var seed uint64
	var out string
	priority := 3
	c := &cobra.Command{
		Use:   "flows FILE",
		Short: "Write the flows of a lab's patterns for HPCC's published simulator",
		Long: `Write the flows that the patterns of a lab start, in the format of HPCC's published
simulator (FLOW_FILE), so that it can run the same flows. Host number i there is the
i-th host of the lab. Flows that wait for others, such as those of closed loops
and collectives, are not known in advance, and are left out.`,
		Example: "  weft flows papers/websearch/labs/fat-tree.yaml -o flow.txt",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var with *uint64
			if c.Flags().Changed("seed") {
				with = &seed
			}
			p, err := loadSeed(c.Context(), args[0], with)
			if err != nil {
				return err
			}
			flows, err := flowsOf(p, until)
			if err != nil {
				return badInput(err)
			}
			var text strings.Builder
			if err := flowfile.WriteHPCC(&text, flows, hostsOf(p), priority); err != nil {
				return badInput(err)
			}
			if out != "" && out != standardInput {
				return renameio.WriteFile(out, []byte(text.String()), 0o666)
			}
			_, err = io.WriteString(stdout, text.String())
			return err
		},
	}
	spanFlag(c, &until, "for", "write flows that start before this time; 0s means the end of the file's window, or its duration")
	numberFlag(c, &seed, "seed", "", "seed in place of the file's")
	numberFlag(c, &priority, "priority", "", "priority group of all flows, 0 to 7")
	c.Flags().StringVarP(&out, "out", "o", "", "file to write; default standard output")
	return c
}

// hostsOf returns the node numbers of a plan's hosts.
func hostsOf(p *plan.Plan) (hosts []int) {
	for i := range p.Nodes {
		if p.Nodes[i].Kind == plan.Host {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// flowsOf returns the flows that a plan's patterns create before until; 0 means the end of
// the measurement window or, without one, the duration.
func flowsOf(p *plan.Plan, until units.Time) (iter.Seq[pattern.Flow], error) {
	switch {
	case len(p.Traffic) == 0:
		return nil, fmt.Errorf("%s has no patterns of flows: write for example arrivals: in its workload", p.File)
	case until > 0:
	case p.Measure.End > 0:
		until = p.Measure.End
	case p.Duration > 0:
		until = p.Duration
	default:
		return nil, errors.New("no end time for flows: write --for 10ms, or window: or duration: in the file")
	}
	var all []iter.Seq[pattern.Flow]
	for i := range p.Traffic {
		all = append(all, pattern.PlayFlows(p.Traffic[i].Pattern, until))
	}
	return func(yield func(pattern.Flow) bool) {
		for _, f := range all {
			for flow := range f {
				if !yield(flow) {
					return
				}
			}
		}
	}, nil
}
