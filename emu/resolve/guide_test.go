package resolve

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/yamlfile"
)

// guidePages returns the pages of the guide by name.
func guidePages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/lab/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("the guide has no pages: %v", err)
	}
	pages := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(f)] = string(text)
	}
	return pages
}

// TestGuideExamples loads every YAML block of the guide. Every page has a lab with a workload.
func TestGuideExamples(t *testing.T) {
	for page, text := range guidePages(t) {
		complete := false
		for _, b := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			p, err := Parse("example.yaml", []byte(b[1]))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			checkPlan(t, p)
			if _, err := ParseWallClock("example.yaml", []byte(b[1]), nil); err != nil {
				t.Errorf("%s, in wall-clock time: %v", page, err)
			}
			complete = complete || strings.Contains(b[1], "\nworkload:")
		}
		if !complete {
			t.Errorf("%s has no lab with a workload", page)
		}
	}
}

// TestGuideAndSchemaKnowEveryKey walks the types that a lab file is read into. The guide's
// index has all keys, and another page explains each.
func TestGuideAndSchemaKnowEveryKey(t *testing.T) {
	pages := guidePages(t)
	index := pages["README.md"]
	delete(pages, "README.md")
	var guide strings.Builder
	for _, text := range pages {
		guide.WriteString(text)
	}
	schema, err := labfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	collectKeys(reflect.TypeFor[labfile.Lab](), keys)
	if len(keys) < 60 {
		t.Errorf("only %d keys are found", len(keys))
	}
	for key := range keys {
		if !strings.Contains(guide.String(), "`"+key+"`") {
			t.Errorf("the guide does not mention `%s`", key)
		}
		if !strings.Contains(index, "\n| `"+key+"` | ") {
			t.Errorf("the guide's index does not have `%s`", key)
		}
		if !strings.Contains(string(schema), `"`+key+`": {`) {
			t.Errorf("the schema does not have %q", key)
		}
	}
}

func collectKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		collectKeys(t.Elem(), keys)
	case reflect.Struct:
		for _, f := range yamlfile.FieldsOf(t) {
			keys[f.Name] = true
			collectKeys(t.FieldByIndex(f.Index).Type, keys)
		}
		if s, ok := reflect.Zero(t).Interface().(interface {
			SystemKeys() ([]string, []reflect.Type)
		}); ok {
			names, settings := s.SystemKeys()
			for i, name := range names {
				keys[name] = true
				collectKeys(settings[i], keys)
			}
		}
		if value, ok := t.FieldByName("Value"); ok { // an entry of a Dict
			collectKeys(value.Type, keys)
		}
	}
}
