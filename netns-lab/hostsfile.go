package netnslab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

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

// hostsFile returns the /etc/hosts of every host of a lab: each host's name with its
// first IPv4 and its first IPv6 address, and likewise the names in others.
func hostsFile(hosts []HostInfo, others []Name) []byte {
	var b bytes.Buffer
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	for _, h := range hosts {
		for _, family := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
			if a, ok := h.firstAddress(family); ok {
				fmt.Fprintf(&b, "%s\t%s\n", a, h.Name)
			}
		}
	}
	for _, o := range others {
		for _, a := range o.Addresses {
			fmt.Fprintf(&b, "%s\t%s\n", a, o.Name)
		}
	}
	return b.Bytes()
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
