package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
)

func newEdge() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "edge [HOST|HOST:PORT]",
		Short: "Show the flows of the edge services of a running lab",
		Long: `Show the flows of the edge services of a running lab, or of one host or
interface: their addresses, the rate at which each may send, what is waiting and
what was sent, and the state of its rate control. A host may also be written
lab/host.

  weft edge
  weft edge h1:eth0

In virtual time use: weft sim FILE --edge`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeEdges,
	}
	lab := labFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, fmt.Sprintf("show all, not only the first %d", maxPairs))
	c.Flags().BoolVar(&asJSON, "json", false, "print all as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			*lab, name = splitLab(*lab, args[0])
		}
		client, err := connectLab(*lab)
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
		report.WriteEdgeFlows(stdout, flows, limitOf(all))
		return nil
	}
	return c
}
