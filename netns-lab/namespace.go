package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// netnsDir holds a bind mount for each named namespace, as in iproute2.
const netnsDir = "/run/netns"

// NamespaceName returns the name of a host in `ip netns`.
func NamespaceName(lab, host string) string { return "weft-" + lab + "-" + host }

func namespacePath(name string) string { return filepath.Join(netnsDir, name) }

// namespace is an open network namespace.
type namespace struct {
	name  string
	links *netlink.Handle

	// raw is a second socket in the namespace, for requests that links does not support.
	raw map[int]*nl.SocketHandle

	init *hostInit // nil until it exists, and for a virtual machine's host

	// mu excludes close during requests: without its socket a handle would use the
	// namespace of the process instead.
	mu     sync.RWMutex
	closed bool
}

// newNamespace makes a named namespace and leaves the calling thread in it.
func newNamespace(name string) (*namespace, error) {
	handle, err := netns.NewNamed(name)
	if errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("namespace %s was created by another process at the same time", name)
	}
	if err != nil {
		return nil, fmt.Errorf("make the network namespace %s: %w", name, err)
	}
	defer handle.Close()
	links, err := netlink.NewHandleAt(handle, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket in namespace %s: %w", name, err)
	}
	socket, err := nl.GetNetlinkSocketAt(handle, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		links.Close()
		return nil, fmt.Errorf("netlink socket in namespace %s: %w", name, err)
	}
	return &namespace{name: name, links: links, raw: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}}, nil
}

// joinNamespace moves the calling thread into a named namespace.
func joinNamespace(name string) error {
	handle, err := netns.GetFromName(name)
	if err == nil {
		defer handle.Close()
		err = netns.Set(handle)
	}
	if err != nil {
		return fmt.Errorf("join namespace %s: %w", name, err)
	}
	return nil
}

// runOpen runs f unless ns is closed.
func (ns *namespace) runOpen(f func() error) error {
	ns.mu.RLock()
	defer ns.mu.RUnlock()
	if ns.closed {
		return fmt.Errorf("namespace %s: %w", ns.name, os.ErrClosed)
	}
	return f()
}

func (ns *namespace) closeNamespace() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return
	}
	ns.closed = true
	ns.links.Close()
	for _, s := range ns.raw {
		s.Close()
	}
}

// onSparedThread runs f on an OS thread that f may move to another network
// namespace. The thread is moved back afterwards, or ends.
func onSparedThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open this thread's network namespace: %w", err)
			return
		}
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread() // otherwise the runtime ends the thread with the goroutine
		}
		home.Close()
		done <- err
	}()
	return <-done
}

// shareNetnsMounts makes /run/netns a mount point whose mounts are shared, as `ip
// netns add` does (iproute2, ip/ipnetns.c, netns_add). Without it a namespace made
// before the first `ip netns add` would be mounted twice after it and could not be
// removed, and a copy of the mounts in another mount namespace would keep removed
// namespaces alive.
func shareNetnsMounts() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	lock, err := lockDir(netnsDir, unix.LOCK_EX) // the lock that iproute2 takes for the same
	if err != nil {
		return err
	}
	defer lock.Close()
	const shared = unix.MS_SHARED | unix.MS_REC
	err = unix.Mount("", netnsDir, "none", shared, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err = unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", netnsDir, "none", shared, "")
		}
	}
	if err != nil {
		return fmt.Errorf("make the mounts in %s shared: %w", netnsDir, err)
	}
	return nil
}

// deleteNamespace removes the name of a namespace, whether it is complete, half made
// (a file without a mount) or absent. The kernel removes the namespace itself some
// time after its last use.
func deleteNamespace(name string) error {
	path := namespacePath(name)
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}
