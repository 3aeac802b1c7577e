package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/netns-lab/livefs"
)

// VerbsCounters is the socket beside VerbsSocket at which the NICs' counters are served
// (livefs.Hand).
func VerbsCounters(dir, host string) string { return filepath.Join(dir, "verbs", host, "counters") }

// ShowCounters shows the NICs' counters in the directories that ShowVerbs has shown, to
// the calling thread as there: socket is one of VerbsCounters. The error is
// livefs.ErrUnavailable where the machine has no FUSE for the caller.
func ShowCounters(socket string) error {
	mount, device, err := livefs.Mount("weft")
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	defer unix.Close(device)
	if err := livefs.Hand(socket, device); err != nil {
		return err
	}
	return bindCounters(mount)
}

// bindCounters shows a file system of counters, by devices and ports, in
// /sys/class/infiniband.
func bindCounters(mount int) error {
	// What is to be bound has to be somewhere.
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
		if err := bind(from, filepath.Join("/sys/class/infiniband", rel)); err != nil {
			return err
		}
	}
	return errors.Join(unix.Unmount(aside, unix.MNT_DETACH), os.Remove(aside))
}
