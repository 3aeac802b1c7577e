package cli

import (
	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
)

func newWhyNoPause() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "why-no-pause PORT",
		Short: "Explain why a switch port did or did not pause its peer",
		Long: `Show how close the traffic that came in through a switch port has been to the
thresholds at which its peer is paused (PFC, PAUSE): for each class what came in,
how much of it waited, how close that came to xoff and when, and what else held
it down, such as marks and drops.

The port may also be written lab/port. In virtual time use: weft sim FILE --why-no-pause PORT`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePorts,
	}
	name := labFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		*name, args[0] = splitLab(*name, args[0])
		client, err := connectLab(*name)
		if err != nil {
			return err
		}
		check, err := client.CheckPause(c.Context(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(check)
		}
		report.WritePause(stdout, &check)
		return nil
	}
	return c
}
