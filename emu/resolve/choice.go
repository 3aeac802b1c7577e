package resolve

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/registry"
)

// fileChoice is a labfile.Choice of any extension point.
type fileChoice interface {
	PresetOf() string
	CopySettings(r *yamlfile.Reader, settings any)
}

// choose returns the choice of the system that f names: settings, which are those of its preset,
// with what the file sets. The caller has them validated and reports at f.
func choose[S any](r *yamlfile.Reader, f fileChoice, name string, settings S) registry.Choice[S] {
	f.CopySettings(r, settings)
	return registry.Choice[S]{Name: name, Preset: f.PresetOf(), Settings: settings}
}
