// Command raced prints the packages whose tests are worth running with the race
// detector, one per line: scripts/test.sh runs it on no others. It runs in the
// directory of go.mod.
//
// Without concurrency there is no race. So a package is printed if itself or its tests
// start something concurrent: with a go statement, with Go of a wait group or an error
// group, with a timer or a context that calls a function, with an HTTP server, with a
// program that is waited for later, or as parallel tests. What packages that it uses start
// is their own tests' matter. A package is also printed if itself or its tests have unsafe
// pointers, which -race checks too. Processes of package sim are coroutines, which run one
// at a time.
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

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
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
		raced, err = findRaced(out)
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

// findRaced returns the packages to be printed from the output of go list -json.
func findRaced(list io.Reader) (raced []string, err error) {
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
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		is, err := anyFile(startsGoroutine, p.Dir, p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles)
		if err == nil && !is {
			is, err = anyFile(hasPointers, p.Dir, p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
		}
		if err != nil {
			return nil, err
		}
		if is && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			raced = append(raced, path)
		}
	}
	return raced, nil
}

// anyFile reports whether something is true of any of the files.
func anyFile(is func(*ast.File) bool, dir string, names ...[]string) (bool, error) {
	for _, name := range slices.Concat(names...) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if is(f) {
			return true, nil
		}
	}
	return false, nil
}

// calls maps methods and functions that start something to packages, one of which the
// file must import; nil means any file.
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

// startsGoroutine reports whether a file starts something concurrent. It compares names only, as the
// types are not known here, and so errs on the side of true.
func startsGoroutine(f *ast.File) (yes bool) {
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
			if in, ok := calls[n.Sel.Name]; ok {
				yes = yes || in == nil || slices.ContainsFunc(in, func(p string) bool { return imported[p] })
			}
		}
		return !yes
	})
	return yes
}

// hasPointers reports whether a file has unsafe pointers.
func hasPointers(f *ast.File) (yes bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if n, ok := n.(*ast.SelectorExpr); ok {
			x, ok := n.X.(*ast.Ident)
			// Sizes are not pointers.
			yes = yes || ok && x.Name == "unsafe" && !slices.Contains([]string{"Sizeof", "Offsetof", "Alignof"}, n.Sel.Name)
		}
		return !yes
	})
	return yes
}
