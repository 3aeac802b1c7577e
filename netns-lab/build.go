package netnslab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// buildHost makes the namespaces of h and everything inside them; info describes h. On
// an error it returns what it holds open so far; the caller removes the rest by name.
func (l *Lab) buildHost(info HostInfo, h Host, hostsFile []byte) (ns *namespace, devices []*Device, err error) {
	err = onSparedThread(func() error {
		nsName := info.Namespace
		if err := writeHostsFile(nsName, hostsFile); err != nil {
			return err
		}
		if ns, err = newNamespace(nsName); err != nil {
			return err
		}
		ofInterface := func(s Sysctl) bool { return s.concernsAny(h.Interfaces) }
		general := slices.DeleteFunc(slices.Clone(h.Sysctls), ofInterface)
		if err := applySysctls(append(append(quietIPv6(), slowedSysctls(h.Dilation)...), general...)); err != nil {
			return err
		}
		if err := ns.setUp("lo"); err != nil {
			return err
		}
		var real []Interface // of devices
		for _, i := range h.Interfaces {
			if i.Kind == Virtual {
				continue
			}
			d, err := openDevice(ns, h, i)
			if err != nil {
				return fmt.Errorf("interface %s: %w", i.Name, err)
			}
			devices, real = append(devices, d), append(real, i)
			if err := applySysctls(slowedNeighbours(h.Dilation, i.Name)); err != nil {
				return err
			}
		}
		for _, s := range h.Sysctls {
			if ofInterface(s) {
				if err := s.applySysctl(); err != nil {
					return err
				}
			}
		}
		for n, i := range real {
			if err := ns.connectDevice(devices[n], i); err != nil {
				return fmt.Errorf("interface %s: %w", i.Name, err)
			}
		}
		for _, r := range h.Routes {
			if err := ns.addRoute(r); err != nil {
				return err
			}
		}
		if err := ns.slowRTO(h.Dilation, devices); err != nil {
			return err
		}
		if info.Virtual {
			return nil // programs run in the guest
		}
		own := ownDir(l.info.Dir, h.Name)
		if err := writeOwn(own, l.info.Name, h.Name, nsName, l.info.Started); err != nil {
			return err
		}
		v := view{Name: h.Name, Namespace: nsName, Etc: filepath.Join(etcDir(), nsName), Own: own, Private: h.Private}
		ns.init, err = startInit(l.life.read, v)
		return err
	})
	if err != nil {
		err = fmt.Errorf("host %s: %w", h.Name, err)
	}
	return ns, devices, err
}

// setUp brings a device of ns up.
func (ns *namespace) setUp(name string) error {
	link, err := ns.links.LinkByName(name)
	if err == nil {
		err = ns.links.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// connectDevice brings d up and gives it its addresses, with which come the routes to their prefixes.
func (ns *namespace) connectDevice(d *Device, i Interface) error {
	link := d.linkID()
	if err := ns.links.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	for _, p := range i.Addresses {
		addr := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := ns.links.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("address %s: %w%s", p, err, addressHint(p, err))
		}
	}
	return nil
}

func (ns *namespace) addRoute(r Route) error {
	route := &netlink.Route{Dst: ipNet(r.To.Masked()), Gw: r.Via.AsSlice()}
	err := ns.links.RouteAdd(route)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("route to %s via %s: %w: the gateway lies in no prefix of the host's interfaces", r.To, r.Via, err)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("route to %s via %s: %w: the host has another route to the same prefix", r.To, r.Via, err)
	}
	return fmt.Errorf("route to %s via %s: %w", r.To, r.Via, err)
}

func addressHint(p netip.Prefix, err error) string {
	switch {
	case errors.Is(err, unix.EEXIST):
		return ": the host has it already"
	case p.Addr().Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP)):
		return ": IPv6 is off (sysctl disable_ipv6, or ipv6.disable=1 on the kernel's command line)"
	}
	return ""
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
