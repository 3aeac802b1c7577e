package rdma

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestLibraries_AreCleanUnderValgrind: in programs that use them in different ways the libraries
// pass no uninitialised bytes to the kernel, use none, and lose no memory.
func TestLibraries_AreCleanUnderValgrind(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "valgrind", "rping", "udaddy", "ibv_rc_pingpong")
	supp, err := filepath.Abs("testdata/valgrind/programs.supp")
	if err != nil {
		t.Fatal(err)
	}
	memcheck := []string{"valgrind", "-q", "--error-exitcode=99", "--suppressions=" + supp}
	under := func(argv ...string) []string {
		leaks := []string{"--leak-check=full", "--errors-for-leak-kinds=definite,possible", "--show-leak-kinds=definite,possible"}
		return slices.Concat(memcheck, leaks, argv)
	}
	for _, c := range []struct{ server, client []string }{
		{[]string{"rping", "-s", "-C", "5"}, []string{"rping", "-c", "-a", "10.0.0.1", "-C", "5"}},
		{[]string{"udaddy"}, []string{"udaddy", "-s", "10.0.0.1"}},
		{[]string{"ibv_rc_pingpong", "-g", "0", "-n", "5"}, []string{"ibv_rc_pingpong", "-g", "0", "-n", "5", "10.0.0.1"}},
	} {
		served, said := l.RunRDMA(under(c.server...), under(c.client...))
		if text := served + said; strings.Contains(text, "==") && strings.Contains(text, "libibverbs") {
			t.Errorf("%s: valgrind complains:\n%s", c.server[0], text)
		}
	}
	program := buildChecks(t) // which leaves its own objects behind
	for _, check := range []string{"fields_outside_a_mask_are_not_read", "errors_are_in_errno_too"} {
		if o, e, code := l.Run(slices.Concat([]string{"exec", "-l", l.Name, "h1", "--"}, memcheck, []string{program, check})...); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", check, code, o, e)
		}
	}
}
