//go:build !race

package fabrictest

// Race says whether the race detector is on.
const Race = false
