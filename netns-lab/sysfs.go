package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// bindCounters binds a file system of counters, by device and port, into
// /sys/class/infiniband.
func bindCounters(mount int) error {
	// A mount must be attached before it can be bound.
	const aside = "/sys/class/infiniband_counters"
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, aside, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the counters of RDMA devices: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(aside, "*/ports/*/*counters"))
	if err != nil {
		return err
	}
	for _, from := range found {
		rel, err := filepath.Rel(aside, from)
		if err != nil {
			return err
		}
		if err := bindMount(from, filepath.Join("/sys/class/infiniband", rel)); err != nil {
			return err
		}
	}
	return errors.Join(unix.Unmount(aside, unix.MNT_DETACH), os.Remove(aside))
}

// coverSys shows the NICs in /sys, and returns its mounts there, the last one first. The interface
// of a NIC gets a link to it, as device, which the kernel's interface has not: sysfs takes no new
// entries, so the others are bound beside it.
func coverSys() (covers []string, err error) {
	for _, dir := range []string{"/sys/devices", "/sys/class"} {
		from := filepath.Join(verbsSys, filepath.Base(dir))
		if err := coverDirectory(dir, func(_ *os.File, dir string) error { return bindAll(from, dir) }); err != nil {
			return covers, fmt.Errorf("%s: %w", dir, err)
		}
		covers = append([]string{dir}, covers...)
	}
	interfaces, err := filepath.Glob("/sys/devices/weft/*/net/*")
	if err != nil {
		return covers, err
	}
	for _, i := range interfaces {
		dir := filepath.Join("/sys/devices/virtual/net", filepath.Base(i))
		nic, err := filepath.Rel(dir, filepath.Dir(filepath.Dir(i)))
		if err != nil {
			return covers, err
		}
		if err := coverDirectory(dir, func(_ *os.File, dir string) error { return os.Symlink(nic, filepath.Join(dir, "device")) }); err != nil {
			return covers, fmt.Errorf("%s: %w", dir, err)
		}
		covers = append([]string{dir}, covers...)
	}
	return covers, nil
}
