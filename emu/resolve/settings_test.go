package resolve

import (
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// TestEverySettingCanBeSet checks that a file can contain each setting of each
// congestion point and rate control, with its default.
func TestEverySettingCanBeSet(t *testing.T) {
	const line = 10 * units.Gbps
	lab := func(host, queue string) string {
		return "topology:\n  kinds: {host: {" + host + "}, switch: {queue: {" + queue + "}}, link: {rate: 10Gbps, delay: 1us}}\n  generate: {star: {hosts: 2}}\n"
	}
	for _, name := range congestion.Points.Names() {
		k, _ := congestion.Points.Find(name)
		if reflect.TypeOf(k.Settings("", line)).Elem().PkgPath() == "github.com/weftlab/weft/switches/congestion" {
			continue // other tests cover keys without a default
		}
		setEach(t, name, k.Settings("", line), func(settings string) string {
			return lab("attach: none", "limit: 1GB, mark: {"+name+": {"+settings+"}}")
		})
	}
	for _, name := range cc.Methods.Names() {
		m, _ := cc.Methods.Find(name)
		defaults := m.Preset(m.Presets[0], line)
		setEach(t, name, defaults, func(settings string) string {
			if defaults.Traits().NeedsDelivery { // NICs do not have it
				return lab("attach: none", "") + "workload: [{arrivals: {count: 1, load: 10%, sizes: 1KB, by: {tcp: {cc: {" + name + ": {" + settings + "}}}}}}]\n"
			}
			return lab("attach: none, nic: {cc: {"+name+": {"+settings+"}}}", "")
		})
	}
	needs := map[string]string{"limit": "rate: 1Gbps, "} // required keys of a service
	for _, name := range edge.Services.Names() {
		k, _ := edge.Services.Find(name)
		setEach(t, name, k.Settings("", line), func(settings string) string {
			return lab("attach: none, edge: {"+name+": {"+needs[name]+settings+"}}", "")
		})
	}
}

// setEach reads a file for each setting, with a value that is not 0.
func setEach(t *testing.T, name string, settings any, file func(string) string) {
	t.Helper()
	v := reflect.ValueOf(settings).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		value := v.FieldByIndex(f.Index)
		if key == "" || value.IsZero() || f.Type.Kind() == reflect.Struct {
			continue
		}
		b, err := yaml.Marshal(value.Interface())
		if err != nil {
			t.Fatal(err)
		}
		text := file(key + ": " + strings.TrimSpace(string(b)))
		if _, err := Parse("lab.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %s: %v\n%s", name, key, err, text)
		}
	}
}
