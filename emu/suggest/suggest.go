// Package suggest helps with unknown names: it finds the known name that the user may
// have meant, and lists the known names.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed is the maximum number of names listed.
const maxListed = 16

// Hint returns the hint for a name that is not in known: the nearest known
// name, if one is near, or those that contain it, and the list of known names
// after intro.
func Hint(name, intro string, known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	list := intro + " " + List(known)
	near, ok := Nearest(name, known)
	if ok {
		return fmt.Sprintf("did you mean %q? (%s)", near, list)
	}
	switch some := containing(name, known); {
	case len(some) == 1:
		return fmt.Sprintf("did you mean %q? (%s)", some[0], list)
	case len(some) > 1 && len(some) < len(known):
		return fmt.Sprintf("did you mean one of %s? (%s)", List(some), list)
	}
	return list
}

// containing returns the known names in which each word of name begins a word, in the order of
// known: fct_s and fct_p99_s for fct. Words end at -, _, . and blanks.
func containing(name string, known []string) (some []string) {
	words := wordsOf(name)
	if len(words) == 0 {
		return nil
	}
	for _, k := range known {
		of := wordsOf(k)
		if !slices.ContainsFunc(words, func(w string) bool {
			return !slices.ContainsFunc(of, func(o string) bool { return strings.HasPrefix(o, w) })
		}) {
			some = append(some, k)
		}
	}
	return some
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_. ", r) })
}

// List lists names; of many, only the first ones and the number of the others. It leaves out no
// less than minLeft.
func List(names []string) string {
	const minLeft = 5
	if more := len(names) - maxListed; more >= minLeft {
		return strings.Join(names[:maxListed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// Nearest returns the known name with the fewest edits from name; among equals
// it prefers one with the same beginning. Near means edits of at most a third
// of the letters, or one edit in a name of at least two letters.
func Nearest(name string, known []string) (string, bool) {
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

// edits returns the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours each count as one.
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
