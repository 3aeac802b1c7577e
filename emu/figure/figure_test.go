package figure

import (
	"flag"
	"path/filepath"
	"testing"
)

var drawInto = flag.String("figures", "", "draw the examples into this directory")

func TestDrawExamples(t *testing.T) {
	if *drawInto == "" {
		t.Skip("for people: -figures DIRECTORY")
	}
	for name, f := range examples() {
		for _, format := range []string{"png", "svg", "pdf"} {
			if err := f.Save(filepath.Join(*drawInto, name+"."+format)); err != nil {
				t.Error(err)
			}
		}
	}
}
