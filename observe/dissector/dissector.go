// Package dissector provides what Wireshark lacks for datacenter networks: a
// dissector in Lua for trimmed packets, for RoCEv2's congestion notification and
// for connection management, and the dissectors that systems have registered.
package dissector

import (
	_ "embed" // weft.lua
	"strings"

	"github.com/weftlab/weft/sim/registry"
)

//go:embed weft.lua
var own string

// Lua returns the dissector, for Wireshark 4.0 and later: weft.lua, which says what it
// does, followed by the dissectors of registry.Dissectors in the order of their names.
func Lua() []byte {
	var b strings.Builder
	b.WriteString(own)
	for _, name := range registry.Dissectors.Names() {
		lua, _ := registry.Dissectors.Find(name)
		b.WriteString("\n")
		b.WriteString(lua)
	}
	return []byte(b.String())
}
