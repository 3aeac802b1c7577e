package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/doctor"
)

func newDoctor() *cobra.Command {
	var quick, asJSON, inside bool
	c := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "Check this machine and predict what labs it can run",
		Long: `Check whether this machine has what labs need, and measure for about eight
seconds what labs can be expected to do. Without root, checks that need it are
left out. Everything made for the checks is removed. With a lab file it reports
the dilation at which the lab is on time on this machine.

The exit code is 0 if labs can run and 1 if something that they need is missing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o := doctor.Options{Quick: quick}
			if inside {
				return doctor.RunInside(c.Context(), o, stdout)
			}
			if len(args) == 1 {
				var err error
				if o.Plan, err = loadFile(c.Context(), args[0]); err != nil {
					return err
				}
			}
			o.Self = []string{"/proc/self/exe", "doctor", "--inside", fmt.Sprintf("--quick=%v", quick)}
			terminal := isTerminal(os.Stderr)
			if terminal {
				fmt.Fprint(os.Stderr, "measuring ...")
			}
			r, err := doctor.Run(c.Context(), o)
			if terminal {
				fmt.Fprint(os.Stderr, "\r\033[K") // erase the progress line
			}
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(r); err != nil {
					return err
				}
			} else {
				r.Write(stdout)
			}
			if r.Verdict == doctor.Bad {
				return &exitError{exitFailed, errors.New("")} // already printed
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&quick, "quick", "q", false, "measure for only about a second; the figures are less precise")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&inside, "inside", false, "print only findings in namespaces; for a child in a user namespace")
	_ = c.Flags().MarkHidden("inside")
	return c
}
