package experiment

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// tree is an experiment that comes with weft.
type tree struct {
	file, name, text string
}

// wall reports whether cells run in wall-clock time, with programs.
func (x tree) wall() bool { return regexp.MustCompile(`(?m)^clock: .*\bwall\b`).MatchString(x.text) }

// quick reports whether there is a quick form.
func (x tree) quick() bool { return strings.Contains(x.text, "\nquick:") }

// cheap reports whether running it takes a few seconds at most.
func (x tree) cheap() bool { return strings.HasPrefix(x.name, "scripts/") && !x.wall() }

// experimentsOfTheTree returns the experiments that come with weft.
func experimentsOfTheTree(t *testing.T) (all []tree) {
	t.Helper()
	for _, pattern := range []string{"../../papers/*/*.yaml", "../../scripts/experiments/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no experiments at %s: %v", pattern, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel("../..", f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tree{f, name, string(text)})
		}
	}
	return all
}

// TestExperiments_OfTheTreeAreGood: the experiments that come with weft can be run in their full
// form and in their quick one, and the expectations of those hold that take seconds.
func TestExperiments_OfTheTreeAreGood(t *testing.T) {
	t.Parallel()
	for _, x := range experimentsOfTheTree(t) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			weft, out := testlab.Weft(t), filepath.Join(t.TempDir(), "out")
			forms := [][]string{{"--list"}}
			if x.quick() {
				forms = append(forms, []string{"--quick", "--list"})
			}
			if x.cheap() {
				forms = append(forms, nil)
			}
			for _, form := range forms {
				o, e, code := testlab.RunWeft(t, weft, append([]string{"experiment", x.file, "-o", out}, form...)...)
				if code != 0 || o == "" {
					t.Errorf("%v: exit code %d\n%s%s", form, code, o, e)
				}
			}
		})
	}
}

// TestPapers_QuickFormsHold runs the quick forms of the experiments that come with weft, or the
// complete ones if they have none: their expectations hold.
func TestPapers_QuickFormsHold(t *testing.T) {
	t.Parallel()
	testlab.Long(t)
	i := -1
	for _, x := range experimentsOfTheTree(t) {
		if x.cheap() {
			continue // TestExperiments_OfTheTreeAreGood runs it
		}
		if i++; !testlab.InPart(t, i) {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			if !x.wall() {
				t.Parallel() // beside each other, after those in wall-clock time, which have the machine to themselves
			}
			weft := testlab.Weft(t)
			if x.wall() {
				programs := []string{"iperf3", "ib_write_bw", "gcc"}
				for _, p := range []string{"memcached", "memcaslap", "nginx", "wrk"} {
					if regexp.MustCompile(`(?m)(command: "|^ +)` + p + " ").MatchString(x.text) {
						programs = append(programs, p)
					}
				}
				testlab.Need(t, programs...)
				testlab.NeedVerbs(t)
				if err := testlab.BuildSlowClock(); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"experiment", x.file, "-o", filepath.Join(t.TempDir(), "out")}
			if x.quick() {
				args = append(args, "--quick")
			}
			p := testlab.Launch(t, exec.Command(weft, args...))
			// Without a limit: some take minutes on a busy machine. Flows that fail are part of some
			// comparisons.
			<-p.Done
			if failed := (*exec.ExitError)(nil); p.Err != nil && !(errors.As(p.Err, &failed) && failed.ExitCode() == testlab.ExitTraffic) {
				t.Errorf("%v\n%s", p.Err, &p.Out)
			}
		})
	}
}
