package registry

// Choice is the system that a lab file names at an extension point, with its parameters. S is
// the interface of these parameters, such as cc.Settings. The zero Choice means that the file
// names none; what holds then depends on the extension point.
type Choice[S any] struct {
	Name   string // in the extension point's Registry; "" for none
	Preset string // the preset that single parameters override; "" without presets
	// Settings are the parameters. They have passed Validate where they are used, and no
	// longer change; nil for none.
	Settings S
}

// IsNone reports whether there is no system.
func (c Choice[S]) IsNone() bool { return any(c.Settings) == nil }

// String returns the name as in a lab file, "none" without a system.
func (c Choice[S]) String() string {
	if c.IsNone() {
		return "none"
	}
	return c.Name
}
