package netnslab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// view says how a host's programs see the machine differently from programs outside:
// the orders for the host's init.
type view struct {
	Name      string // of the host
	Namespace string
	Etc       string   // directory whose files cover those in /etc
	Own       string   // directory of hostOwn: the same, for files that Etc lacks
	Private   []string // the host's private directories, initially empty
}

// Files that each host has its own copies of. Programs take the machine's identity
// from them and draw conclusions from it: UCX and NCCL, for instance, whether a peer
// can be reached by shared memory.
const (
	hostnameFile  = "hostname"
	resolvFile    = "resolv.conf"
	machineIDFile = "machine-id"
	bootIDFile    = "boot_id"
)

// mountSource is the source that mount(8) shows for file systems made for hosts.
const mountSource = "weft"

const bootIDPath = "/proc/sys/kernel/random/boot_id"

// noResolver makes a DNS lookup fail at once: no server is reachable through the
// fabric, and asking the machine's server would take seconds each time.
const noResolver = "# The hosts of this lab are in /etc/hosts. A server of the lab's can be named in\n# /etc/netns/%s/resolv.conf, before the lab starts.\n"

// writeOwn writes a host's own files into dir.
func writeOwn(dir, lab, host, nsName string, started time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	machine := sha256.Sum256([]byte("machine\x00" + lab + "\x00" + host))
	boot := sha256.Sum256(fmt.Appendf(nil, "boot\x00%s\x00%s\x00%d", lab, host, started.UnixNano()))
	for name, text := range map[string]string{
		hostnameFile:  host,
		resolvFile:    strings.TrimSuffix(fmt.Sprintf(noResolver, nsName), "\n"),
		machineIDFile: strings.ReplaceAll(formatUUID(machine), "-", ""),
		bootIDFile:    formatUUID(boot),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// formatUUID formats b as a random UUID (RFC 9562, version 4), although b is not random.
func formatUUID(b [sha256.Size]byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// arrangeView sets up the view. This process is the first in the host's namespaces.
func (v view) arrangeView() error {
	if err := unix.Sethostname([]byte(v.Name)); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	if err := unix.Setdomainname([]byte("(none)")); err != nil {
		return fmt.Errorf("set the host's NIS domain: %w", err)
	}
	// Mounts still propagate in from outside, but not out.
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"/proc", mountProc},
		{"/sys", func() error { return remountSys(v.Namespace) }},
		{"/dev/shm", func() error { return mountOver("/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777") }},
		{"/dev/mqueue", func() error {
			return mountOver("/dev/mqueue", "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{"its own files in /etc", v.bindOwn},
		{netnsDir, func() error { return ownNetns(v.Namespace) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("give the host %s: %w", step.what, err)
		}
	}
	for _, dir := range v.Private {
		if err := makePrivate(dir, v.Namespace); err != nil {
			return fmt.Errorf("give the host its own %s: %w", dir, err)
		}
	}
	return nil
}

// mountProc mounts a /proc with the host's own processes. It is read-only if the old
// one was. The old mount stays below: without it, the kernel does not let a user
// namespace mount another (mount_too_revealing in fs/namespace.c).
func mountProc() error {
	var before unix.Statfs_t
	if err := unix.Statfs("/proc", &before); err != nil {
		return err
	}
	flags := uintptr(before.Flags)&unix.ST_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := unix.Mount("proc", "/proc", "proc", flags, "")
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: a container that hides parts of /proc denies it to user namespaces: run it with --security-opt systempaths=unconfined, or weft as root", err)
	}
	return err
}

// remountSys mounts a /sys with the namespace's own devices in /sys/class/net. It is
// read-only if the old one was.
func remountSys(nsName string) error {
	var before unix.Statfs_t
	if err := unix.Statfs("/sys", &before); err != nil {
		return err
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return unix.Mount(nsName, "/sys", "sysfs", uintptr(before.Flags)&unix.ST_RDONLY, "")
}

// mountOver mounts a new file system over a directory, if that exists.
func mountOver(dir, kind string, flags uintptr, data string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return unix.Mount(mountSource, dir, kind, flags, data)
}

// bindOwn bind-mounts the host's own files over the machine's.
func (v view) bindOwn() error {
	given, err := os.ReadDir(v.Etc)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, f := range given {
		named[f.Name()] = true
		from, to := filepath.Join(v.Etc, f.Name()), filepath.Join("/etc", f.Name())
		if err := unix.Mount(from, to, "none", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s over %s: %w (the file must exist in /etc)", from, to, err)
		}
	}
	for name, over := range map[string]string{
		hostnameFile: "/etc/hostname", resolvFile: "/etc/resolv.conf", machineIDFile: "/etc/machine-id", bootIDFile: bootIDPath,
	} {
		if named[name] {
			continue
		}
		// Programs do not need a file that the machine itself lacks.
		err := unix.Mount(filepath.Join(v.Own, name), over, "none", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("mount a file over %s: %w", over, err)
		}
	}
	return nil
}

// ownNetns removes the other hosts' namespaces from the host's /run/netns and leaves
// only its own name. So the cost of making a host does not grow with the lab.
func ownNetns(nsName string) error {
	for {
		err := unix.Unmount(netnsDir, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Mount(mountSource, netnsDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return err
	}
	path := namespacePath(nsName)
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	return unix.Mount("/proc/self/ns/net", path, "none", unix.MS_BIND, "")
}

// makePrivate mounts an empty directory over one of the machine's, with the same
// owner and permissions. /run keeps the directories of this package and of iproute2.
func makePrivate(dir, nsName string) error {
	var before unix.Stat_t
	if err := unix.Stat(dir, &before); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=%o", before.Mode&0o7777)
	if err := unix.Mount(mountSource, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	_ = os.Chown(dir, int(before.Uid), int(before.Gid)) // a user namespace may not have that owner
	if !strings.HasPrefix(netnsDir, dir+"/") {
		return nil
	}
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	return ownNetns(nsName)
}

// limitHint says which limit a new namespace may have hit.
func limitHint(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		return ": one of the limits user.max_{pid,mnt,uts,ipc}_namespaces is reached: sysctl user shows them"
	}
	return ""
}
