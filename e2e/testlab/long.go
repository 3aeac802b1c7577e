package testlab

import (
	"fmt"
	"os"
	"testing"
)

// Environment variables of the long forms of tests, which scripts/test.sh --all sets.
const (
	long     = "WEFT_TEST_LONG" // 1 to run them
	longPart = "WEFT_TEST_PART" // which part of them, such as 2/8; all without it
)

// IsLong reports whether this run wants the long forms of tests.
func IsLong() bool { return os.Getenv(long) == "1" }

// Long skips a test that takes long, unless this run wants those.
func Long(t *testing.T) {
	t.Helper()
	if !IsLong() {
		t.Skip("SKIPPED: this takes long: run scripts/test.sh --all")
	}
}

// InSample reports whether the case i of many cases that are alike, counted from 0, runs: every
// third one, and in the long form all.
func InSample(i int) bool { return IsLong() || i%3 == 0 }

// InPart reports whether the case i of a long test, counted from 0, belongs to the part of its
// cases that this run wants: i % n + 1 of n. Neighbours are in different parts, so parts take
// alike long if neighbours do.
func InPart(t *testing.T, i int) bool {
	t.Helper()
	set := os.Getenv(longPart)
	if set == "" {
		return true
	}
	var part, parts int
	if n, err := fmt.Sscanf(set, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
		t.Fatalf("%s=%q: give a part such as 2/8", longPart, set)
	}
	return i%parts+1 == part
}
