package netnslab

import (
	"strings"
	"testing"
)

// TestNotAllowed_CommandCanBePasted: what the error says to run is complete.
func TestNotAllowed_CommandCanBePasted(t *testing.T) {
	err := Sysctl{"net.ipv4.tcp_congestion_control", "cubic"}.notAllowed().Error()
	_, command, _ := strings.Cut(err, "add it with ")
	if want := `sysctl -w net.ipv4.tcp_allowed_congestion_control="$(sysctl -n net.ipv4.tcp_allowed_congestion_control) cubic"`; command != want {
		t.Errorf("%q: the command is %q, want %q", err, command, want)
	}
}
