package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestLabsAreGood checks the labs that come with weft, and runs each in virtual
// time: two runs with one seed are equal, a run with another seed is not,
// unless nothing in the lab is random.
func TestLabsAreGood(t *testing.T) {
	weft := testlab.Weft(t)
	files, err := filepath.Glob("../../scripts/labs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no labs: %v", err)
	}
	papers, err := filepath.Glob("../../papers/*/labs/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is random in these, at least in the part that is run here.
	fixed := []string{
		"papers/eqds/labs/850-to-1.yaml",
		"papers/rocc/labs/one-to-four-seconds.yaml",
		"papers/rocc/labs/one-to-four.yaml",
		"papers/rogue/labs/fast.yaml",
		"papers/rogue/labs/loss.yaml",
		"papers/rogue/labs/parking-lot.yaml",
		"papers/rogue/labs/star.yaml",
		"papers/systems/labs/star.yaml",
		"scripts/labs/incast-lossy.yaml",
		"scripts/labs/incast-pfc.yaml",
		"scripts/labs/rdma-incast-lossy.yaml",
		"scripts/labs/rdma-incast-pfc.yaml",
		"scripts/labs/rdma.yaml",
	}
	for _, f := range append(files, papers...) {
		name, err := filepath.Rel("../..", f)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			if o, e, code := testlab.RunWeft(t, weft, "validate", f); code != 0 || !strings.Contains(o, "good") {
				t.Fatalf("validate: exit code %d\n%s%s", code, o, e)
			}
			var flags []string
			if slices.Contains(papers, f) {
				flags = []string{"--for", "5ms"}
			}
			a, b, c := testlab.Simulate(t, weft, f, flags...), testlab.Simulate(t, weft, f, flags...), testlab.Simulate(t, weft, f, append(flags, "--seed", "99")...)
			if a.Trace != b.Trace || a.Events != b.Events {
				t.Errorf("the same file and seed gave trace %s over %d events and %s over %d", a.Trace, a.Events, b.Trace, b.Events)
			}
			if (a.Trace == c.Trace) != slices.Contains(fixed, name) {
				t.Errorf("one seed gave trace %s, another %s", a.Trace, c.Trace)
			}
			if !a.Accounts.Balanced() {
				t.Errorf("packets are missing: %+v", a.Accounts)
			}
			for _, flow := range a.Flows {
				if flow.Received == 0 {
					t.Errorf("flow %s received nothing", flow.Flow)
				}
			}
			for _, x := range a.Transfers {
				later := flags != nil && x.Posted == 0 // starts after the part that is run
				if x.Received == 0 && !later || x.Failed > 0 {
					t.Errorf("transfer %s received %d B, and %d of its messages failed", x.Transfer, x.Received, x.Failed)
				}
			}
		})
	}
}

// TestBadInput: any bad input gives exit code 2, the place and the fix.
func TestBadInput(t *testing.T) {
	weft := testlab.Weft(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(file, []byte("topology:\n  nodes: {h1: {kind: host}, s1: {kind: switch}}\n  links:\n    - {endpoints: [\"h1:eth0\", \"s1:1\"], delya: 1ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"validate", file}, {"up", file}, {"up", "-d", file}, {"sim", file}, {"graph", file}} {
		_, e, code := testlab.RunWeft(t, weft, args...)
		if code != 2 || !strings.Contains(e, "bad.yaml:4:") || !strings.Contains(e, `"delay"`) || !strings.Contains(e, "delya: 1ms}") {
			t.Errorf("weft %v: exit code %d\n%s", args, code, e)
		}
	}
	for _, args := range [][]string{{"up"}, {"up", filepath.Join(dir, "none.yaml")}, {"set", "s1:1"}, {"capture"}, {"sim", "--for", "5", file}, {"up", "--nonsense", file}, {"up", "-d", "--json", "../../scripts/labs/leaf-spine.yaml"}} {
		if _, e, code := testlab.RunWeft(t, weft, args...); code != 2 || e == "" {
			t.Errorf("weft %v: exit code %d, %q", args, code, e)
		}
	}
}

// TestSimOutputs: capture and flow records of a virtual run.
func TestSimOutputs(t *testing.T) {
	weft := testlab.Weft(t)
	dir := t.TempDir()
	lab := "../../scripts/labs/two-switches.yaml"
	capture := func() []byte {
		file := filepath.Join(dir, "c.pcapng")
		testlab.Simulate(t, weft, lab, "-w", file, "-p", "s1:3", "--flows", filepath.Join(dir, "flows.csv"))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := capture(), capture()
	if string(a) != string(b) || len(a) < 1_000_000 {
		t.Errorf("two captures of the same run differ, or are empty: %d and %d bytes", len(a), len(b))
	}
	csv, err := os.ReadFile(filepath.Join(dir, "flows.csv"))
	if err != nil || strings.Count(string(csv), "\n") != 3 {
		t.Errorf("flows.csv: %v\n%s", err, csv)
	}
}

// TestDissector: tshark loads the printed dissector from its plugin directory.
func TestDissector(t *testing.T) {
	lua, e, code := testlab.RunWeft(t, testlab.Weft(t), "dissector")
	if code != 0 || !strings.Contains(lua, "register_postdissector") {
		t.Fatalf("exit code %d, %s\n%s", code, e, lua)
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, the dissector was not loaded: apt-get install tshark")
	}
	home := t.TempDir()
	plugins := filepath.Join(home, ".local/lib/wireshark/plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "weft.lua"), []byte(lua), 0o600); err != nil {
		t.Fatal(err)
	}
	shark := exec.Command("tshark", "-G", "fields")
	shark.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	out, err := shark.Output()
	if err != nil || !strings.Contains(string(out), "\tweft.trimmed.original_length\t") {
		t.Errorf("tshark does not know the fields: %v", err)
	}
}
