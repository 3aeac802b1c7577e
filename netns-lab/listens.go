package netnslab

import (
	"os"
	"strconv"
	"strings"
)

// TCPSockets returns the kernel's listing of a host's TCP sockets (proc_net_tcp in the
// kernel's documentation), for IsListening.
func (l *Lab) TCPSockets(host string) (text string, err error) {
	h, ok := l.info.Host(host)
	if !ok {
		return "", noHost(l.info, host)
	}
	err = onSparedThread(func() error {
		if err := joinNamespace(h.Namespace); err != nil {
			return err
		}
		v4, err := os.ReadFile("/proc/thread-self/net/tcp")
		// Absent on a machine without IPv6.
		v6, _ := os.ReadFile("/proc/thread-self/net/tcp6")
		text = string(v4) + string(v6)
		return err
	})
	return text, err
}

// listening is the state of a listening TCP socket (TCP_LISTEN).
const listening = "0A"

// IsListening reports whether a socket in a listing of /proc/net/tcp and tcp6 listens on a port.
func IsListening(listing string, port uint16) bool {
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != listening {
			continue
		}
		if i := strings.LastIndexByte(f[1], ':'); i >= 0 {
			if n, err := strconv.ParseUint(f[1][i+1:], 16, 16); err == nil && uint16(n) == port {
				return true
			}
		}
	}
	return false
}
