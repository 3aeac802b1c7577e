package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckPrivileges reports everything that this process lacks to make labs, and how
// to get it; nil if it lacks nothing.
func CheckPrivileges() error {
	return errors.Join(checkCapabilities(), checkTun(), checkWritable(stateDir), checkWritable(netnsDir), checkWritable(etcDir()))
}

func checkCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read this process's capabilities: %w", err)
	}
	var missing []error
	for _, c := range []struct {
		bit  int
		name string
		why  string
	}{
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "make devices, addresses and queues"},
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "make network namespaces and mount them"},
	} {
		if sets[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, fmt.Errorf("%s is needed to %s: run as root (sudo); in a container, with --cap-add %s", c.name, c.why, c.name[len("CAP_"):]))
		}
	}
	return errors.Join(missing...)
}

// checkWritable tests dir or, if it does not exist yet, the directory in which it
// will be made.
func checkWritable(dir string) error {
	for {
		err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is not writable: %w: run as root (sudo), on a file system that is not read-only", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}
