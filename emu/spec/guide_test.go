package spec

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/yamlfile"
)

const guidePath = "../../docs/lab-file.md"

// TestGuideExamples loads every YAML block of the guide.
func TestGuideExamples(t *testing.T) {
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(blocks) == 0 {
		t.Error("the guide has no examples")
	}
	for _, b := range blocks {
		p, err := Parse("example.yaml", b[1])
		if err != nil {
			t.Error(err)
			continue
		}
		checkPlan(t, p)
	}
}

// TestGuideAndSchemaKnowEveryKey walks the types that a lab file is read into.
func TestGuideAndSchemaKnowEveryKey(t *testing.T) {
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	collectKeys(reflect.TypeFor[labFile](), keys)
	if len(keys) < 60 {
		t.Errorf("only %d keys are found", len(keys))
	}
	for key := range keys {
		if !strings.Contains(string(guide), "`"+key+"`") {
			t.Errorf("the guide does not mention `%s`", key)
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
			keys() ([]string, []reflect.Type)
		}); ok {
			names, settings := s.keys()
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
