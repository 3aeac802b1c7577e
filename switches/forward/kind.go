package forward

import "github.com/weftlab/weft/sim/registry"

// Kinds has the choices among paths that a lab file can name. Packages register their
// kinds in an init function.
var Kinds = registry.New[Kind]("path choice")

// Default is the kind of a switch for which a lab file gives none: that of a zero registry.Choice.
const Default = "ecmp"

// Kind is a kind of choice among paths that a lab file can name.
type Kind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Settings returns the default parameters. Keys that must be in the file have no
	// omitempty in their yaml tag.
	Settings func() Settings
	// Example is how a lab file writes it, such as "{flowlet: {gap: 100us}}"; "" for
	// its name alone.
	Example string
}

// Settings holds the parameters of a choice: a pointer to a struct whose fields have
// yaml, json and jsonschema_description tags.
type Settings interface {
	// Validate checks the parameters. The error joins a registry.RangeError for each
	// invalid one.
	Validate() error
	// New returns the chooser of a switch. The settings have passed Validate, no longer
	// change, and are shared by their switches.
	New(env Env) Chooser
}

// always is embedded in settings without parameters.
type always struct{}

// Validate implements Settings.
func (always) Validate() error { return nil }

// stateless is embedded in choosers without state.
type stateless struct{}

// SetGroups implements Chooser.
func (stateless) SetGroups(int) {}

// IsStateful implements Chooser.
func (stateless) IsStateful() bool { return false }
