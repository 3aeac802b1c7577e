package labfile

import (
	_ "github.com/weftlab/weft/emu/systems" // so that a file can name them
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/forward"
)

// kinds are the systems of a registry, as a file names them.
type kinds struct {
	oneOf    string // "a rate control"
	example  string // how to write one: "cc: dcqcn, or cc: {dcqcn: {preset: paper}}"
	names    func() []string
	optional bool // whether a file can say none
	find     func(name string) (system, error)
}

// registeredKinds returns the systems of a registry; describe returns what a file needs to know
// about one.
func registeredKinds[K any](r *registry.Registry[K], example string, optional bool, describe func(K) system) kinds {
	return kinds{r.OneOf(), example, r.Names, optional, func(name string) (system, error) {
		k, err := r.Find(name)
		if err != nil {
			return system{}, err
		}
		return describe(k), nil
	}}
}

// system is what a file needs to know about a registered system.
type system struct {
	summary string
	presets []string   // the default first; nil if there is only one set of parameters
	blank   func() any // returns a pointer to its settings, with nothing set
	// check returns what is wrong with settings that the file sets over a preset, independent
	// of their use. It is nil if errors show only where the settings are used.
	check func(preset string, set func(settings any)) error
	// example is how a file writes the system if it has required keys: "{flowlet: {gap:
	// 100us}}"; "" means the example of the kinds.
	example string
}

// withPresets describes a system whose parameters depend on a preset and on the rate of a
// link.
func withPresets[S any](summary string, presets []string, settings func(preset string, line units.Rate) S) system {
	first := ""
	if presets != nil {
		first = presets[0]
	}
	return system{summary: summary, presets: presets, blank: func() any { return blankSettings(settings(first, units.Gbps)) }}
}

// The values of the keys cc, recovery, layer, edge, mark and forwarding.
type (
	Control    = Choice[controls]
	Recovery   = Choice[recoveries]
	Layer      = Choice[layers]
	Edge       = Choice[edges]
	Mark       = Choice[points]
	Forwarding = Choice[forwarders]
)

type (
	controls   struct{}
	recoveries struct{}
	layers     struct{}
	edges      struct{}
	points     struct{}
	forwarders struct{}
)

func (controls) knownKinds() kinds {
	return registeredKinds(cc.Methods, "cc: dcqcn, or cc: {dcqcn: {preset: paper}}", true, func(m cc.Method) system {
		return withPresets(m.Summary, m.Presets, m.Preset)
	})
}

func (recoveries) knownKinds() kinds {
	return registeredKinds(transport.Recoveries, "recovery: "+transport.DefaultRecovery, false, func(k transport.RecoveryKind) system {
		return withPresets(k.Summary, k.Presets, k.Settings)
	})
}

func (layers) knownKinds() kinds {
	return registeredKinds(nicemu.Layers, "layer: rogue", true, func(k nicemu.LayerKind) system {
		return withPresets(k.Summary, k.Presets, k.Settings)
	})
}

func (edges) knownKinds() kinds {
	return registeredKinds(edge.Services, "edge: {limit: {rate: 100Mbps}}", true, func(k edge.Kind) system {
		return withPresets(k.Summary, k.Presets, k.Settings)
	})
}

func (points) knownKinds() kinds {
	return registeredKinds(congestion.Points, "mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 1%}}", true, func(k congestion.Kind) system {
		s := withPresets(k.Summary, k.Presets, k.Settings)
		if !k.ByRate {
			s.check = func(preset string, set func(any)) error {
				settings := k.Settings(preset, 0)
				set(settings)
				return settings.Validate(0)
			}
		}
		return s
	})
}

func (forwarders) knownKinds() kinds {
	return registeredKinds(forward.Kinds, "forwarding: random, or forwarding: {flowlet: {gap: 100us}}", false, func(k forward.Kind) system {
		return system{
			summary: k.Summary,
			blank:   func() any { return blankSettings(k.Settings()) },
			check: func(_ string, set func(any)) error {
				settings := k.Settings()
				set(settings)
				return settings.Validate()
			},
			example: k.Example,
		}
	})
}
