package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
)

// pathInTree is a path in weft's repository.
var pathInTree = regexp.MustCompile(`\b(?:papers|docs|scripts|dashboards)/[\w./-]*\w`)

// TestHelp_NamesFilesThatExist: the files of the repository that help texts name are there.
func TestHelp_NamesFilesThatExist(t *testing.T) {
	named := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, name := range pathInTree.FindAllString(c.Long+"\n"+c.Example+"\n"+c.Flags().FlagUsages(), -1) {
			named++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("weft help %s: %v", c.CommandPath(), err)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRoot())
	if named < 4 {
		t.Errorf("only %d files are named: the test does not find them", named)
	}
}
