package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A rootless lab is one whose owner is an ordinary user. It lives in a user
// namespace, in which that user has all capabilities, and in its own mount and
// network namespaces (user_namespaces(7)). It is made in two steps:
//
//   - The process that the user started finds that it IsUnprivileged, calls
//     PrepareRootless and starts another with the attributes NewNamespaces.
//   - That one calls EnterRootless with the directory that PrepareRootless gave,
//     and from then on works as root does.
//
// Everything in the namespaces disappears with their last process. The journal
// stays, and SweepLab ends the programs left behind by the owner's death.

// IsUnprivileged reports whether this process can make only rootless labs.
func IsUnprivileged() bool { return os.Geteuid() != 0 || checkCapabilities() != nil }

// PrepareRootless removes what a dead owner left of the lab called name and returns
// the directory for EnterRootless. The error wraps ErrRunning if the owner is alive.
// The outer process calls it: the inner one has no power over programs in another
// user namespace.
func PrepareRootless(name string) (dir string, err error) {
	if err := SweepLab(name); err != nil && !errors.Is(err, ErrUnknown) {
		return "", err
	}
	return stateDir, os.MkdirAll(stateDir, 0o700)
}

// NewNamespaces returns attributes that start a process in new namespaces, with this
// user as root. ExplainRootless explains why it could not be started.
func NewNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		// An ordinary user may map a group only without the right to drop
		// groups (user_namespaces(7)).
		GidMappingsEnableSetgroups: false,
	}
}

// ExplainRootless extends an error of EnterRootless, or of a start with
// NewNamespaces, with what forbids rootless labs on this machine and the fix.
func ExplainRootless(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a lab without root needs a user namespace: %w: %s; or run as root (sudo)", err, remedyFor(err, readKnob))
}

// readKnob reads a kernel parameter; it returns the empty string if there is no such parameter.
func readKnob(key string) string {
	b, _ := os.ReadFile(filepath.Join(sysctlDir, key))
	return strings.TrimSpace(string(b))
}

// remedyFor says how to fix an error in making or using a user namespace.
func remedyFor(err error, knob func(key string) string) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		if knob("user/max_user_namespaces") == "0" {
			return "the machine allows none: sudo sysctl -w user.max_user_namespaces=10000"
		}
		return "one of the limits user.max_{user,mnt,net}_namespaces is reached, or user namespaces are nested 32 deep: sysctl user shows the limits"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "the kernel has none (CONFIG_USER_NS)"
	case knob("kernel/unprivileged_userns_clone") == "0": // Debian's and Arch's patch
		return "the machine denies them to users: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case knob("kernel/apparmor_restrict_unprivileged_userns") == "1": // Ubuntu from 23.10 on
		return "AppArmor denies them to programs without a profile: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give weft a profile with the rule userns (docs/commands.md has one)"
	}
	return "in a container, run it with --security-opt seccomp=unconfined, or with --cap-add NET_ADMIN --cap-add SYS_ADMIN as root; elsewhere a security module or a chroot may forbid it"
}
