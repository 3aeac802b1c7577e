//go:build race

package fabric

import "flag"

// The race detector slows random fabrics ten times and more, and a race shows in
// few of them.
func init() { _ = flag.Set("rapid.checks", "12") }
