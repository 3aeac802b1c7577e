package spec

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	_ "github.com/weftlab/weft/emu/systems" // so that a file can name them
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// controlFile is what stands behind cc: none, the name of a rate control, or one with
// settings: {dcqcn: {preset: paper, rpg_gd: 10}}.
type controlFile struct {
	name   string // "" is none
	preset *string
	values cc.Settings // those that stand in the file have places
}

func (c *controlFile) decode(r *reader, n ast.Node, what string) {
	if name, scalar := scalarText(n); scalar {
		if name != "none" {
			c.choose(r, n, name)
		}
		return
	}
	entries, ok := r.entries(n)
	if !ok || len(entries) != 1 {
		r.wrong(n, what, "the name of a rate control, or one with its settings", "write for example cc: dcqcn, or cc: {dcqcn: {preset: paper}}")
		return
	}
	e := entries[0]
	if !c.choose(r, e.at, e.key) {
		return
	}
	c.preset = new(string)
	r.readFields(reflect.ValueOf(c.values).Elem(), e.value, e.key, map[string]any{"preset": c.preset})
	if r.places[c.preset] == nil {
		c.preset = nil
		return
	}
	if m, _ := cc.Methods.Find(c.name); !slices.Contains(m.Presets, *c.preset) {
		r.fail(c.preset, "", "%q is not a preset of %s (there are %s)", *c.preset, c.name, strings.Join(m.Presets, ", "))
		c.preset = nil
	}
}

// choose makes c the rate control of a name, with nothing set.
func (c *controlFile) choose(r *reader, at ast.Node, name string) bool {
	m, err := cc.Methods.Find(name)
	if err != nil {
		r.failAt(at, suggest(name, "there are", append(cc.Methods.Names(), "none")), "%q is not a rate control", name)
		return false
	}
	c.name, c.values = name, blankSettings(m)
	return true
}

// blankSettings makes settings of a method in which nothing is set.
func blankSettings(m cc.Method) cc.Settings {
	t := reflect.TypeOf(m.Preset(m.Presets[0], units.Gbps)).Elem()
	return reflect.New(t).Interface().(cc.Settings)
}

func (controlFile) schema(m *schemaMaker) *jsonschema.Schema {
	all := &jsonschema.Schema{OneOf: []*jsonschema.Schema{enum(append(cc.Methods.Names(), "none")...)}}
	for _, name := range cc.Methods.Names() {
		method, _ := cc.Methods.Find(name)
		settings := m.of(reflect.TypeOf(blankSettings(method)).Elem())
		one := &jsonschema.Schema{Type: "object", Description: method.Summary, Properties: jsonschema.NewProperties(), Required: []string{name}}
		one.AdditionalProperties = jsonschema.FalseSchema
		preset := enum(method.Presets...)
		preset.Description = "whose parameters hold where none stands here; default " + method.Presets[0]
		if d := m.definition(settings); d != nil {
			d.Properties.Set("preset", preset)
		}
		one.Properties.Set(name, settings)
		all.OneOf = append(all.OneOf, one)
	}
	return all
}

// join gives c with what it leaves out taken from base, if that is the same rate
// control.
func (c *controlFile) join(r *reader, base *controlFile) *controlFile {
	if c == nil || base == nil || c.name != base.name || c.name == "" {
		if c == nil {
			return base
		}
		return c
	}
	joined := &controlFile{name: c.name, preset: c.preset}
	if joined.preset == nil {
		joined.preset = base.preset
	}
	m, _ := cc.Methods.Find(c.name)
	joined.values = blankSettings(m)
	overlay(r, joined.values, base.values)
	overlay(r, joined.values, c.values)
	r.places[joined] = r.places[c]
	return joined
}

// overlay sets those parameters in to that stand in the file as from, and gives
// them their places.
func overlay(r *reader, to, from cc.Settings) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, f := range fieldsOf(a.Type()) {
		value := b.FieldByIndex(f.index)
		if at := r.places[value.Addr().Interface()]; at != nil {
			a.FieldByIndex(f.index).Set(value)
			r.places[a.FieldByIndex(f.index).Addr().Interface()] = at
		}
	}
}

// control resolves the rate control of a host's NIC, by the rate of its first link.
func (v *resolver) control(n *Node, c *controlFile, place any) {
	if c == nil || c.name == "" {
		return
	}
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		rate := v.settingsOf(&p, 0).Rate
		if rate == 0 {
			v.failOnce(v.some(c, place), "write rate: for the link, in links, in the generator or in link under kinds",
				"%s goes by the rate of the link, and that of %s:%s is unlimited", c.name, n.Name, p.Name)
			return
		}
		slowest = min(slowest, rate)
	}
	m, _ := cc.Methods.Find(c.name)
	preset := m.Presets[0]
	set(&preset, c.preset)
	settings := m.Preset(preset, line)
	overlay(v.reader, settings, c.values)
	n.NIC.Control = nicemu.Control{Name: c.name, Preset: preset, Settings: settings}
	err := settings.Validate(slowest)
	if err == nil {
		return
	}
	for _, err := range unjoin(err) {
		var bad *registry.RangeError
		if errors.As(err, &bad) {
			v.failOnce(v.some(parameter(settings, bad.Key), c.preset, c, place), "give "+bad.Fix, "%s: %v is out of range", bad.Key, bad.Value)
		} else {
			v.failOnce(v.some(c, place), "", "%s: %v", c.name, err)
		}
	}
}

// unjoin gives the errors that errors.Join has joined.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// parameter points to the parameter of settings that goes by key.
func parameter(settings cc.Settings, key string) any {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.name == key {
			return v.FieldByIndex(f.index).Addr().Interface()
		}
	}
	return nil
}

// checkUnlimited reports an event that takes away the rate of a host's link,
// which its rate control must know.
func (v *resolver) checkUnlimited(from End, place any) {
	if nic := v.plan.Nodes[from.Node].NIC; nic != nil && nic.Control.Settings != nil {
		v.fail(place, "", "%s goes by the rate of the link, and that of %s becomes unlimited", nic.Control, v.plan.PortName(from.Node, from.Port))
	}
}
