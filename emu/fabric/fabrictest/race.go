//go:build race

package fabrictest

import "flag"

// Race says whether the race detector is on. It slows random fabrics by a factor of
// ten or more, and what it can find shows in few of them; counting allocations under it
// is meaningless.
const Race = true

func init() { _ = flag.Set("rapid.checks", "12") }
