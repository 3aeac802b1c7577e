package netnslab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctlDir shows each thread the values of its own network namespace.
const sysctlDir = "/proc/sys"

// Sysctl is a kernel parameter of a host, such as {"net.ipv4.tcp_ecn", "1"}. As in
// sysctl(8), the parts of the key are separated by dots or by slashes, whichever
// comes first; with slashes a part may contain a dot
// (net/ipv4/conf/eth0.5/rp_filter).
//
// Keys that name an interface of the host are set when the interface exists but is
// still down, all others before the first interface is made.
type Sysctl struct {
	Key, Value string
}

// quietIPv6 returns every host's initial sysctls: addresses can be used at once, and
// routers are not solicited. It is empty if the machine has no IPv6.
func quietIPv6() []Sysctl {
	if _, err := os.Stat(filepath.Join(sysctlDir, "net/ipv6/conf")); err != nil {
		return nil
	}
	return []Sysctl{
		// Detection is off only if both say so (addrconf_dad_begin, net/ipv6/addrconf.c).
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_ra", "0"},
		{"net.ipv6.conf.default.router_solicitations", "0"},
	}
}

// splitKey splits the key at its separators.
func (s Sysctl) splitKey() []string {
	if i := strings.IndexAny(s.Key, "./"); i >= 0 {
		return strings.Split(s.Key, s.Key[i:i+1])
	}
	return []string{s.Key}
}

// concernsAny reports whether s is a parameter of one of the interfaces:
// net.<family>.conf.<interface>.<name> or net.<family>.neigh.<interface>.<name>.
func (s Sysctl) concernsAny(interfaces []Interface) bool {
	parts := s.splitKey()
	return len(parts) > 3 && slices.ContainsFunc(interfaces, func(i Interface) bool { return i.Name == parts[3] })
}

// applySysctl writes s in the calling thread's namespace.
func (s Sysctl) applySysctl() error {
	parts := s.splitKey()
	if parts[0] != "net" || slices.Contains(parts, "..") {
		return fmt.Errorf("sysctl %s: only keys under net. belong to a host; this one would change the machine", s.Key)
	}
	err := os.WriteFile(filepath.Join(sysctlDir, filepath.Join(parts...)), []byte(s.Value), 0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("sysctl %s: this kernel has no such key in a network namespace (weft exec <host> -- sysctl -a lists them); some are visible only to root", s.Key)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("sysctl %s: the kernel refuses the value %q", s.Key, s.Value)
	case errors.Is(err, unix.EPERM) && parts[len(parts)-1] == "tcp_congestion_control":
		return s.notAllowed()
	}
	return fmt.Errorf("sysctl %s = %q: %w", s.Key, s.Value, err)
}

// notAllowed returns the error for a congestion control that only the machine's own network may use,
// with a command that a shell takes as it is.
func (s Sysctl) notAllowed() error {
	const allowed = "net.ipv4.tcp_allowed_congestion_control"
	return fmt.Errorf("sysctl %s: the machine does not allow %q in network namespaces: add it with sysctl -w %[3]s=\"$(sysctl -n %[3]s) %[2]s\"", s.Key, s.Value, allowed)
}

func applySysctls(list []Sysctl) error {
	for _, s := range list {
		if err := s.applySysctl(); err != nil {
			return err
		}
	}
	return nil
}
