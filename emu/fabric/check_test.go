package fabric

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// check is rapid.Check with a share of the usual number of checks, in percent, for
// properties that run whole fabrics several times each.
func check(t *testing.T, percent int, prop func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	usual := checks.String()
	n, err := strconv.Atoi(usual)
	if err != nil {
		t.Fatal(err)
	}
	if err := checks.Set(strconv.Itoa(max(1, n*percent/100))); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = checks.Set(usual) }() // as it was
	rapid.Check(t, prop)
}
