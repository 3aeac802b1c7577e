package plan

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/carrier"
	"github.com/weftlab/weft/traces/pattern"
)

// Traffic is a pattern of traffic and what carries its flows: exactly one of RDMA and
// UDP. With RDMA its hosts have NICs.
type Traffic struct {
	Name    string // in records; unique among patterns
	Pattern pattern.Pattern
	RDMA    *carrier.RDMA
	UDP     *carrier.UDP
}

// Measure is which flows of patterns count, and how long a run waits for them.
type Measure struct {
	carrier.Window
	// Grace is how long after Window.End a run in virtual time goes on at most, for
	// flows that are under way then; 0 is without limit.
	Grace units.Time
}
