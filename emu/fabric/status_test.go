package fabric

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestPortStatus_HasTheMTUInBytes: an MTU is bytes, in JSON as in ip(8).
func TestPortStatus_HasTheMTUInBytes(t *testing.T) {
	f := New(parse(t, "topology: {generate: {star: {hosts: 1, mtu: 1500}}}"))
	text, err := json.Marshal(f.PortStatus(0, 0))
	if err != nil || !strings.Contains(string(text), `"mtu":1500,`) {
		t.Errorf("%v, %s", err, text)
	}
}
