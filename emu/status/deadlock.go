package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Deadlock is a cycle of queues, each paused or without credit because of packets that wait in
// the next one (Hu et al., HotNets 2016): none can send until one is given up.
type Deadlock struct {
	Cycle    []string   `json:"cycle"` // ports ("s1:2"), each held off by the next's node
	Priority uint8      `json:"priority"`
	Class    string     `json:"class"`
	Since    units.Time `json:"since"`           // when its last queue got stuck
	Seen     units.Time `json:"seen"`            // when it was last found
	Ended    units.Time `json:"ended,omitempty"` // first check that found it gone; 0 while it lasts
}

// String returns the cycle, such as "s1:2 -> s2:2 -> s3:2 -> s1:2".
func (d *Deadlock) String() string {
	return strings.Join(append(slices.Clone(d.Cycle), d.Cycle[0]), " -> ")
}

// Text returns a readable description of a deadlock.
func (d *Deadlock) Text() string {
	end := "and lasts"
	if d.Ended > 0 {
		end = fmt.Sprintf("and was gone at %ss", units.FormatDigits(d.Ended.Seconds(), 6))
	}
	return fmt.Sprintf("deadlock of class %s (priority %d): %s, each held off by the next, stuck since %ss %s", d.Class, d.Priority, d, units.FormatDigits(d.Since.Seconds(), 6), end)
}
