package resolve

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/emu/plan"
)

// TestPatchedWithNothing checks that the canonical text of every lab gives the same plan
// as the lab.
func TestPatchedWithNothing(t *testing.T) {
	labs, err := filepath.Glob("../../scripts/labs/*.yaml")
	if err != nil || len(labs) < 5 {
		t.Fatal(labs, err)
	}
	for _, lab := range labs {
		src, err := os.ReadFile(lab)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ParseSeed(lab, src, 7)
		if err != nil {
			t.Fatal(err)
		}
		got, text, err := ParsePatched(lab, src, 7, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseSeed(lab, []byte(text), 7)
		if err != nil {
			t.Fatalf("%s: %v\n%s", lab, err, text)
		}
		for _, p := range [][2]any{{want, got}, {want, again}} {
			if diff := cmp.Diff(p[0], p[1], cmp.Exporter(func(reflect.Type) bool { return true }), samePattern, cmpopts.IgnoreFields(plan.Program{}, "Line"), cmpopts.IgnoreFields(plan.VM{}, "Line")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", lab, diff)
			}
		}
	}
}
