package roce

import (
	_ "embed" // reliable.lua

	"github.com/weftlab/weft/sim/registry"
)

//go:embed reliable.lua
var lua string

func init() { registry.Dissectors.Register("roce", lua) }
