//go:build race

package fabric

import "flag"

// withRace says that the race detector watches. It slows random fabrics ten
// times and more, and what it would find shows in few of them; counting
// allocations under it means nothing.
const withRace = true

func init() { _ = flag.Set("rapid.checks", "12") }
