package labfile

import (
	"reflect"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/forward"
)

// controls is the seam for rate controls.
type controls struct{}

// Control is the value of the key cc.
type Control = Choice[controls]

func (controls) oneOf() string { return cc.Methods.OneOf() }

func (controls) example() string { return "cc: dcqcn, or cc: {dcqcn: {preset: paper}}" }

func (controls) names() []string { return cc.Methods.Names() }

func (controls) optional() bool { return true }

func (controls) find(name string) (system, error) {
	m, err := cc.Methods.Find(name)
	if err != nil {
		return system{}, err
	}
	return system{
		summary: m.Summary,
		presets: m.Presets,
		blank:   func() any { return Blank(m.Preset(m.Presets[0], units.Gbps)) },
	}, nil
}

// edges is the seam for edge services.
type edges struct{}

// Edge is the value of the key edge.
type Edge = Choice[edges]

func (edges) oneOf() string { return edge.Services.OneOf() }

func (edges) example() string { return "edge: {limit: {rate: 100Mbps}}" }

func (edges) optional() bool { return true }

func (edges) names() []string { return edge.Services.Names() }

func (edges) find(name string) (system, error) {
	k, err := edge.Services.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return Blank(k.Settings(first, units.Gbps)) },
	}, nil
}

// choices is the seam for choosing among next hops.
type choices struct{}

// Forwarding is the value of the key forwarding.
type Forwarding = Choice[choices]

func (choices) oneOf() string { return forward.Kinds.OneOf() }

func (choices) example() string { return "forwarding: random, or forwarding: {flowlet: {gap: 100us}}" }

func (choices) names() []string { return forward.Kinds.Names() }

func (choices) optional() bool { return false }

func (choices) find(name string) (system, error) {
	k, err := forward.Kinds.Find(name)
	if err != nil {
		return system{}, err
	}
	return system{
		summary: k.Summary,
		blank:   func() any { return Blank(k.Settings()) },
		check: func(_ string, set func(any)) error {
			settings := k.Settings()
			set(settings)
			return settings.Validate()
		},
		example: k.Example,
	}, nil
}

// layers is the seam for layers above NICs.
type layers struct{}

// Layer is the value of the key layer.
type Layer = Choice[layers]

func (layers) oneOf() string { return nicemu.Layers.OneOf() }

func (layers) example() string { return "layer: rogue" }

func (layers) names() []string { return nicemu.Layers.Names() }

func (layers) optional() bool { return true }

func (layers) find(name string) (system, error) {
	k, err := nicemu.Layers.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return Blank(k.Settings(first, units.Gbps)) },
	}, nil
}

// points is the seam for congestion points.
type points struct{}

// Mark is the value of the key mark.
type Mark = Choice[points]

func (points) oneOf() string { return congestion.Points.OneOf() }

func (points) example() string { return "mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 1%}}" }

func (points) names() []string { return congestion.Points.Names() }

func (points) optional() bool { return true }

func (points) find(name string) (system, error) {
	k, err := congestion.Points.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	check := func(preset string, set func(any)) error {
		settings := k.Settings(preset, 0)
		set(settings)
		return settings.Validate(0)
	}
	if k.ByRate {
		check = nil
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return Blank(k.Settings(first, 0)) },
		check:   check,
	}, nil
}

// Blank returns settings of the same type with nothing set.
func Blank(settings any) any { return reflect.New(reflect.TypeOf(settings).Elem()).Interface() }

// recoveries is the seam for loss recoveries.
type recoveries struct{}

// Recovery is the value of the key recovery.
type Recovery = Choice[recoveries]

func (recoveries) oneOf() string { return transport.Recoveries.OneOf() }

func (recoveries) example() string { return "recovery: " + transport.DefaultRecovery }

func (recoveries) names() []string { return transport.Recoveries.Names() }

func (recoveries) optional() bool { return false }

func (recoveries) find(name string) (system, error) {
	k, err := transport.Recoveries.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return Blank(k.Settings(first, units.Gbps)) },
	}, nil
}
