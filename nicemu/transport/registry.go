package transport

import (
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Recoveries are the loss recoveries that a lab file can name. Packages register theirs in an init
// function.
var Recoveries = registry.New[RecoveryKind]("loss recovery")

// DefaultRecovery is the loss recovery of a NIC if a lab file names none: that of the
// specification.
const DefaultRecovery = "go-back-n"

// RecoveryKind describes a loss recovery that a lab file can name.
type RecoveryKind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets are the names of known sets of parameters, the default first; nil if there is only
	// one set.
	Presets []string
	// Settings returns the parameters of a preset, "" without presets, for a port at line rate
	// line, 0 for an unlimited one. Keys that must be in the file have no omitempty in their yaml
	// tag.
	Settings func(preset string, line units.Rate) RecoverySettings
}

// RecoverySettings are the parameters of a loss recovery: a pointer to a struct whose
// fields have yaml, json and jsonschema_description tags.
type RecoverySettings interface {
	// Validate checks the parameters for a port at line rate line, 0 for an unlimited
	// one. The error joins a registry.RangeError for each that is wrong.
	Validate(line units.Rate) error
	// New makes the recovery of a queue pair. The settings have passed Validate, no longer change,
	// and are shared by the queue pairs of a NIC.
	New() Recovery
}

// RecoveryChoice is a chosen loss recovery with its parameters, which have passed Validate for the
// line rate. The zero RecoveryChoice means DefaultRecovery.
type RecoveryChoice = registry.Choice[RecoverySettings]

// WindowFromPath is implemented by settings that can limit packets in flight to the network's
// bandwidth-delay product, computed from a lab file's links.
type WindowFromPath interface {
	NeedsPath() bool       // the window is not given
	SetWindow(packets int) // 0 if links have no rate
}

// FromPath is a window to be computed from the path.
const FromPath = -1

// GoBackNSettings are the parameters of go-back-N.
type GoBackNSettings struct {
	Window int `yaml:"window,omitempty" json:"window" jsonschema:"minimum=-1,maximum=16384" jsonschema_description:"maximum packets in flight (BDP-FC of IRN), 0 for no limit, -1 to fill the longest path; a READ counts as all packets of its response at once"`
}

// Validate implements RecoverySettings.
func (s *GoBackNSettings) Validate(units.Rate) error {
	var c registry.Check
	c.CheckNumber("window", s.Window, FromPath, maxKept)
	return c.Err()
}

// NeedsPath implements WindowFromPath.
func (s *GoBackNSettings) NeedsPath() bool { return s.Window == FromPath }

// SetWindow implements WindowFromPath.
func (s *GoBackNSettings) SetWindow(packets int) { s.Window = packets }

// New implements RecoverySettings.
func (s *GoBackNSettings) New() Recovery { return &GoBackN{limit: uint32(max(s.Window, 0))} }

func init() {
	Recoveries.Register(DefaultRecovery, RecoveryKind{
		Summary:  "packets are accepted only in order, and after a gap everything is resent (IBTA §9.7)",
		Settings: func(string, units.Rate) RecoverySettings { return &GoBackNSettings{} },
	})
}
