package testlab

import (
	"runtime"

	"github.com/vishvananda/netns"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// SocketIn makes a socket in the network namespace of a host. The thread
// returns to its own namespace: if it is the process's main thread, the process
// would otherwise be taken for one of the lab's programs, and be ended with the lab.
func SocketIn[T any](l *Lab, host string, f func() (T, error)) (socket T) {
	l.T.Helper()
	done := make(chan error)
	go func() {
		done <- func() error {
			runtime.LockOSThread()
			home, err := netns.Get()
			if err != nil {
				return err
			}
			defer home.Close()
			there, err := netns.GetFromName(netnslab.NamespaceName(l.Name, host))
			if err != nil {
				return err
			}
			defer there.Close()
			if err := netns.Set(there); err != nil {
				return err
			}
			socket, err = f()
			if netns.Set(home) == nil {
				runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
			}
			return err
		}()
	}()
	if err := <-done; err != nil {
		l.T.Fatalf("in %s: %v", host, err)
	}
	return socket
}

// UnreadSocket opens a UDP socket with a small buffer on port 7000 and never reads it; SendDatagrams
// sends datagrams to it, and to a port without a socket.
const (
	UnreadSocket = `
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.bind(("::", 7000))
import signal; signal.pause()
`
	SendDatagrams = `
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[3])):
    try: s.sendto(b"x" * 1000, (sys.argv[1], int(sys.argv[2])))
    except ConnectionRefusedError: pass
`
)
