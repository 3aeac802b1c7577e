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
		Short: "Examine this machine and predict what labs it can carry",
		Long: `Examine this machine: what labs need and whether it is there, and, by measuring
for some eight seconds, what they can be expected to do. Without root, what
needs it is left out. Nothing that is made for it stays. With a lab file it says at
what dilation the lab is on time on this machine.

The exit code is 0 if labs can be run and 1 if something that they need is
missing.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o := doctor.Options{Quick: quick}
			if inside {
				return doctor.Inside(c.Context(), o, os.Stdout)
			}
			if len(args) == 1 {
				var err error
				if o.Plan, err = load(c.Context(), args[0]); err != nil {
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
				r.Write(os.Stdout)
			}
			if r.Verdict == doctor.Bad {
				return &exitError{exitFailed, errors.New("")} // already printed
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&quick, "quick", "q", false, "measure for about a second only; the figures are rougher")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&inside, "inside", false, "print only what is found in namespaces; for a child in a user namespace")
	_ = c.Flags().MarkHidden("inside")
	return c
}
