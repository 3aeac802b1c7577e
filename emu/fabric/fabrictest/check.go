package fabrictest

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Check is rapid.Check with a percentage of the usual number of checks, for properties that
// run whole fabrics several times each. With -short, which is for runs with the race
// detector, it is a quarter of that: workers that touch the same memory do so in most
// random labs, and the detector makes each ten times as slow.
func Check(t *testing.T, percent int, prop func(*rapid.T)) {
	t.Helper()
	if testing.Short() {
		percent /= 4
	}
	checks := flag.Lookup("rapid.checks").Value
	usual := checks.String()
	n, err := strconv.Atoi(usual)
	if err != nil {
		t.Fatal(err)
	}
	if err := checks.Set(strconv.Itoa(max(1, n*percent/100))); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = checks.Set(usual) }() // restores it
	rapid.Check(t, prop)
}
