package cc

import "github.com/weftlab/weft/sim/registry"

// Choice is a chosen rate control with its parameters, which have passed Validate for the line
// rate. The zero Choice means none: flows are sent at line rate.
type Choice = registry.Choice[Settings]

// TraitsOf returns the traits of a chosen control; the zero Traits for none.
func TraitsOf(c Choice) Traits {
	if c.IsNone() {
		return Traits{}
	}
	return c.Settings.Traits()
}
