package cctest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// CheckPresets checks that the presets of a registered rate control keep the promises of cc.Method:
// each is valid at each of the line rates, and survives JSON and YAML unchanged.
func CheckPresets(t *testing.T, name string, lines ...units.Rate) {
	t.Helper()
	method, err := cc.Methods.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range method.Presets {
		for _, line := range lines {
			want := method.Preset(preset, line)
			if err := want.Validate(line); err != nil {
				t.Errorf("%s at %v: %v", preset, line, err)
			}
			for format, through := range map[string]func(from, to any) error{"JSON": throughJSON, "YAML": throughYAML} {
				got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
				if err := through(want, got); err != nil {
					t.Errorf("%s at %v through %s: %v", preset, line, format, err)
				}
				if diff := cmp.Diff(any(want), got); diff != "" {
					t.Errorf("%s at %v through %s (-want +got):\n%s", preset, line, format, diff)
				}
			}
		}
	}
}

// FormatGauges returns, as text, the gauges of a registered rate control that have a value in c at
// time 0.
func FormatGauges(t *testing.T, name string, c cc.Control) string {
	t.Helper()
	method, err := cc.Methods.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, v := range gauge.Read(method.Gauges, c.AppendGauges(0, nil)) {
		all = append(all, fmt.Sprintf("%s %.6g%s", v.Name, v.Value, v.Unit))
	}
	return strings.Join(all, " ")
}

func throughJSON(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

func throughYAML(from, to any) error {
	text, err := yaml.Marshal(from)
	if err != nil {
		return err
	}
	return yaml.UnmarshalWithOptions(text, to, yaml.Strict())
}
