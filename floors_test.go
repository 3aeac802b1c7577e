package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weftlab/weft"

// floors are the top-level directories from the roof down. Directories on one floor
// do not import each other.
var floors = [][]string{
	{"scripts", "papers", "e2e"},
	{"cli"},
	{"experiment"},
	{"view"},
	{"emu"},
	{"netns-lab"},
	{"traffic"},
	{"observe"},
	{"hosts"},
	{"nicemu"},
	{"switches"},
	{"links"},
	{"protocols"},
	{"packet"},
	{"wire"},
	{"sim"},
}

// upward lists the exceptions: imports that go up, as "package imports package", and
// why. It must get shorter, not longer.
var upward = map[string]string{
	// The examples of the NIC's documentation, which are tests, need a network.
	"nicemu imports emu/fabric":               "examples",
	"nicemu imports emu/resolve":              "examples",
	"nicemu/edge/eqdsnic imports emu/fabric":  "examples",
	"nicemu/edge/eqdsnic imports emu/resolve": "examples",
}

// floor returns the number of a package's floor from the roof down; ok is false
// if its top-level directory is not on a floor.
func floor(pkg string) (number int, ok bool) {
	top, _, _ := strings.Cut(pkg, "/")
	number = slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, top) })
	return number, number >= 0
}

// node is a package of the tree, or its tests.
type node struct {
	path string // "packet"; "." for the program
	test bool
}

