package netnslab

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// AddressChange is a change of the addresses of a host's interface.
type AddressChange struct {
	Interface string
	Address   netip.Addr
	Removed   bool // else added
}

// WatchAddresses calls changed for each address that the interfaces of a host have, and then for
// each that is added or removed, by whoever changes it. It returns when stop is closed, or with an
// error if the kernel stops reporting.
func (l *Lab) WatchAddresses(host string, stop <-chan struct{}, changed func(AddressChange)) error {
	h, ok := l.info.Host(host)
	if !ok {
		return noHost(l.info, host)
	}
	handle, err := netns.GetFromName(h.Namespace)
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", h.Namespace, err)
	}
	defer handle.Close()
	links, err := netlink.NewHandleAt(handle)
	if err != nil {
		return fmt.Errorf("netlink socket in namespace %s: %w", h.Namespace, err)
	}
	defer links.Close()
	updates, done := make(chan netlink.AddrUpdate), make(chan struct{})
	failed := make(chan error, 1)
	err = netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{
		Namespace: &handle, ListExisting: true,
		ErrorCallback: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch the addresses of %s: %w", host, err)
	}
	defer func() {
		close(done)
		for range updates { // until the reader has ended
		}
	}()
	for {
		select {
		case <-stop:
			return nil
		case err := <-failed:
			return fmt.Errorf("watch the addresses of %s: %w", host, err)
		case u, open := <-updates:
			if !open {
				return fmt.Errorf("watch the addresses of %s: the kernel's reports have ended", host)
			}
			a, ok := netip.AddrFromSlice(u.LinkAddress.IP)
			if !ok {
				continue
			}
			link, err := links.LinkByIndex(u.LinkIndex)
			if err != nil {
				continue // it has just been removed, with its addresses
			}
			changed(AddressChange{Interface: link.Attrs().Name, Address: a.Unmap(), Removed: !u.NewAddr})
		}
	}
}
