package yamlfile

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
)

// patched reads base, patches it with the value of the key v in a second file, and
// returns the canonical text.
func patched(t *testing.T, base, path, value string) (string, error) {
	t.Helper()
	other := New("other.yaml", []byte("# a comment\nv: "+value+"\n"))
	var file struct {
		V any `yaml:"v"`
	}
	var v Value
	other.Special = func(ptr any, n ast.Node, what string) bool {
		if _, ok := ptr.(*any); !ok {
			return false
		}
		v = Value{other, n}
		return true
	}
	other.Read(&file, other.Parse(), "the file")
	if err := other.Err(); err != nil {
		t.Fatal(err)
	}
	r := New("base.yaml", []byte(base))
	doc := r.Parse()
	r.PatchValue(doc, path, v, v)
	return r.WriteCanonical(doc), r.Err()
}

// TestPatch checks the effect of patches on a file.
func TestPatch(t *testing.T) {
	const base = "a: {b: 1, c: [x, {d: 2}]}\nnic: roce\nempty:\nshared: &s {e: 3}\none: *s\ntwo: {<<: *s, f: 4}\n"
	for _, c := range []struct{ path, value, want string }{
		{"a.b", "9", `"a": {"b": 9, `},
		{"a.c[0]", "[y, z]", `"c": [["y", "z"], {"d": 2}]`},
		{"a.c[1].d", "7us", `"c": ["x", {"d": "7us"}]`},
		{"a.c[1].e.f", "true", `{"d": 2, "e": {"f": true}}`},
		{"a.c[2]", "last", `{"d": 2}, "last"]`},
		{"new", "{k: v}", `"e": 3}, "new": {"k": "v"}}`},
		{"new.deep.er", "1.5", `"new": {"deep": {"er": 1.5}}}`},
		{`"a key.with dots".x`, "1", `"a key.with dots": {"x": 1}}`},
		{"nic.roce.cc", "dcqcn", `"nic": {"roce": {"cc": "dcqcn"}}`},
		{"empty.x", "1", `"empty": {"x": 1}`},
		{"a.b", "null", `{"a": {"c": [`},
		{"a.none", "null", `{"a": {"b": 1, "c": ["x", {"d": 2}]}, `},
		{"one.e", "5", `"shared": {"e": 3}, "one": {"e": 5}, "two": {"f": 4, "e": 3}}`},
		{"two.e", "6", `"one": {"e": 3}, "two": {"f": 4, "e": 6}}`},
		{"two.f", "6", `"two": {"f": 6, "e": 3}}`},
	} {
		got, err := patched(t, base, c.path, c.value)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s gives %v\n%s\nwithout\n%s", c.path, c.value, err, got, c.want)
		}
	}
	for path, want := range map[string]string{
		"":         "it is empty",
		"a..b":     "a key is empty",
		"a.":       "it ends in a dot",
		"a[x]":     "[ needs an index",
		`"a`:       "a quote is not closed",
		"a[0]b":    "a dot is missing",
		"a[0]":     "cannot set entry [0] of a mapping",
		"a.c.x":    `cannot set key "x" of a list`,
		"a.c[5]":   "the list has 2 entries and no [5]",
		"a.c[2].x": "only a whole entry can be added",
		"a.b.x":    "cannot descend into a number",
		"nic.rxe":  "cannot descend into text",
		"list[0]":  "there is no list list for an entry [0]",
	} {
		_, err := patched(t, base, path, "1")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "other.yaml:2:4:") {
			t.Errorf("%q: %v, want %q at the place of the patch", path, err, want)
		}
	}
}

// TestPatchesKeepTheirPlaces checks that an error in a value refers to the value's place
// in its own file.
func TestPatchesKeepTheirPlaces(t *testing.T) {
	other := New("other.yaml", []byte("first: line\nv:\n  known: 1\n  wrong: 2\n"))
	doc := other.Parse()
	entries, _ := other.Entries(doc)
	v := Value{other, entries[1].Value}
	r := New("base.yaml", []byte("x: {}\ny: {wrng: 1}\n"))
	type inner struct {
		Known int `yaml:"known,omitempty"`
	}
	var file struct {
		X inner `yaml:"x"`
		Y inner `yaml:"y"`
	}
	doc = r.Parse()
	r.PatchValue(doc, "x", v, v)
	r.Read(&file, doc, "the file")
	err := r.Err()
	if err == nil || file.X.Known != 1 {
		t.Fatal(err, file)
	}
	for _, want := range []string{"base.yaml:2:5: unknown key \"wrng\"\n    y: {wrng: 1}\n", "other.yaml:4:3: unknown key \"wrong\"\n    wrong: 2\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwithout\n%s", err, want)
		}
	}
}
