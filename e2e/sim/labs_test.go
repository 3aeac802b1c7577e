package sim

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// lab is a lab that comes with weft.
type lab struct {
	file  string
	name  string // its file, from the root of the tree
	paper bool   // it belongs to a paper
}

// labsOfTheTree returns the labs that come with weft.
func labsOfTheTree(t *testing.T) (labs []lab) {
	t.Helper()
	for _, pattern := range []string{"../../scripts/labs/*.yaml", "../../papers/*/labs/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no labs at %s: %v", pattern, err)
		}
		for _, f := range files {
			name, err := filepath.Rel("../..", f)
			if err != nil {
				t.Fatal(err)
			}
			labs = append(labs, lab{f, name, strings.HasPrefix(name, "papers/")})
		}
	}
	return labs
}

// run runs the lab in virtual time, that of a paper for some time only.
func (l lab) run(t *testing.T, paperFor string, flags ...string) *report.Report {
	t.Helper()
	if l.paper {
		flags = append([]string{"--for", paperFor}, flags...)
	}
	r := testlab.Simulate(t, testlab.Weft(t), l.file, flags...)
	if !r.Accounts.Balanced() {
		t.Errorf("packets are missing: %+v", r.Accounts)
	}
	return r
}

// TestLabs_AreValidAndRun: all labs that come with weft are valid and run in virtual time, those
// of papers their beginning, and no packet is unaccounted for.
func TestLabs_AreValidAndRun(t *testing.T) {
	t.Parallel()
	for _, l := range labsOfTheTree(t) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if o, e, code := testlab.RunWeft(t, testlab.Weft(t), "validate", l.file); code != 0 || !strings.Contains(o, "good") {
				t.Fatalf("validate: exit code %d\n%s%s", code, o, e)
			}
			if r := l.run(t, "1ms"); r.Events == 0 {
				t.Error("nothing has happened")
			}
		})
	}
}

// TestLabs_LongFormFollowsItsSeed: two runs of a lab with one seed are equal, a run with another
// seed is not, unless nothing in the lab is random. All flows and transfers receive something.
func TestLabs_LongFormFollowsItsSeed(t *testing.T) {
	t.Parallel()
	testlab.Long(t)
	// Nothing is random in these, at least in the part that is run here: no draws, and no packets that
	// meet at one instant.
	fixed := []string{
		"papers/baselines/labs/hotspot.yaml",
		"papers/baselines/labs/two-flows.yaml",
		"papers/rocc/labs/one-to-four-seconds.yaml",
		"papers/rocc/labs/one-to-four.yaml",
		"scripts/labs/rdma.yaml",
	}
	for i, l := range labsOfTheTree(t) {
		if !testlab.InPart(t, i) {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			const paperFor = "5ms"
			a, b, c := l.run(t, paperFor), l.run(t, paperFor), l.run(t, paperFor, "--seed", "99")
			if a.Trace != b.Trace || a.Events != b.Events {
				t.Errorf("the same file and seed gave trace %s over %d events and %s over %d", a.Trace, a.Events, b.Trace, b.Events)
			}
			if (a.Trace == c.Trace) != slices.Contains(fixed, l.name) {
				t.Errorf("one seed gave trace %s, another %s", a.Trace, c.Trace)
			}
			for _, flow := range a.Flows {
				if flow.Received == 0 {
					t.Errorf("flow %s received nothing", flow.Flow)
				}
			}
			for _, x := range a.Transfers {
				later := l.paper && x.Posted == 0 // starts after the part that is run
				if x.Received == 0 && !later || x.Failed > 0 {
					t.Errorf("transfer %s received %d B, and %d of its messages failed", x.Transfer, x.Received, x.Failed)
				}
			}
		})
	}
}
