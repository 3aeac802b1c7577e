package plan

import "github.com/weftlab/weft/emu/change"

// LinkPatch and State are what events set: see package change.
type (
	LinkPatch = change.LinkPatch
	State     = change.State
)

// The states of a link.
const (
	Down = change.Down
	Up   = change.Up
)
