package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// maxPackages is in how many packages methods may share a one-word name. Beyond it, the word must
// mean the same everywhere and stand in shared.
const maxPackages = 3

// shared are one-word names of methods that mean the same in all packages: Go's own (all for
// iterators, len, read, string), those of containers (has, pop, push), those of one interface with
// many implementations (agent of traffic patterns, fire of what a timer calls), and terms of the
// field (arm of timers and completion queues, phase of connections, wait of processes).
var shared = strings.Fields(`
add agent arm bytes check close counters decode destroy done err error find fire
first get has init len less name names new next now open parse
phase pop prefetch progress push rate read receive reset run
set start state status stop string swap table traits unwrap validate wait window
write
`)

// vague are names that should say what they act on. The list must get shorter, not longer.
var vague = strings.Fields("begin ended number over place text")

// meaningless are words that had another meaning in each package. No method has one as its name.
var meaningless = strings.Fields("answer ask forget give hear judge keep note say settle tell")

// TestNames_OneWordMeansOneThing: a method whose name is one word says what it does only if the
// word is used alike everywhere. A name that more packages use is either a term, which belongs in
// shared, or too short: name the object (dropRead, not forget).
func TestNames_OneWordMeansOneThing(t *testing.T) {
	found := map[string][]string{} // packages by name
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(file))
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !isOneWord(f.Name.Name) {
				continue
			}
			name := strings.ToLower(f.Name.Name)
			if slices.Contains(meaningless, name) {
				t.Errorf("%s: %s does not say what it acts on: name the object", file, f.Name.Name)
			}
			if !slices.Contains(found[name], pkg) {
				found[name] = append(found[name], pkg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, packages := range found {
		if len(packages) > maxPackages && !slices.Contains(shared, name) && !slices.Contains(vague, name) {
			t.Errorf("%s is a method in %d packages: %s", name, len(packages), strings.Join(packages, ", "))
		}
	}
	for _, name := range slices.Concat(shared, vague) {
		if len(found[name]) <= maxPackages {
			t.Errorf("%s is a method in %d packages only: take it off the list", name, len(found[name]))
		}
	}
}

// isOneWord reports whether an identifier has no capital after its first letter, or is an
// abbreviation.
func isOneWord(name string) bool {
	rest := []rune(name)[1:]
	return !slices.ContainsFunc(rest, unicode.IsUpper) || !slices.ContainsFunc(rest, unicode.IsLower)
}
