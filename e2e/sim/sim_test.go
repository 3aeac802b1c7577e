package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestBadInput_IsReportedWithPlaceAndFix: any bad input gives exit code 2, the place and the fix.
func TestBadInput_IsReportedWithPlaceAndFix(t *testing.T) {
	t.Parallel()
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

// TestSim_WritesCaptureAndFlows: capture and flow records of a virtual run.
func TestSim_WritesCaptureAndFlows(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir := t.TempDir()
	lab := "../../scripts/labs/two-switches.yaml"
	capture := func() []byte {
		file := filepath.Join(dir, "c.pcapng")
		testlab.Simulate(t, weft, lab, "-w", file, "-p", "s1:3", "--stream-records", filepath.Join(dir, "flows.csv"))
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

// TestDissector_IsLoadedByTshark: tshark loads the printed dissector from its plugin directory.
func TestDissector_IsLoadedByTshark(t *testing.T) {
	t.Parallel()
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
