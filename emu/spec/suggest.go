package spec

import (
	"fmt"
	"strings"
)

// suggestAtMost bounds the names that a hint lists.
const suggestAtMost = 16

// suggest makes the hint for a name that is not among known: the nearest one,
// if any is near, and the list of them behind intro.
func suggest(name, intro string, known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	list := intro + " " + strings.Join(known[:min(len(known), suggestAtMost)], ", ")
	if more := len(known) - suggestAtMost; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if near, ok := nearest(name, known); ok {
		return fmt.Sprintf("did you mean %q? (%s)", near, list)
	}
	return list
}

// nearest finds the name that takes the fewest edits to become one of known,
// of equals one that begins alike. Near is at most a third of the letters, or
// a single one of at least two.
func nearest(name string, known []string) (string, bool) {
	far := 2 * (max(1, len(name)/3) + 1)
	if len(name) < 2 {
		far = 0
	}
	best, found := far, ""
	for _, k := range known {
		if 2*max(len(k)-len(name), len(name)-len(k)) >= best {
			continue
		}
		cost := 2 * edits(strings.ToLower(name), strings.ToLower(k))
		if k != "" && k[0] == name[0] {
			cost--
		}
		if cost < best && cost < far-1 {
			best, found = cost, k
		}
	}
	return found, found != ""
}

// edits is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours, each counted as one.
func edits(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j]+cost, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
