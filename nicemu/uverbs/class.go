package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// WriteSys writes into dir the sysfs files of the devices that programs read in addition to asking
// the libraries, in the kernel's shape (Documentation/ABI/stable/sysfs-class-infiniband of Linux).
// Each NIC is a directory below devices/weft, as a PCI device would be; class/infiniband and
// class/infiniband_verbs have symbolic links to what is in it. host is the host's name. The
// directories of counters are empty: their files are those of Counters.
func (s *Server) WriteSys(dir, host string) error {
	for n, d := range s.devices {
		nic := filepath.Join("devices/weft", fmt.Sprintf("nic%d", n))
		files := d.classFiles()
		files["node_desc"] = host + " " + deviceName(n)
		at, err := writeDevice(dir, nic, "infiniband", deviceName(n), files)
		if err != nil {
			return err
		}
		for _, c := range []nicemu.Origin{nicemu.PortCounter, nicemu.HWCounter} {
			if err := os.MkdirAll(filepath.Join(at, "ports/1", c.String()), 0o755); err != nil {
				return err
			}
		}
		if err := link(dir, filepath.Join(nic, "net", d.Netdev), filepath.Join("devices/virtual/net", d.Netdev)); err != nil {
			return err
		}
		uverbs := map[string]string{"ibdev": deviceName(n), "abi_version": "1", "dev": fmt.Sprintf("231:%d", 192+n)}
		if _, err := writeDevice(dir, nic, "infiniband_verbs", fmt.Sprintf("uverbs%d", n), uverbs); err != nil {
			return err
		}
	}
	return writeFiles(filepath.Join(dir, "class/infiniband_verbs"), map[string]string{"abi_version": "6"})
}

// UpdateSys writes again what WriteSys wrote into dir of the devices' ports, which may have changed:
// their states and their GIDs. Files change at once, from one content to the next. Call it from one
// thread at a time, and not from the engine's.
func (s *Server) UpdateSys(dir string) error {
	for n, d := range s.devices {
		var files map[string]string
		if err := s.do(func() { files = d.classFiles() }); err != nil {
			return err
		}
		at := filepath.Join(dir, "class/infiniband", deviceName(n))
		for i := range d.Limits().GIDs {
			for _, kind := range [...]string{"types", "ndevs"} {
				file := fmt.Sprintf("ports/1/gid_attrs/%s/%d", kind, i)
				if files[file] == "" {
					if err := os.Remove(filepath.Join(at, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
			}
		}
		for file, text := range files {
			path := filepath.Join(at, file)
			if old, err := os.ReadFile(path); err == nil && string(old) == text+"\n" {
				continue
			}
			// Beside the ports, so that no program finds it among the files of one.
			next := filepath.Join(at, ".next")
			if err := os.WriteFile(next, []byte(text+"\n"), 0o644); err != nil {
				return err
			}
			if err := os.Rename(next, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeDevice writes a device of a class, below the NIC that it belongs to, and returns its
// directory. It has links to both, and the class has one to it.
func writeDevice(dir, nic, class, name string, files map[string]string) (at string, err error) {
	device := filepath.Join(nic, class, name)
	at = filepath.Join(dir, device)
	if err := writeFiles(at, files); err != nil {
		return "", err
	}
	for _, l := range [...]struct{ from, to string }{
		{filepath.Join(device, "device"), nic}, {filepath.Join(device, "subsystem"), filepath.Join("class", class)}, {filepath.Join("class", class, name), device},
	} {
		if err := link(dir, l.from, l.to); err != nil {
			return "", err
		}
	}
	return at, nil
}

// link makes a relative symbolic link between two places below dir, as sysfs has them.
func link(dir, from, to string) error {
	path := filepath.Join(dir, from)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// By way of the directory that the target is in (kernfs_get_target_path), so that its name is
	// there: programs take a NIC's from "device".
	rel, err := filepath.Rel(filepath.Dir(from), filepath.Dir(to))
	if err != nil {
		return err
	}
	return os.Symlink(filepath.Join(rel, filepath.Base(to)), path)
}

// classFiles returns the files of a device.
func (d *Device) classFiles() map[string]string {
	guid := d.GUID()
	words := fmt.Sprintf("%04x:%04x:%04x:%04x", guid>>48, guid>>32&0xffff, guid>>16&0xffff, guid&0xffff)
	rate := d.Line()
	state, physical := "4: ACTIVE", "5: LinkUp"
	if !d.QueryPort().Active {
		state, physical = "1: DOWN", "3: Disabled"
	}
	files := map[string]string{
		"node_type": "1: CA", "node_guid": words, "sys_image_guid": words, "fw_ver": "weft", "hw_rev": "0", "hca_type": "weft", "board_id": "weft",
		"ports/1/state": state, "ports/1/phys_state": physical, "ports/1/link_layer": "Ethernet", "ports/1/lid": "0x0", "ports/1/lid_mask_count": "0",
		"ports/1/sm_lid": "0x0", "ports/1/sm_sl": "0", "ports/1/cap_mask": "0x04010000", "ports/1/rate": fmt.Sprintf("%d Gb/sec (1X)", int64(rate/units.Gbps)),
		"ports/1/pkeys/0": "0xffff",
	}
	for i, a := range d.GIDs() {
		if !a.IsValid() { // the kernel has no type and no interface of a gap
			files[fmt.Sprintf("ports/1/gids/%d", i)] = gidText(netip.IPv6Unspecified())
			continue
		}
		files[fmt.Sprintf("ports/1/gids/%d", i)] = gidText(a)
		files[fmt.Sprintf("ports/1/gid_attrs/types/%d", i)] = "RoCE v2"
		files[fmt.Sprintf("ports/1/gid_attrs/ndevs/%d", i)] = d.Netdev
	}
	return files
}

// Counters returns the files of the devices' counters in /sys/class/infiniband, by path: those of
// ports/1/counters, and in ports/1/hw_counters those of NVIDIA's driver and weft's own. Each
// function returns the current content of its file; an error means that the engine has ended.
func (s *Server) Counters() map[string]func() (string, error) {
	files := map[string]func() (string, error){}
	for n := range s.devices {
		d := &s.devices[n]
		for _, c := range nicemu.CounterInfos() {
			at := c.Origin
			switch at {
			case nicemu.PortAttribute:
				continue // of ibv_query_port(3)
			case nicemu.OwnCounter:
				at = nicemu.HWCounter
			}
			files[filepath.Join(deviceName(n), "ports/1", at.String(), c.Name)] = func() (text string, err error) {
				err = s.do(func() {
					d.EachCounter(func(name string, n uint64) {
						if name == c.Name {
							text = fmt.Sprintln(n)
						}
					})
				})
				return text, err
			}
		}
	}
	return files
}

// gidText returns a GID as the kernel writes it: eight words, none left out.
func gidText(a netip.Addr) (text string) {
	g := nicemu.GID(a)
	for i := 0; i < len(g); i += 2 {
		if i > 0 {
			text += ":"
		}
		text += fmt.Sprintf("%02x%02x", g[i], g[i+1])
	}
	return text
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