// imports returns the packages of the tree that each package and its tests import.
func imports(t *testing.T) map[node][]string {
	found := map[node][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(file) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := node{path.Dir(filepath.ToSlash(file)), strings.HasSuffix(file, "_test.go")}
		if _, known := found[pkg]; !known {
			found[pkg] = nil
		}
		for _, i := range parsed.Imports {
			if to, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/"); ok && !slices.Contains(found[pkg], to) {
				found[pkg] = append(found[pkg], to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestImportsGoDown checks the packages against the floors of ARCHITECTURE.md: packages
// on a floor import only packages below it.
func TestImportsGoDown(t *testing.T) {
	unused := map[string]bool{}
	for exception := range upward {
		unused[exception] = true
	}
	for pkg, imported := range imports(t) {
		top, _, _ := strings.Cut(pkg.path, "/")
		from, ok := floor(pkg.path)
		switch {
		case top == ".":
			from = -1 // the program is above all floors
		case top == "internal":
			continue
		case !ok:
			t.Errorf("%s has no floor: give it one here and in ARCHITECTURE.md", pkg.path)
			continue
		}
		for _, to := range imported {
			if strings.HasPrefix(to, "internal/") {
				if !pkg.test && top != "e2e" {
					t.Errorf("%s imports %s, which is for tests", pkg.path, to)
				}
				continue
			}
			below, ok := floor(to)
			if ok && below > from || to == top || strings.HasPrefix(to, top+"/") {
				continue
			}
			line := pkg.path + " imports " + to
			if upward[line] == "" {
				t.Errorf("%s, which is not below it (test: %v)", line, pkg.test)
			}
			delete(unused, line)
		}
	}
	for line := range unused {
		t.Errorf("%s no more: take it off the list", line)
	}
}

// TestArchitecture_PictureHasTheFloors: the picture of ARCHITECTURE.md, its first code block,
// names each top-level directory with packages once, as "name/", from the roof down.
func TestArchitecture_PictureHasTheFloors(t *testing.T) {
	picture := fences.FindString(pages(t)["ARCHITECTURE.md"])
	where := map[string]int{} // line of each directory
	deepest, above := -1, ""
	for i, line := range strings.Split(picture, "\n") {
		for _, word := range strings.Fields(line) {
			name, ok := strings.CutSuffix(word, "/")
			if !ok {
				continue
			}
			if first := where[name]; first > 0 {
				t.Errorf("%s/ is in the lines %d and %d of the picture: name it once", name, first, i)
			}
			where[name] = i
			number, ok := floor(name)
			switch {
			case !ok && name != "internal":
				t.Errorf("%s/ is in the picture and has no floor here", name)
			case !ok: // it is for tests alone
			case number < deepest:
				t.Errorf("%s/ is in line %d of the picture, below %s/, and its floor is above", name, i, above)
			default:
				deepest, above = number, name
			}
		}
	}
	for pkg := range imports(t) {
		top, _, _ := strings.Cut(pkg.path, "/")
		if top != "." && where[top] == 0 {
			t.Errorf("%s/ is not in the picture: give it a line", top)
			where[top] = -1 // say so once
		}
	}
	for name := range where {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s/ is in the picture and not in the tree", name)
		}
	}
}

// sourceFile matches the name of a file of the tree.
var sourceFile = regexp.MustCompile(`^[\w.-]+\.(go|md|json|yaml|txt|sh|c|h)$`)

// TestArchitecture_PathsExist: each path in backquotes in ARCHITECTURE.md is a file or a
// directory of the tree. A path has a slash, or is the name of a file.
func TestArchitecture_PathsExist(t *testing.T) {
	text := fences.ReplaceAllString(pages(t)["ARCHITECTURE.md"], "")
	found := 0
	for _, span := range spans.FindAllString(text, -1) {
		name := strings.Trim(span, "`")
		if strings.HasPrefix(name, "/") || strings.ContainsAny(name, " \n") || !strings.Contains(name, "/") && !sourceFile.MatchString(name) {
			continue // of the machine, a command, a name in the code
		}
		found++
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s is not in the tree: paths are written from its root", span)
		}
	}
	if found < 20 {
		t.Errorf("only %d paths are found", found)
	}
}

// dependencies returns the import paths of all packages that a package is made of.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "./"+pkg).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

// TestWhatPeopleReadKnowsNoFabric: what shows the status of a network is given plain data, and
// is made neither of the running network nor of what drives it by the wall clock.
func TestWhatPeopleReadKnowsNoFabric(t *testing.T) {
	running := []string{module + "/emu/fabric", module + "/emu/wall"}
	for _, pkg := range []string{"emu/status", "emu/report", "emu/metrics", "view/top", "view/chart"} {
		made := dependencies(t, pkg)
		for _, part := range running {
			if slices.Contains(made, part) {
				t.Errorf("%s is made of %s", pkg, part)
			}
		}
	}
	made := dependencies(t, "emu/lab")
	for _, part := range running {
		if !slices.Contains(made, part) {
			t.Errorf("emu/lab is not made of %s: what is looked for here has another name now", part)
		}
	}
}

// TestTheFabricKnowsNoRecording: a network runs without what records its course, which reads
// it from outside.
func TestTheFabricKnowsNoRecording(t *testing.T) {
	recorders := []string{module + "/emu/recording", module + "/observe/series", module + "/observe/pauses"}
	made, users := dependencies(t, "emu/fabric"), dependencies(t, "emu/recording")
	for _, pkg := range recorders {
		if slices.Contains(made, pkg) {
			t.Errorf("emu/fabric is made of %s", pkg)
		}
		if !slices.Contains(users, pkg) {
			t.Errorf("emu/recording is not made of %s: what is looked for here has another name now", pkg)
		}
	}
}

// TestThePlanKnowsNoFile: a lab can be built, drawn, run and reported without its file. So
// neither the plan nor the packages based on it depend on the file's parser.
func TestThePlanKnowsNoFile(t *testing.T) {
	language := []string{"yaml", "jsonschema", module + "/emu/labfile", module + "/emu/resolve"}
	find := func(deps []string, part string) int {
		return slices.IndexFunc(deps, func(d string) bool { return strings.Contains(strings.ToLower(d), part) })
	}
	for _, pkg := range []string{"emu/plan", "emu/fabric", "emu/recording", "emu/run", "view/graph", "emu/report", "view/chart", "emu/metrics", "emu/lab", "view/top"} {
		made := dependencies(t, pkg)
		for _, part := range language {
			if at := find(made, part); at >= 0 {
				t.Errorf("%s is made of %s", pkg, made[at])
			}
		}
	}
	if at := find(dependencies(t, "emu/labfile"), module+"/emu/plan"); at >= 0 {
		t.Error("emu/labfile is made of emu/plan: a file has a form before it has a meaning")
	}
	reader := dependencies(t, "emu/resolve")
	for _, part := range language {
		if find(reader, part) < 0 {
			t.Errorf("emu/resolve is not made of %s: what is looked for here has another name now", part)
		}
	}
}

// TestOneRunner: what runs a plan in virtual time does so through emu/run. The doctor, which
// measures how fast a fabric runs, drives one itself.
func TestOneRunner(t *testing.T) {
	var found []string
	for pkg := range imports(t) {
		files, err := filepath.Glob(filepath.Join(pkg.path, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !pkg.test && !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "fabric.NewParallel(") {
				found = append(found, filepath.ToSlash(file))
			}
		}
	}
	slices.Sort(found)
	if want := []string{"emu/doctor/virtual.go", "emu/run/run.go"}; !slices.Equal(found, want) {
		t.Errorf("fabrics for virtual time are built in %v, not in %v alone", found, want)
	}
}

// TestRateControls_HaveOneForm: a rate control is a Config and a Control in files of these names.
func TestRateControls_HaveOneForm(t *testing.T) {
	files, err := filepath.Glob("protocols/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	controls := 0
	for _, file := range files {
		text := read(t, file)
		if strings.HasSuffix(file, "_test.go") || !strings.Contains(text, "cc.Methods.Register(") {
			continue
		}
		controls++
		if filepath.Base(file) != "control.go" || !strings.Contains(text, "\ntype Control struct {") {
			t.Errorf("%s registers a rate control: that belongs in control.go, with the type Control", file)
		}
		config := filepath.Join(filepath.Dir(file), "config.go")
		if !strings.Contains(read(t, config), "\ntype Config struct {") {
			t.Errorf("%s has no type Config", config)
		}
	}
	if controls == 0 {
		t.Error("no rate control was found")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
