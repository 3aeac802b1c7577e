package telemetry

import (
	_ "embed" // telemetry.lua

	"github.com/weftlab/weft/sim/registry"
)

//go:embed telemetry.lua
var lua string

func init() { registry.Dissectors.Register("telemetry", lua) }
