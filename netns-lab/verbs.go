package netnslab

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// VerbsSocket is the socket by which RDMA programs of a host reach its NICs, in a
// lab's state directory. It is there if the host has any.
func VerbsSocket(dir, host string) string { return filepath.Join(dir, "verbs", host, "socket") }

// VerbsClass is the directory beside it with what /sys/class is to have of the NICs:
// infiniband and infiniband_verbs.
func VerbsClass(dir, host string) string { return filepath.Join(dir, "verbs", host, "class") }

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
