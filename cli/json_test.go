package cli

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/doctor"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

// TestJSON_KeysAreSnakeCase: the keys of all that --json prints, in structs of any depth.
func TestJSON_KeysAreSnakeCase(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, v := range []any{
		labRow{}, lab.Status{}, report.Report{}, status.Port{}, lab.Table{}, lab.SetResult{}, status.NIC{}, status.QP{}, status.EdgeFlow{},
		status.PauseCheck{}, report.SwitchMemory{}, doctor.Result{},
	} {
		checkKeys(t, reflect.TypeOf(v), seen)
	}
}

var (
	// Percentiles are as statistics name them.
	snakeCase = regexp.MustCompile(`^([a-z][a-z0-9]*(_[a-z0-9]+)*|p99\.9)$`)
	marshals  = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()}
)

func checkKeys(t *testing.T, x reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	for x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice || x.Kind() == reflect.Array || x.Kind() == reflect.Map {
		x = x.Elem()
	}
	if x.Kind() != reflect.Struct || seen[x] {
		return
	}
	for _, m := range marshals {
		if x.Implements(m) || reflect.PointerTo(x).Implements(m) {
			return // it writes itself
		}
	}
	seen[x] = true
	for i := range x.NumField() {
		f := x.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, key == "-":
			continue
		case key == "" && f.Anonymous: // its fields are those of x
		case !snakeCase.MatchString(key):
			t.Errorf("%s.%s has the key %q: its tag must name one in snake_case", x, f.Name, key)
		}
		checkKeys(t, f.Type, seen)
	}
}
