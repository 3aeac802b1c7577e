package rogue

import (
	_ "embed" // rogue.lua

	"github.com/weftlab/weft/sim/registry"
)

// lua shows messages in Wireshark.
//
//go:embed rogue.lua
var lua string

func init() { registry.Dissectors.Register("rogue", lua) }
