// Package dissector holds what Wireshark lacks to show datacenter networks: a
// dissector in Lua for trimmed packets and for RoCEv2's congestion
// notification. weft.lua says what it does.
package dissector

import _ "embed" // weft.lua

// Lua is the dissector, for Wireshark 4.0 and later.
//
//go:embed weft.lua
var Lua []byte
