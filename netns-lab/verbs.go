package netnslab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/netns-lab/livefs"
)

// VerbsSocket is the socket by which RDMA programs of a host reach its NICs, in a
// lab's state directory. It is there if the host has any.
func VerbsSocket(dir, host string) string { return filepath.Join(dir, "verbs", host, "socket") }

// VerbsClass is the directory beside it with what /sys/class is to have of the NICs:
// infiniband and infiniband_verbs.
func VerbsClass(dir, host string) string { return filepath.Join(dir, "verbs", host, "class") }

// VerbsCounters is the socket beside it at which the NICs' counters are served
// (livefs.Hand).
func VerbsCounters(dir, host string) string { return filepath.Join(dir, "verbs", host, "counters") }

// ShowVerbs shows the NICs in /sys/class and /dev/infiniband to the calling thread,
// which has a mount namespace of its own (Exec's inside): class is a directory of
// VerbsClass. Nothing of it is seen elsewhere. The devices there cannot be used: what
// programs want is that they are there.
func ShowVerbs(class string) error {
	from, err := openPath(class)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := cover("/sys/class", func(_, dir string) error { return bindAll(from.Name(), dir) }); err != nil {
		return fmt.Errorf("show RDMA devices in /sys/class: %w", err)
	}
	err = cover("/dev", func(before, dir string) error {
		devices, err := os.ReadDir(filepath.Join(from.Name(), "infiniband_verbs"))
		if err != nil {
			return err
		}
		names := []string{"rdma_cm"}
		for _, d := range devices {
			if d.IsDir() {
				names = append(names, d.Name())
			}
		}
		return standIns(filepath.Join(before, "null"), filepath.Join(dir, "infiniband"), names)
	})
	if err != nil {
		return fmt.Errorf("show RDMA devices in /dev: %w", err)
	}
	return nil
}

// ShowCounters shows the NICs' counters in the directories that ShowVerbs has shown, to
// the calling thread as there: socket is one of VerbsCounters. An error that is
// fs.ErrNotExist or fs.ErrPermission is that /dev/fuse cannot be used.
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

// cover puts a private directory over dir, in which add makes what comes before what
// dir has; before leads to that.
func cover(dir string, add func(before, dir string) error) error {
	before, err := openPath(dir)
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Mount("weft", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return err
	}
	if err := add(before.Name(), dir); err != nil {
		return err
	}
	return carryAll(before, dir)
}

// bindAll shows the directories of from in to.
func bindAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(to, e.Name())
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := bind(filepath.Join(from, e.Name()), at); err != nil {
			return err
		}
	}
	return nil
}

// standIns makes character devices by names: each is the null device, whose path is
// null.
func standIns(null, dir string, names []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, n := range names {
		at := filepath.Join(dir, n)
		if err := os.WriteFile(at, nil, 0o666); err != nil {
			return err
		}
		if err := bind(null, at); err != nil {
			return err
		}
	}
	return nil
}
