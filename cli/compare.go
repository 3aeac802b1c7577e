package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/experiment"
)

func newCompare() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare the results of two experiments",
		Long: `Compare the results of two experiments, and show which differences exceed the
95% confidence interval of the difference (Welch's t test). A and B
are directories of results, or the result.json in them.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var r [2]*experiment.Report
			for i, name := range args {
				var err error
				if r[i], err = readResult(name); err != nil {
					return badInput(err)
				}
			}
			differences, err := experiment.Compare(r[0], r[1])
			if err != nil {
				return badInput(fmt.Errorf("%s and %s: %w", args[0], args[1], err))
			}
			if asJSON {
				w := json.NewEncoder(stdout)
				w.SetIndent("", "  ")
				return w.Encode(differences)
			}
			experiment.WriteComparison(stdout, r[0], r[1], differences, all)
			return nil
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also print values that do not differ")
	c.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	return c
}

// readResult reads the result of an experiment from a file or from its directory.
func readResult(name string) (*experiment.Report, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "result.json")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r, err := experiment.ReadReport(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}
