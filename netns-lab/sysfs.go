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
