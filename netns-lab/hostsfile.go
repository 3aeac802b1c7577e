package netnslab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// etcDir returns the directory that holds, for each namespace, a directory of files
// that programs in the namespace see in place of the ones in /etc (ip-netns(8)).
func etcDir() string {
	if inRootless() {
		return privateEtc
	}
	return "/etc/netns"
}

// ownDir returns the directory of a host's own files in its lab's state directory.
func ownDir(dir, host string) string { return filepath.Join(dir, "hosts", host) }

func hostsPath(nsName string) string { return filepath.Join(etcDir(), nsName, "hosts") }

// hostsFile returns the /etc/hosts of a host of a lab: each host's name with an IPv4 and an
// IPv6 address, the first ones unless prefer has others, the names in others, and for each
// interface a name such as h1-eth1 with all its addresses. That name is left out if it is
// the name of another node.
func hostsFile(hosts []HostInfo, others, prefer []Name) []byte {
	var b bytes.Buffer
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	nodes := map[string]bool{}
	for _, h := range hosts {
		nodes[h.Name] = true
	}
	for _, o := range others {
		nodes[o.Name] = true
	}
	preferred := map[string][]netip.Addr{}
	for _, p := range prefer {
		preferred[p.Name] = p.Addresses
	}
	for _, h := range hosts {
		named := h.named(preferred[h.Name])
		var more bytes.Buffer // addresses that do not have the host's own name
		for _, i := range h.Interfaces {
			alias := h.Name + "-" + i.Name
			for _, p := range i.Addresses {
				a := p.Addr()
				switch {
				case a == named[0] || a == named[1]:
					fmt.Fprintf(&b, "%s\t%s", a, h.Name)
					if !nodes[alias] {
						fmt.Fprintf(&b, " %s", alias)
					}
					b.WriteByte('\n')
				case !nodes[alias]:
					fmt.Fprintf(&more, "%s\t%s\n", a, alias)
				}
			}
		}
		b.Write(more.Bytes())
	}
	for _, o := range others {
		for _, a := range o.Addresses {
			fmt.Fprintf(&b, "%s\t%s\n", a, o.Name)
		}
	}
	return b.Bytes()
}

// named returns the IPv4 and the IPv6 address that a host's name stands for: those among the
// preferred ones, else the first ones; the zero Addr if there is none.
func (h HostInfo) named(preferred []netip.Addr) (a [2]netip.Addr) {
	for v, family := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
		if i := slices.IndexFunc(preferred, family); i >= 0 {
			a[v] = preferred[i]
			continue
		}
		a[v], _ = h.firstAddress(family)
	}
	return a
}

func (h HostInfo) firstAddress(family func(netip.Addr) bool) (netip.Addr, bool) {
	for _, i := range h.Interfaces {
		for _, p := range i.Addresses {
			if family(p.Addr()) {
				return p.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

func writeHostsFile(nsName string, content []byte) error {
	path := hostsPath(nsName)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// removeHostsFile removes the file, and its directory unless the user has put something there.
func removeHostsFile(nsName string) error {
	path := hostsPath(nsName)
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
