package netnslab

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Host describes a host, from which Create makes one namespace.
type Host struct {
	Name       string // within the lab, such as "h1"
	Interfaces []Interface
	Sysctls    []Sysctl // in this order, after the package's own settings
	Routes     []Route

	// Prefer are addresses of other hosts of the lab that their names stand for in this
	// host's /etc/hosts, in place of their first ones.
	Prefer []Name

	// Private are the host's private directories, initially empty and in memory,
	// such as /tmp or /run. They must exist on the machine.
	Private []string

	// Dilation is the factor by which the host is slower than real time: with a
	// dilation of 100, a device with a rate of 10 Gb/s sends 100 Mb/s in real time,
	// and the kernel's configurable timers take 100 times as long. 0 means 1.
	Dilation int
}

// Interface is a device of a host.
type Interface struct {
	Name string
	Kind DeviceKind
	MAC  net.HardwareAddr // of a TAP; nil lets the kernel choose. Virtual: only Addresses count, for other hosts' names
	MTU  int              // bytes of IP packet; 0 means 1500

	// Offload makes the device carry super-packets: each read and write has a
	// struct virtio_net_hdr before it.
	Offload bool

	// Addresses of either family. IPv6 addresses can be used at once: there is no
	// duplicate address detection.
	Addresses []netip.Prefix

	// Rate of the link behind the device, in emulated time (Host.Dilation), wire
	// overhead included. The host sends no faster, and excess packets wait in its
	// own queueing discipline. 0 means no limit: a host that sends faster than the
	// device is read then loses packets in the device's ring.
	Rate units.Rate

	// TxQueueLen is the size in packets of the device's ring, or of each queue's
	// ring if there are several; 0 means DefaultTxQueueLen.
	TxQueueLen int

	// Classes requests a queue for each traffic class, which Device.HoldQueue stops and
	// Device.ResumeQueue restarts. If the machine does not allow that (Device.Unsteered),
	// there is one queue for all. Nil means one queue that cannot be held.
	Classes *Classes
}

// Defaults of an Interface.
const (
	DefaultMTU = 1500

	// DefaultTxQueueLen makes the ring large enough for a shaper's burst (see
	// Interface.Rate) and for a pause of the reader: 10,000 full frames are 12 ms at
	// 10 Gb/s, 120 ms at 1 Gb/s. A full ring drops without telling the sender, and
	// an empty slot costs only 8 bytes.
	DefaultTxQueueLen = 10_000
)

// Route is a route of a host through a gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// interfaceNameMax is IFNAMSIZ (include/uapi/linux/if.h) without the final zero.
const interfaceNameMax = 15

// plainName matches valid lab and host names: they become names of files, of
// namespaces and of hosts.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func validateHosts(lab string, hosts []Host) error {
	if !plainName.MatchString(lab) {
		return fmt.Errorf("lab name %q: use up to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit", lab)
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if !plainName.MatchString(h.Name) {
			return fmt.Errorf("host name %q: use up to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit", h.Name)
		}
		if seen[h.Name] {
			return fmt.Errorf("duplicate host %s: host names must differ within a lab", h.Name)
		}
		seen[h.Name] = true
		if err := h.validateHost(); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

func (h Host) validateHost() error {
	seen := map[string]bool{"lo": true}
	for _, i := range h.Interfaces {
		if seen[i.Name] {
			return fmt.Errorf("duplicate interface %s: interface names must differ within a host, and lo always exists", i.Name)
		}
		seen[i.Name] = true
		if err := i.validateInterface(); err != nil {
			return fmt.Errorf("interface %s: %w", i.Name, err)
		}
	}
	for _, dir := range h.Private {
		if err := CheckPrivate(dir); err != nil {
			return fmt.Errorf("private directory: %w", err)
		}
	}
	for _, r := range h.Routes {
		if !r.To.IsValid() || !r.Via.IsValid() {
			return fmt.Errorf("route to %s via %s: both a destination and a gateway are needed", r.To, r.Via)
		}
		if r.To.Addr().Is4() != r.Via.Is4() {
			return fmt.Errorf("route to %s via %s: the gateway has the other address family", r.To, r.Via)
		}
	}
	return nil
}

func (i Interface) validateInterface() error {
	switch {
	case i.Name == "" || len(i.Name) > interfaceNameMax || strings.ContainsAny(i.Name, "/:% \t\n") || i.Name == "." || i.Name == "..":
		return fmt.Errorf("%q cannot name an interface: use 1 to %d characters without /, :, %% and spaces", i.Name, interfaceNameMax)
	case i.Kind != TAP && i.Kind != TUN && i.Kind != Virtual:
		return fmt.Errorf("unknown kind of device %v: use TAP, TUN or Virtual", i.Kind)
	case i.Kind == TUN && i.MAC != nil:
		return fmt.Errorf("MAC %s: a TUN device carries IP packets and has no MAC address", i.MAC)
	case i.MAC != nil && len(i.MAC) != 6:
		return fmt.Errorf("MAC %s has %d bytes, not 6", i.MAC, len(i.MAC))
	case i.Rate < 0:
		return fmt.Errorf("rate %s is negative", i.Rate)
	case i.TxQueueLen < 0:
		return fmt.Errorf("a queue of %d packets is negative", i.TxQueueLen)
	}
	if i.Classes != nil {
		if err := i.Classes.validateClasses(); err != nil {
			return err
		}
	}
	for _, p := range i.Addresses {
		if !p.IsValid() {
			return fmt.Errorf("an address is empty or has more bits than its family")
		}
		if p.Addr().Is6() && i.effectiveMTU() < ipv6MinMTU {
			return fmt.Errorf("MTU %d is too small for %s: IPv6 needs %d (RFC 8200, section 5)", i.effectiveMTU(), p, ipv6MinMTU)
		}
	}
	return nil
}

// CheckPrivate reports why a directory cannot be one of Host.Private on any machine.
func CheckPrivate(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return fmt.Errorf("%q is not the absolute path of a directory: write for example /tmp", dir)
	}
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if dir == own || strings.HasPrefix(dir, own+"/") {
			return fmt.Errorf("%s cannot be private: the contents of %s are not the machine's, or are needed", dir, own)
		}
	}
	if dir == "/" || dir == "/etc" || dir == "/usr" {
		return fmt.Errorf("%s cannot be private: programs do not run without its contents", dir)
	}
	return nil
}

const ipv6MinMTU = 1280

func (i Interface) effectiveMTU() int {
	if i.MTU == 0 {
		return DefaultMTU
	}
	return i.MTU
}

func (i Interface) txQueueLen() int {
	if i.TxQueueLen == 0 {
		return DefaultTxQueueLen
	}
	return i.TxQueueLen
}
