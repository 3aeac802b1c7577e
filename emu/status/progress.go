package status

import "github.com/weftlab/weft/sim/units"

// Progress is how far a run in virtual time has come.
type Progress struct {
	Now  units.Time // of the shard that is furthest behind
	Hops uint64     // packets that ports have begun to send

	Flows uint64 // of patterns that have ended
}
