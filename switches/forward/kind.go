package forward

import "github.com/weftlab/weft/sim/registry"

// Kinds are the choices among ways that a lab file can name. A package adds its own in an
// init function.
var Kinds = registry.New[Kind]("choice among ways")

// Default is the kind of a switch of which a lab file says nothing: that of a zero Config.
const Default = "ecmp"

// Kind is a choice among ways as a lab file names it.
type Kind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Settings gives the parameters that hold where the file says nothing. Keys that
	// must be in the file have no omitempty in their yaml tag.
	Settings func() Settings
	// Example is how a lab file writes it, such as "{flowlet: {gap: 100us}}"; "" for
	// its name alone.
	Example string
}

// Settings are the parameters of a choice: a pointer to a struct whose fields have yaml,
// json and jsonschema_description tags.
type Settings interface {
	// Validate checks the parameters. The error joins a registry.RangeError for each
	// that is wrong.
	Validate() error
	// New makes the chooser of a switch. The settings have passed Validate, do not
	// change any more, and are shared by the switches that they are of.
	New(env Env) Chooser
}

// Config is how a switch chooses among several ways. The zero Config is ECMP.
type Config struct {
	Name     string   // of Kinds
	Settings Settings // has passed Validate
}

// always is part of settings without parameters.
type always struct{}

// Validate implements Settings.
func (always) Validate() error { return nil }

// stateless is part of choosers that remember nothing.
type stateless struct{}

// SetGroups implements Chooser.
func (stateless) SetGroups(int) {}

// Stateful implements Chooser.
func (stateless) Stateful() bool { return false }
