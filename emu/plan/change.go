package plan

import "github.com/weftlab/weft/emu/change"

// LinkPatch is what events set: see package change.
type LinkPatch = change.LinkPatch
