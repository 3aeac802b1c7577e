package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// inputs finds the files that labs of a page read: a block after a paragraph that ends with the
// file's name and a colon.
var inputs = regexp.MustCompile("(?s)`([a-z]+\\.[a-z]+)`:\n\n```\n(.*?)```")

// TestGuide_LabsRun: every lab of the guide, the cookbook and the tutorial is valid, and those with
// a workload run in virtual time, as do the experiments.
func TestGuide_LabsRun(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/lab/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("the guide has no pages: %v", err)
	}
	for _, page := range append(pages, "../../docs/cookbook.md", "../../docs/tutorial.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(page), i+1), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				file := filepath.Join(dir, "lab.yaml")
				files := map[string][]byte{file: b[1]}
				for _, f := range inputs.FindAllSubmatch(text, -1) {
					files[filepath.Join(dir, string(f[1]))] = f[2]
				}
				for name, text := range files {
					if err := os.WriteFile(name, text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				command := []string{"validate", file}
				switch {
				case strings.Contains(string(b[1]), "\nworkload:"):
					lab{file: file, paper: true}.run(t, "1ms")
				case strings.Contains(string(b[1]), "\nvary:"):
					command = []string{"experiment", file, "--seed", "1", "-o", filepath.Join(t.TempDir(), "result")}
				}
				if o, e, code := testlab.RunWeft(t, testlab.Weft(t), command...); code != 0 {
					t.Errorf("%v: exit code %d\n%s%s", command, code, o, e)
				}
			})
		}
	}
}
