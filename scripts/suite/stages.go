package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stage is a step of the suite: a command, or tests of some packages.
type stage struct {
	name     string
	argv     []string // of the command
	packages []string // or of the tests
	flags    []string // of go test
	env      []string // more of the environment of either
	skip     string   // why it does not run
}

// commandStage returns a stage that runs a command.
func commandStage(name string, argv ...string) *stage { return &stage{name: name, argv: argv} }

// testStage returns a stage that runs the tests of packages with these flags.
func testStage(name string, packages []string, flags ...string) *stage {
	return &stage{name: name, packages: packages, flags: flags}
}

// runStage runs the stage. It returns an error if the stage did not pass.
func (st *stage) runStage(ctx context.Context, s *suite, o *outcome) error {
	if st.skip != "" {
		return nil
	}
	if len(st.packages) > 0 {
		return st.runTests(ctx, s, o)
	}
	out, err := st.newCommand(ctx, st.argv...).CombinedOutput()
	o.output = out
	return err
}

// cleanUpTime is how long an interrupted command may take to clean up behind itself.
const cleanUpTime = time.Minute

// newCommand returns a command of the stage. If the context ends, it is interrupted with all that it has
// started, as on a terminal. What then does not end is killed: a shell that starts a program just
// then can keep the signal from it.
func (st *stage) newCommand(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error {
		group := -c.Process.Pid
		time.AfterFunc(cleanUpTime, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return syscall.Kill(group, syscall.SIGINT)
	}
	c.WaitDelay = cleanUpTime
	c.Env = append(os.Environ(), st.env...)
	return c
}

// module is the path of this module.
const module = "github.com/weftlab/weft"

// realTime matches the packages whose tests run in real time, with namespaces, devices or real
// programs. Those of e2e run the built command.
var realTime = regexp.MustCompile(`^` + module + `/(e2e/[a-z]+|emu/lab|emu/wall|emu/doctor|netns-lab)$`)

// endToEnd matches the packages whose tests run the built command: the race detector would look
// at the tests only, not at the command.
var endToEnd = regexp.MustCompile(`^` + module + `/e2e/`)

// stagesOf returns the stages of a form of the suite: of lanes that run beside each other, and of
// those that run when these are done.
func stagesOf(form, part string) ([][][]*stage, error) {
	all, err := listPackages("./...")
	if err != nil {
		return nil, err
	}
	timed, pure := splitPackages(all, realTime.MatchString)
	format := commandStage("gofmt", "scripts/format.sh")
	lint := commandStage("go vet and staticcheck", "go", "run", "./scripts/lint", "./...")
	switch form {
	case "quick":
		return [][][]*stage{{{format, commandStage("go vet", "go", "vet", "./..."), testStage("unit tests", pure, "-short")}}}, nil
	case "plain", "all":
	default:
		return nil, fmt.Errorf("-form %s: must be quick, plain or all", form)
	}
	if form == "all" {
		part = "1/1"
	}
	raced, err := racedOf()
	if err != nil {
		return nil, err
	}
	raced, _ = splitPackages(raced, func(p string) bool { return !endToEnd.MatchString(p) })
	racedTimed, racedPure := splitPackages(raced, realTime.MatchString)
	// Packages of real time run beside each other, and so do the tests in them: testlab lets as
	// many labs run at once as the machine has room for.
	beside := []string{"-count=1", "-p", strconv.Itoa(runtime.NumCPU()), "-parallel", strconv.Itoa(4 * runtime.NumCPU())}
	timedTests := testStage("tests with real programs and real time", timed, beside...)
	bin, err := filepath.Abs("bin")
	if err != nil {
		return nil, err
	}
	timedTests.env = []string{"WEFT_TEST_BIN=" + bin}
	first := []*stage{format, commandStage("build of weft and its libraries", "scripts/build.sh")} // both lanes need it
	real := []*stage{timedTests, demoStage()}
	compute := []*stage{
		lint,
		testStage("tests of what is pure", pure, "-count=1"),
		testStage("tests of what is pure, with the race detector", racedPure, "-count=1", "-race", "-short"),
		testStage("tests of real time, with the race detector", racedTimed, append(beside, "-race", "-short")...),
	}
	if part != "" {
		long, err := longOf(part)
		if err != nil {
			return nil, err
		}
		real = append(real, long...)
	}
	return [][][]*stage{{first}, {real, compute}}, nil
}

// demoStage is the README's demo, which needs root or a kernel that allows labs of users.
func demoStage() *stage {
	st := commandStage("the README's demo", "scripts/demo.sh")
	if out, err := exec.Command("scripts/need-labs.sh").CombinedOutput(); err != nil {
		st.skip = strings.TrimSpace(string(out))
	}
	return st
}

// longOf returns the part i/n of what takes long.
func longOf(part string) ([]*stage, error) {
	var i, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-part %s: give a part such as 2/8", part)
	}
	forms := testStage("quick forms of papers, and long forms of labs and of RDMA programs, part "+part,
		[]string{module + "/e2e/experiment", module + "/e2e/sim", module + "/e2e/rdma"}, "-count=1", "-run", "^TestPapers_|^TestLabs_LongForm|^TestRDMAPrograms_RunUnmodified$")
	forms.env = []string{"WEFT_TEST_LONG=1", "WEFT_TEST_PART=" + part}
	long := []*stage{
		forms,
		commandStage("fuzzing, part "+part, "scripts/fuzz.sh", "--part", part, "20s"),
		commandStage("tests again and again beside busy loops, part "+part, "scripts/flaky.sh", "--part", part),
	}
	if i == n {
		both := testStage("RDMA between weft and Linux, in both directions", []string{module + "/e2e/vm"}, "-count=1", "-run", "^TestRDMA_BetweenWeftAndLinux$")
		both.env = forms.env
		long = append(long, both)
		soak := commandStage("soak", "scripts/bench/soak.sh")
		soak.env = []string{"MINUTES=5"}
		if os.Geteuid() != 0 {
			soak.skip = "it needs root"
		}
		long = append(long, soak)
	}
	return long, nil
}

// listPackages returns the paths of packages.
func listPackages(patterns ...string) ([]string, error) {
	return outputOf(exec.Command("go", append([]string{"list"}, patterns...)...))
}

// racedOf returns the packages whose tests are worth running with the race detector.
func racedOf() ([]string, error) { return outputOf(exec.Command("go", "run", "./scripts/raced")) }

func outputOf(c *exec.Cmd) ([]string, error) {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, stderr.String())
	}
	return strings.Fields(string(out)), nil
}

// splitPackages returns the packages for which is is true, and the others.
func splitPackages(packages []string, is func(string) bool) (yes, no []string) {
	for _, p := range packages {
		if is(p) {
			yes = append(yes, p)
		} else {
			no = append(no, p)
		}
	}
	return slices.Clip(yes), slices.Clip(no)
}
