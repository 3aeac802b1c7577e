package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/cli"
	"github.com/weftlab/weft/emu/resolve"
)

// TestMain lets this test's program be the weft command too.
func TestMain(m *testing.M) {
	if os.Getenv("BASELINES_ARE_WEFT") != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func weft(t *testing.T) Weft {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), self, args...)
		c.Env = append(os.Environ(), "BASELINES_ARE_WEFT=1")
		return c
	}
}

// TestBaselines_QuickFormsAreAsExpected runs the quick form of every experiment: each row of
// its table is as expected, or differs only as far as its reason explains.
func TestBaselines_QuickFormsAreAsExpected(t *testing.T) {
	for _, e := range experiments {
		t.Run(e.Name, func(t *testing.T) {
			if testing.Short() && e.Name != "hpcc-incast" && e.Name != "qcn" {
				t.Skip("seconds, and minutes with the race detector")
			}
			t.Parallel()
			_, out, err := e.run(weft(t), ".", true)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", table(out.Rows))
			for i := range out.Rows {
				if r := &out.Rows[i]; !r.Sound() {
					t.Errorf("%s: %.4g, expected %s %.4g", r.What, r.Ours, r.Relation, r.Expected)
				}
			}
			for name, p := range out.Pictures {
				if err := draw(p, t.TempDir()+"/"+name+".png"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestREADME_HasTheTablesOfTheResults: README.md has the tables of the results in its directory.
func TestREADME_HasTheTablesOfTheResults(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	now, err := withTables(string(text), ".")
	if err != nil {
		t.Fatal(err)
	}
	if now != string(text) {
		t.Error("README.md has other tables than the results say: run run.sh")
	}
	if strings.Contains(now, "not explained") {
		t.Error("README.md has a difference without a reason")
	}
}

// TestRow_IsSoundWithinItsToleranceOrReason: a row that is off is not sound, unless it is
// Remembered or its reason explains the difference.
func TestRow_IsSoundWithinItsToleranceOrReason(t *testing.T) {
	for _, c := range []struct {
		row   Row
		sound bool
	}{
		{Row{Relation: About, Expected: 10, Tolerance: 0.1, Ours: 10.9}, true},
		{Row{Relation: About, Expected: 10, Tolerance: 0.1, Ours: 8.9}, false},
		{Row{Relation: AtMost, Expected: 10, Ours: 10.1}, false},
		{Row{Relation: AtMost, Expected: 10, Ours: 1}, true},
		{Row{Relation: AtLeast, Expected: 10, Ours: 9.9}, false},
		{Row{Relation: AtLeast, Expected: 10, Ours: 90}, true},
		{Row{Relation: About, Expected: 10, Tolerance: 0.1, Ours: 90, Remembered: true}, true},
		{Row{Relation: About, Expected: 10, Tolerance: 0.1, Ours: 20, Why: "so", Known: &[2]float64{1.5, 2.5}}, true},
		{Row{Relation: About, Expected: 10, Tolerance: 0.1, Ours: 30, Why: "so", Known: &[2]float64{1.5, 2.5}}, false},
	} {
		if c.row.Sound() != c.sound {
			t.Errorf("%+v is sound: %v", c.row, c.row.Sound())
		}
	}
}

// TestLabs_AreValidAndBelongToAnExperiment: every lab here is valid and belongs to an
// experiment, including those for full runs only.
func TestLabs_AreValidAndBelongToAnExperiment(t *testing.T) {
	used := map[string]bool{}
	for _, e := range experiments {
		for _, lab := range slices.Concat(e.Labs, e.Quick) {
			file := filepath.Join(e.Name, lab+".yaml")
			used[file] = true
			if _, err := resolve.File(file); err != nil {
				t.Error(err)
			}
		}
	}
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !used[f] {
			t.Errorf("%s is of no experiment", f)
		}
	}
}
