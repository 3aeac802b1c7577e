package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStarts_FindsConcurrency(t *testing.T) {
	for text, want := range map[string]bool{
		"func f() { go g() }":                                    true,
		"func f() { for { go func() {}() } }":                    true,
		"import \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(f) }": true,
		"import \"weft/sim\"\nfunc f(e *sim.Engine) { e.Go(f) }": false, // a coroutine
		"import \"time\"\nvar t = time.AfterFunc(1, f)":          true,
		"import \"time\"\nfunc f() { time.Sleep(1) }":            false,
		"import \"os/exec\"\nfunc f(c *exec.Cmd) { c.Start() }":  true,
		"import \"os/exec\"\nfunc f(c *exec.Cmd) { c.Run() }":    false,
		"func TestX(t *testing.T) { t.Parallel() }":              true,
		"import \"C\"":                      true,
		"import \"sync\"\nvar m sync.Mutex": false, // locked by whom?
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsGoroutine(f); got != want {
			t.Errorf("%v for\n%s", got, text)
		}
	}
}

func TestHasPointers_SizesAreNone(t *testing.T) {
	for text, want := range map[string]bool{"const n = unsafe.Sizeof(0)": false, "var p unsafe.Pointer": true, "var x = unsafe.Slice(p, 1)": true} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport \"unsafe\"\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := hasPointers(f); got != want {
			t.Errorf("%v for %s", got, text)
		}
	}
}

// A package counts for what itself and its tests start, not for what it uses.
func TestFind_LooksAtAPackageAndItsTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.go": "package x\nfunc f() { go f() }\n", "plain.go": "package x\n", "pointers.go": "package x\nvar p unsafe.Pointer\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := strings.ReplaceAll(`
{"ImportPath": "starts", "Dir": "DIR", "GoFiles": ["go.go"], "XTestGoFiles": ["plain.go"]}
{"ImportPath": "starts-without-tests", "Dir": "DIR", "GoFiles": ["go.go"]}
{"ImportPath": "tests-start", "Dir": "DIR", "GoFiles": ["plain.go"], "TestGoFiles": ["plain.go", "go.go"]}
{"ImportPath": "pointers", "Dir": "DIR", "GoFiles": ["pointers.go"], "TestGoFiles": ["plain.go"]}
{"ImportPath": "uses", "Dir": "DIR", "GoFiles": ["plain.go"], "Imports": ["fmt", "starts"], "TestGoFiles": ["plain.go"]}
{"ImportPath": "alone", "Dir": "DIR", "GoFiles": ["plain.go"], "Imports": ["fmt"], "TestGoFiles": ["plain.go"]}
`, "DIR", dir)
	got, err := findRaced(strings.NewReader(list))
	if want := []string{"pointers", "starts", "tests-start"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
