package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// pages returns the text of all Markdown files of the tree by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachFile(t, ".md", func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(text)
	})
	if len(found) < 10 {
		t.Fatalf("only %d pages are found", len(found))
	}
	return found
}

// eachFile calls f for each file of the tree with this extension.
func eachFile(t *testing.T, extension string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return fs.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == extension {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	spans    = regexp.MustCompile("`[^`]+`")
	linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	target   = regexp.MustCompile(`\]\(\s*([^)\s]+)[^)]*\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them: lower case, without
// punctuation, with hyphens for spaces, and a number for each repetition.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, linkText.ReplaceAllString(h[1], "$1"))
		unique := anchor
		for n := 1; all[unique]; n++ {
			unique = anchor + "-" + strconv.Itoa(n)
		}
		all[unique] = true
	}
	return all
}

// TestDocs_LinksResolve: each relative link of a page leads to a file, and its anchor to a
// heading there.
func TestDocs_LinksResolve(t *testing.T) {
	all := pages(t)
	for path, text := range all {
		prose := spans.ReplaceAllString(fences.ReplaceAllString(text, ""), "`code`")
		for _, m := range target.FindAllStringSubmatch(prose, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			to := path
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(path), u.Path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s leads to no file", path, m[1])
			} else if u.Fragment != "" && !anchors(all[to])[u.Fragment] {
				t.Errorf("%s: %s leads to no heading", path, m[1])
			}
		}
	}
}

// TestDocs_NameTestsThatExist: a test that a page names exists. A name that ends with _, as in
// go test -run TestRping_, stands for all tests that begin with it.
func TestDocs_NameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	eachFile(t, ".go", func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				exists[f.Name.Name] = true
				if before, _, ok := strings.Cut(f.Name.Name, "_"); ok {
					exists[before+"_"] = true
				}
			}
		}
	})
	for path, text := range pages(t) {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(text, -1) {
			if !exists[name] {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
}

// fileName is a Go file in a comment: a name in the same directory, or a path from the root.
var fileName = regexp.MustCompile(`(?:^|[\s(])((?:[a-z0-9_-]+/)*[a-z0-9_]+\.go)\b`)

// TestComments_NameFilesThatExist: a comment that sends the reader to a file names one that is
// there, in the same directory or by its path from the root.
func TestComments_NameFilesThatExist(t *testing.T) {
	named := 0
	eachFile(t, ".go", func(at string) {
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			for _, m := range fileName.FindAllStringSubmatch(group.Text(), -1) {
				named++
				_, beside := os.Stat(filepath.Join(filepath.Dir(at), m[1]))
				if _, fromRoot := os.Stat(m[1]); beside != nil && fromRoot != nil {
					t.Errorf("%s: a comment names %s, which does not exist", at, m[1])
				}
			}
		}
	})
	if named < 50 {
		t.Errorf("only %d files are named: the test does not find them", named)
	}
}
