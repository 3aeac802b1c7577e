package resolve

import (
	"errors"
	"testing"

	"github.com/weftlab/weft/emu/yamlfile"
)

// FuzzParse checks that no text makes Parse panic or hang, that errors have a
// place in the text, and that good text gives a sound plan.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse("lab.yaml", src)
		if err == nil {
			checkPlan(t, p)
			return
		}
		var all yamlfile.Errors
		if p != nil || !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("plan %v and error %#v", p, err)
		}
		for _, e := range all {
			if e.Line < 1 || e.Column < 1 || e.Message == "" || e.Error() == "" {
				t.Errorf("error without a place: %+v", e)
			}
		}
	})
}
