package cli

import (
	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
)

func newHeadroom() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "headroom FILE",
		Short: "Show when the switch ports of a lab file pause, and how their headroom follows",
		Long: `Show for each switch of a lab file how its buffer is divided, and for each port and
lossless class when it pauses its peer: xoff, or where a dynamic threshold is when the
port alone fills the buffer; xon, the headroom, and what the link needs, with the
formula: rate · (delays + a packet and the pause frame on the way out) + two packets.

FILE may be - for standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := loadFile(c.Context(), args[0])
			if err != nil {
				return err
			}
			all := report.Headrooms(p)
			if asJSON {
				return printJSON(all)
			}
			if len(all) == 0 {
				printf("%s: no switch has a class with pfc, or pause: nothing needs headroom\n", p.File)
			}
			report.WriteHeadrooms(stdout, all)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
