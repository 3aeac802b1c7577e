package rogue

import (
	_ "embed" // rogue.lua

	"github.com/weftlab/weft/sim/registry"
)

// lua is the Wireshark dissector of the messages.
//
//go:embed rogue.lua
var lua string

func init() { registry.Dissectors.Register("rogue", lua) }
