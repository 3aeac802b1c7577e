package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
)

func newWhyNoPause() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "why-no-pause PORT",
		Short: "Say why a switch's port did or did not pause its peer",
		Long: `Say how near what came in through a port of a switch has been to the thresholds
at which its peer is paused (PFC, PAUSE): for each class what came in, how much
of it waited, how near that came to xoff and when, and what else held it down,
such as marks and drops.

In virtual time the same is asked by: weft sim FILE --why-no-pause PORT`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePorts,
	}
	name := labFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := connect(*name)
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
		report.WritePause(os.Stdout, &check)
		return nil
	}
	return c
}
