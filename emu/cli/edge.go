package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
)

func newEdge() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "edge [HOST|HOST:PORT]",
		Short: "Show the flows that the edge services of a running lab know",
		Long: `Show the flows that the edge services of a running lab know, or of one host or
interface: between which addresses, at which rate each may send, what of it waits
and what was sent, and what its rate control shows. A host may also be written
lab/host.

  weft edge
  weft edge h1:eth0

In virtual time the same is asked by: weft sim FILE --edge`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeEdges,
	}
	lab := labFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, fmt.Sprintf("all of them, not only the first %d", maxPairs))
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, of all of them")
	c.RunE = func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			*lab, name = splitLab(*lab, args[0])
		}
		client, err := connect(*lab)
		if err != nil {
			return err
		}
		flows, err := client.EdgeFlows(c.Context(), name)
		switch {
		case err != nil:
			return err
		case asJSON:
			return printJSON(flows)
		}
		report.WriteEdgeFlows(os.Stdout, flows, limitOf(all))
		return nil
	}
	return c
}
