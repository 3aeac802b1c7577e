// Command raced prints the packages whose tests the race detector can say something of,
// one a line: scripts/test.sh runs it over no others. It runs where go.mod is.
//
// Where nothing runs beside anything else there is no race. So a package is printed if
// its tests, or packages of this module that these use, start something: by a go
// statement, by Go of a wait group or an error group, by a timer or a context that calls
// a function, by an HTTP server, by a program that is waited for later, or as tests side
// by side. It is printed as well if they have unsafe pointers, which -race also checks.
// Processes of package sim are coroutines, of which one runs at a time.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports           []string
}

func main() {
	c := exec.Command("go", "list", "-json", "./...")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	var raced []string
	if err == nil {
		raced, err = find(out)
		err = errors.Join(err, c.Wait())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "raced:", err)
		os.Exit(1)
	}
	for _, p := range raced {
		fmt.Println(p)
	}
}

// find gives the packages among those of go list -json.
func find(list io.Reader) (raced []string, err error) {
	all := map[string]*listed{}
	for d := json.NewDecoder(list); ; {
		p := &listed{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[p.ImportPath] = p
	}
	starting := map[string]bool{} // packages that start something, without their tests
	for path, p := range all {
		if starting[path], err = anyStarts(p.Dir, p.GoFiles, p.CgoFiles); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		is, err := anyStarts(p.Dir, p.TestGoFiles, p.XTestGoFiles)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		var visit func(path string)
		visit = func(path string) {
			if p := all[path]; p != nil && !seen[path] {
				seen[path] = true
				is = is || starting[path]
				for _, i := range p.Imports {
					visit(i)
				}
			}
		}
		for _, i := range slices.Concat([]string{path}, p.TestImports, p.XTestImports) {
			visit(i)
		}
		if is && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			raced = append(raced, path)
		}
	}
	return raced, nil
}

func anyStarts(dir string, names ...[]string) (bool, error) {
	for _, name := range slices.Concat(names...) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if starts(f) {
			return true, nil
		}
	}
	return false, nil
}

// calls are methods and functions that start something in files that import one of these
// packages; nil is any file.
var calls = map[string][]string{
	"Go":             {"sync", "golang.org/x/sync/errgroup"},
	"TryGo":          {"golang.org/x/sync/errgroup"},
	"AfterFunc":      nil,
	"Start":          {"os/exec"},
	"Parallel":       nil,
	"RunParallel":    nil,
	"Serve":          nil,
	"ListenAndServe": nil,
	"NewServer":      {"net/http/httptest"},
	"Notify":         {"os/signal"},
	"NotifyContext":  {"os/signal"},
	"AddCleanup":     nil,
	"SetFinalizer":   nil,
}

// starts tells whether a file starts something that runs beside it, or has unsafe
// pointers. It goes by names, as the types are not known here: rather too often.
func starts(f *ast.File) (yes bool) {
	imported := map[string]bool{}
	for _, i := range f.Imports {
		if path, err := strconv.Unquote(i.Path.Value); err == nil {
			imported[path] = true
		}
	}
	if imported["C"] {
		return true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			yes = true
		case *ast.SelectorExpr:
			name := n.Sel.Name
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "unsafe" {
				// Sizes are no pointers.
				yes = yes || name != "Sizeof" && name != "Offsetof" && name != "Alignof"
			}
			if in, ok := calls[name]; ok {
				yes = yes || in == nil || slices.ContainsFunc(in, func(p string) bool { return imported[p] })
			}
		}
		return !yes
	})
	return yes
}
