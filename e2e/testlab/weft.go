package testlab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftlab/weft/internal/await"
)

// Exit codes of weft, as docs/cli.md lists them.
const (
	ExitFailed   = 1
	ExitBadInput = 2
	ExitStrict   = 3
	ExitTraffic  = 4
	ExitSignal   = 128 // plus the number of the signal
)

// built is the environment variable with the directory of a weft command that is built already,
// with bin/verbs and the other libraries beside it. scripts/test.sh sets it, so that not every
// package builds its own.
const built = "WEFT_TEST_BIN"

// Build builds the weft command once for all tests of the process and returns its path. Its
// directory is removed at the end of the process, and tests may put files there.
var Build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weft-test-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for tests that run as another user
		return "", err
	}
	path := filepath.Join(dir, "weft")
	if from := os.Getenv(built); from != "" {
		err = runCommand("cp", "-rL", from+"/.", dir) // what is in it
	} else {
		err = runCommand("go", "build", "-o", path, "github.com/weftlab/weft")
	}
	if err != nil {
		return "", err
	}
	if cleanUp, err = startCleaner(path); err != nil {
		return "", err
	}
	return path, nil
})

// BuildVerbs builds the libraries for RDMA programs once, beside the command.
var BuildVerbs = sync.OnceValue(func() error { return buildLibrary("verbs", "scripts/verbs.sh", "verbs") })

// BuildSlowClock builds the library with a dilated lab's clock once, beside the command.
var BuildSlowClock = sync.OnceValue(func() error { return buildLibrary("slowclock.so", "scripts/slowclock.sh", "") })

// buildLibrary runs a script that builds a library into a place beside the command, unless the
// library is there.
func buildLibrary(library, script, place string) error {
	weft, err := Build()
	if err != nil {
		return err
	}
	dir := filepath.Dir(weft)
	if _, err := os.Stat(filepath.Join(dir, library)); err == nil {
		return nil
	}
	return runCommand(filepath.Join("../..", script), filepath.Join(dir, place))
}

// runCommand runs a command, and returns its output if it fails.
func runCommand(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// cleanUp is nil if no test has needed the command.
var cleanUp *cleaner

// Main is the TestMain of a package of end-to-end tests. It removes what their labs have left.
func Main(m *testing.M) {
	code := m.Run()
	if cleanUp != nil {
		cleanUp.finishCleaning()
	}
	os.Exit(code)
}

// Weft returns the path of the weft command, for tests that need no privileges.
func Weft(t *testing.T) string {
	t.Helper()
	path, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Need returns the path of the weft command for a test that starts labs, which needs root and
// some programs. It skips the test if these are missing, and waits for the test's turn: only as
// many tests with labs run at once as the machine has room for.
func Need(t *testing.T, programs ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out tests with real programs")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: this test makes network namespaces and needs root")
	}
	NeedPrograms(t, programs...)
	path := Weft(t)
	takeTurn(t)
	return path
}

// NeedPrograms skips a test that starts no labs if programs are missing.
func NeedPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: this test needs %s: run scripts/test.sh, which installs it", p)
		}
	}
}

// NeedVerbs skips a test if the libraries for RDMA programs cannot be built.
func NeedVerbs(t *testing.T) {
	t.Helper()
	for _, header := range []string{"infiniband/verbs.h", "rdma/rdma_cma.h"} {
		c := exec.Command("gcc", "-E", "-x", "c", "-")
		c.Stdin = strings.NewReader("#include <" + header + ">\n")
		if c.Run() != nil {
			t.Skipf("SKIPPED: this test needs the header %s: run scripts/test.sh, which installs it", header)
		}
	}
	if err := BuildVerbs(); err != nil {
		t.Fatal(err)
	}
}

// RunWeft runs the weft command and returns its output and its exit code.
func RunWeft(t *testing.T, weft string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return RunCommand(t, exec.Command(weft, args...))
}

// RunCommand runs a command and returns its output and its exit code. A command that hangs is
// killed, and its exit code is then -1.
func RunCommand(t *testing.T, c *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Start()
	if err == nil {
		// A hanging program must not hang the test suite; the limit is far
		// longer than any call takes.
		limit := time.AfterFunc(await.Limit, func() { _ = c.Process.Kill() })
		defer limit.Stop()
		err = c.Wait()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", strings.Join(c.Args, " "), err)
	}
	return o.String(), e.String(), code
}
