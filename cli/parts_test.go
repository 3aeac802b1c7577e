package cli

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/experiment"
)

// TestCellsOfPart_PartsAreEvenAndMakeTheWhole: each cell is in one part, and parts differ by one
// cell at most, also where there are more parts than cells.
func TestCellsOfPart_PartsAreEvenAndMakeTheWhole(t *testing.T) {
	for _, c := range []struct{ cells, parts int }{{12, 3}, {13, 3}, {2, 5}, {1, 1}, {0, 2}} {
		all := make([]experiment.Job, c.cells)
		for i := range all {
			all[i].Key = fmt.Sprintf("key%d", i)
		}
		seen := map[string]int{}
		for part := 1; part <= c.parts; part++ {
			keys := cellsOfPart(all, part, c.parts)
			if n := len(keys); n != c.cells/c.parts && n != c.cells/c.parts+1 {
				t.Errorf("%+v: part %d has %d cells", c, part, n)
			}
			for key := range keys {
				seen[key]++
			}
		}
		for _, job := range all {
			if seen[job.Key] != 1 {
				t.Errorf("%+v: %s is in %d parts", c, job.Key, seen[job.Key])
			}
		}
	}
}
