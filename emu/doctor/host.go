package doctor

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// host is a namespace with a TAP, t0, at 10.0.0.N.
type host struct {
	ns      *namespace
	fd      int // of the TAP
	address net.IP
}

// queueLen is the queue of the TAP in packets; it holds the largest TCP window.
const queueLen = 10_000

func newHost(n, mtu int, offload bool) (*host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h := &host{ns: ns, fd: -1, address: net.IPv4(10, 0, 0, byte(n)).To4()}
	if err := ns.runInside(func() error { return h.configureHost(mtu, offload) }); err != nil {
		h.closeHost()
		return nil, err
	}
	return h, nil
}

func (h *host) configureHost(mtu int, offload bool) (err error) {
	// Avoid IPv6 traffic and bbr's timers. If these settings are refused, the
	// machine is measured with its own.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
	_ = os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("reno"), 0)
	if h.fd, err = openTAP("t0", offload); err != nil {
		return err
	}
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer links.Close()
	l, err := links.LinkByName("t0")
	if err != nil {
		return fmt.Errorf("find the new TAP: %w", err)
	}
	if err := links.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("MTU %d: %w", mtu, err)
	}
	if err := links.LinkSetTxQLen(l, queueLen); err != nil {
		return fmt.Errorf("transmit queue: %w", err)
	}
	if err := links.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: h.address, Mask: net.CIDRMask(24, 32)}}); err != nil {
		return fmt.Errorf("address %s: %w", h.address, err)
	}
	if err := links.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring up the TAP: %w", err)
	}
	return nil
}

// closeHost removes the device and, once no socket is left, the namespace.
func (h *host) closeHost() {
	if h.fd >= 0 {
		unix.Close(h.fd)
	}
	h.ns.closeNamespace()
}
