package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/experiment/file"
	"github.com/weftlab/weft/observe/dissector"
	"github.com/weftlab/weft/view/graph"
)

func newValidate() *cobra.Command {
	var verbose, strict bool
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check lab files and report their errors",
		Long: `Check lab files and report their errors, and warn of what a file may say and its author
probably does not want: headroom that is too small, thresholds that are never reached,
PFC at one end of a link only, NICs outside the lossless class, rate controls without
marks, links with a smaller MTU than the hosts, events after the end. With --strict a
warning counts as an error. A FILE of - is standard input:

  envsubst < lab.yaml.in | weft validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			bad := 0
			for _, name := range args {
				p, err := parseFile(c.Context(), name, nil)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					bad++
					continue
				}
				for _, w := range p.Warnings {
					fmt.Fprintln(os.Stderr, "warning:", w)
				}
				if strict && len(p.Warnings) > 0 {
					bad++
					continue
				}
				hosts := 0
				for i := range p.Nodes {
					if p.Nodes[i].Kind == plan.Host {
						hosts++
					}
				}
				printf("%s: good: %d hosts, %d switches, %d links, %d events, %d flows, %d transfers, %d patterns of flows\n",
					p.File, hosts, len(p.Nodes)-hosts, len(p.Links), len(p.Events)+len(p.QueueEvents), len(p.Flows), len(p.Transfers), len(p.Traffic))
				for _, note := range p.Unreached() {
					fmt.Fprintf(os.Stderr, "%s: note: %s\n", p.File, note)
				}
				if verbose {
					report.WriteNodeClocks(stdout, report.NodeClocks(p), true)
					report.WriteHeadrooms(stdout, report.Headrooms(p))
				}
			}
			switch {
			case bad > 0 && strict:
				return badInput(fmt.Errorf("%d of %d files have errors or warnings", bad, len(args)))
			case bad > 0:
				return badInput(fmt.Errorf("%d of %d files have errors", bad, len(args)))
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show clocks that are not exact, and when ports pause and how their headroom follows, as weft headroom does")
	c.Flags().BoolVar(&strict, "strict", false, "warnings count as errors")
	return c
}

func newGraph() *cobra.Command {
	var dot bool
	c := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a lab file as SVG or as Graphviz DOT",
		Long: `Draw the topology of a lab file on standard output.

FILE may be - for standard input.

  weft graph lab.yaml > lab.svg
  weft graph --dot lab.yaml | neato -Tpng > lab.png`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := loadFile(c.Context(), args[0])
			if err != nil {
				return err
			}
			if dot {
				return graph.WriteDOT(stdout, p)
			}
			return graph.WriteSVG(stdout, p)
		},
	}
	c.Flags().BoolVar(&dot, "dot", false, "Graphviz DOT instead of SVG")
	return c
}

func newSchema() *cobra.Command {
	var ofExperiments bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of lab files, or of experiment files, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			schema := labfile.Schema
			if ofExperiments {
				schema = file.Schema
			}
			b, err := schema()
			if err != nil {
				return err
			}
			_, err = stdout.Write(b)
			return err
		},
	}
	c.Flags().BoolVar(&ofExperiments, "experiment", false, "print the schema of experiment files")
	return c
}

func newDissector() *cobra.Command {
	return &cobra.Command{
		Use:   "dissector",
		Short: "Print a dissector for Wireshark: trimmed packets, RoCEv2 congestion notification, connection management",
		Example: `  weft dissector > weft.lua && wireshark -X lua_script:weft.lua trace.pcapng
  weft dissector > ~/.local/lib/wireshark/plugins/weft.lua`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := stdout.Write(dissector.Lua())
			return err
		},
	}
}
