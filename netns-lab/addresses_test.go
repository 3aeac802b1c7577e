package netnslab

import (
	"net/netip"
	"testing"
)

// TestWatchAddresses_ReportsWhatIsThereAndChanges: first the addresses that the host has, then each
// that is added or removed, and it ends when it is to stop.
func TestWatchAddresses_ReportsWhatIsThereAndChanges(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	stop, changes, over := make(chan struct{}), make(chan AddressChange, 100), make(chan error, 1)
	go func() { over <- l.WatchAddresses("h1", stop, func(c AddressChange) { changes <- c }) }()
	await := func(want AddressChange) {
		t.Helper()
		for {
			select {
			case c := <-changes:
				if c == want {
					return
				}
			case err := <-over:
				t.Fatalf("it has ended without %+v: %v", want, err)
			}
		}
	}
	address := netip.MustParseAddr
	await(AddressChange{Interface: "eth0", Address: address("10.0.0.1")})
	inside(t, l, "h1", "ip", "addr", "add", "192.168.5.1/24", "dev", "eth0")
	await(AddressChange{Interface: "eth0", Address: address("192.168.5.1")})
	inside(t, l, "h1", "ip", "addr", "del", "192.168.5.1/24", "dev", "eth0")
	await(AddressChange{Interface: "eth0", Address: address("192.168.5.1"), Removed: true})
	inside(t, l, "h1", "ip", "addr", "add", "fd77::1/64", "dev", "eth0")
	await(AddressChange{Interface: "eth0", Address: address("fd77::1")})
	close(stop)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := l.WatchAddresses("h9", stop, nil); err == nil {
		t.Error("a host that does not exist is watched")
	}
}
