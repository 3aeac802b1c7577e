package cli

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsoleError_NamesTheCause: a console whose machine has ended is not said to be open
// elsewhere.
func TestConsoleError_NamesTheCause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	dial := func() string {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return consoleError("v1", err).Error()
		}
		conn.Close()
		return ""
	}
	const ended = "the console of v1: the virtual machine has ended"
	if got := dial(); got != ended {
		t.Errorf("without a socket: %q", got)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if got := dial(); got != "" {
		t.Errorf("with a listener: %q", got)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if got := dial(); got != ended {
		t.Errorf("after the end of the listener: %q", got)
	}
	if err := consoleError("v1", net.ErrClosed).Error(); !strings.Contains(err, net.ErrClosed.Error()) {
		t.Errorf("another error: %q", err)
	}
}
