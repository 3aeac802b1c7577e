// Package vm runs virtual machines in QEMU: it starts them, waits until they report
// that they are up, logs their consoles, and ends them. Their NICs are datagram
// sockets held by the caller (package links/device/dgram).
//
// A machine leaves nothing behind when its process ends: sockets are inherited, the
// console's socket and the logs are in a directory of the caller, and disks are
// written only on request. It needs no root.
//
// The process runs inside the namespaces of its host, which has no devices. So journal,
// removal and rootless labs treat it like any program of a host, and the kernel kills it
// when the owner dies. The guest gets its setup through QEMU's firmware configuration.
package vm

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weftlab/weft/netns-lab/vm/agent"
	"github.com/weftlab/weft/sim/units"
)

// Accel says how the guest's instructions are executed.
type Accel uint8

// Values of Accel.
const (
	// Auto is KVM if it works with hardware support, else TCG. If KVM is present but
	// fails, the guest ends before it is ready.
	Auto Accel = iota
	KVM
	TCG
)

// AccelNames are the names of the Accel values.
var AccelNames = []string{"auto", "kvm", "tcg"}

// String returns the name.
func (a Accel) String() string { return AccelNames[a] }

// Values of a guest's Ready other than a text on its console.
const (
	ReadyAgent = "agent"
	ReadyNone  = "none"
)

// Config describes a machine.
type Config struct {
	Name string
	// Dir is for the console's socket and the logs. It must exist.
	Dir string
	// Console is the file to which the guest's console output is appended; empty
	// means ConsoleLog.
	Console string

	// Image is the directory of weft's own image (FindImage), whose kernel and
	// initramfs are booted, or empty. Then Kernel, Initrd and Disk are booted, any
	// of which may be empty; without a Kernel the Disk boots by its own loader.
	Image, Kernel, Initrd, Disk string
	// Persist makes the guest's changes to its Disk permanent. Otherwise they are
	// private to the guest and discarded when it ends.
	Persist bool
	// Append is added to the kernel's command line after weft's own arguments. It
	// has no effect without Kernel and Image.
	Append string

	Memory units.Bytes // rounded down to a multiple of MiB
	CPUs   int
	Accel  Accel

	NICs  []NIC
	Setup Setup

	// Ready is the condition for the machine to count as up: ReadyAgent, ReadyNone
	// for none, or a text on its console. Limit is how long that may take.
	Ready string
	Limit time.Duration
}

// NIC is a network interface of a machine.
type NIC struct {
	Name string // in the lab
	MAC  net.HardwareAddr
	MTU  int // of layer-3 packets; the guest takes it from the device
	// Socket is the guest's end of a pair of datagram sockets. The machine owns it.
	Socket *os.File
}

// Setup is the configuration of a guest of weft's own image.
type Setup struct {
	Addresses map[string][]netip.Prefix // by NIC
	Routes    []Route
	Sysctls   []Sysctl
	Hosts     []Host
}

// Route is a route of a guest through a gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Sysctl is a kernel parameter, such as net.ipv4.tcp_ecn.
type Sysctl struct{ Key, Value string }

// Host is a node that the guest knows by name.
type Host struct {
	Name    string
	Address netip.Addr
}

// formatSetup writes the setup for netns-lab/vm/guest/setup.sh: a line for each setting, in
// the order in which they must be applied.
func (s *Setup) formatSetup(name string, nics []NIC) string {
	var b strings.Builder
	line := func(words ...string) { fmt.Fprintln(&b, strings.Join(words, " ")) }
	line("hostname", name)
	for _, h := range s.Hosts {
		line("host", h.Address.String(), h.Name)
	}
	for i, n := range nics {
		line("nic", n.MAC.String(), "weft-"+strconv.Itoa(i))
	}
	for i, n := range nics {
		line("name", "weft-"+strconv.Itoa(i), n.Name)
	}
	for _, v := range []Sysctl{ // as for hosts in namespaces
		{"net.ipv6.conf.all.accept_dad", "0"}, {"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_ra", "0"}, {"net.ipv6.conf.default.router_solicitations", "0"},
	} {
		line("sysctl", strings.ReplaceAll(v.Key, ".", "/"), v.Value)
	}
	for _, n := range nics {
		for _, v := range []Sysctl{{"accept_dad", "0"}, {"accept_ra", "0"}, {"router_solicitations", "0"}} {
			line("sysctl", "net/ipv6/conf/"+n.Name+"/"+v.Key, v.Value)
		}
	}
	for _, v := range s.Sysctls {
		line("sysctl", strings.ReplaceAll(v.Key, ".", "/"), v.Value)
	}
	for i, n := range nics {
		line("up", n.Name)
		for _, a := range s.Addresses[n.Name] {
			line("address", n.Name, a.String())
		}
		line("rdma", n.Name, "rxe"+strconv.Itoa(i))
	}
	for _, r := range s.Routes {
		line("route", r.To.String(), r.Via.String())
	}
	return b.String()
}

// ImageDir returns the directory where scripts/vm-image.sh puts weft's own image.
func ImageDir() string {
	if dir := os.Getenv("WEFT_VM"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "/root"
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "weft", "vm")
}

// FindImage returns the directory of weft's own image. The error says how to build it.
func FindImage() (string, error) {
	dir := filepath.Join(ImageDir(), "current")
	if _, err := os.Stat(filepath.Join(dir, "initramfs")); err != nil {
		return "", fmt.Errorf("the image of weft's own guests is not in %s: build it with scripts/vm-image.sh (Debian's packages, no root), or give the node a kernel or a disk; $WEFT_VM names another place for it", ImageDir())
	}
	return filepath.EvalSymlinks(dir)
}

// imageAppend holds the kernel parameters of weft's own image. Without
// no_timer_check a busy machine's emulated timer looks broken to the kernel; the
// ones after it spare an emulated processor work.
const imageAppend = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable nokaslr mitigations=off audit=0 apparmor=0 cryptomgr.notests"

// ownAppend precedes Append on the command line of kernels that are not weft's.
const ownAppend = "console=ttyS0"

// qemuArguments returns QEMU's arguments. Sockets are given as descriptors in the new
// process: monitor and agent, then the NICs.
func (c *Config) qemuArguments(accel Accel, monitor, port int, nics []int, setup string) []string {
	escape := func(path string) string { return strings.ReplaceAll(path, ",", ",,") }
	a := []string{
		"-name", "guest=" + escape(c.Name), "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc",
		"-m", fmt.Sprintf("%dM", c.Memory/units.MiB), "-smp", strconv.Itoa(c.CPUs),
	}
	if accel == KVM {
		a = append(a, "-accel", "kvm", "-cpu", "host")
	} else {
		a = append(a, "-accel", "tcg", "-cpu", "max")
	}
	kernel, initrd, line := c.Kernel, c.Initrd, ownAppend
	if c.Image != "" {
		// A guest that panics or reboots has failed.
		a = append(a, "-no-reboot")
		kernel, initrd, line = filepath.Join(c.Image, "vmlinux"), filepath.Join(c.Image, "initramfs"), imageAppend
	}
	if kernel != "" {
		a = append(a, "-kernel", kernel, "-append", strings.TrimSpace(line+" "+c.Append))
	}
	if initrd != "" {
		a = append(a, "-initrd", initrd)
	}
	if c.Disk != "" {
		drive := "file=" + escape(c.Disk) + ",if=virtio,format=" + diskFormat(c.Disk)
		if !c.Persist {
			drive += ",snapshot=on"
		}
		a = append(a, "-drive", drive)
	}
	a = append(a,
		"-chardev", "socket,id=console,path="+escape(ConsolePath(c.Dir))+",server=on,wait=off,logfile="+escape(c.Console)+",logappend=on",
		"-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", monitor), "-mon", "chardev=monitor,mode=control",
		"-device", "virtio-serial-pci", "-chardev", fmt.Sprintf("socket,id=agent,fd=%d", port),
		"-device", "virtserialport,chardev=agent,name="+agent.PortName,
		"-fw_cfg", "name=opt/weft/setup,file="+escape(setup),
	)
	for i, n := range c.NICs {
		id := "nic" + strconv.Itoa(i)
		a = append(a, "-netdev", fmt.Sprintf("dgram,id=%s,local.type=fd,local.str=%d", id, nics[i]),
			// Frames cross the socket complete: nothing behind it computes checksums
			// or segments.
			"-device", fmt.Sprintf("virtio-net-pci,id=%s-dev,netdev=%s,mac=%s,host_mtu=%d,romfile=,csum=off,gso=off,guest_csum=off", id, id, n.MAC, n.MTU))
	}
	return a
}

// diskFormat returns qcow2 for an image with its magic number, else raw. QEMU must
// not detect the format itself, because a guest could write such a header.
func diskFormat(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "raw" // QEMU reports the error
	}
	defer f.Close()
	var magic [4]byte
	if _, err := f.Read(magic[:]); err == nil && string(magic[:]) == "QFI\xfb" {
		return "qcow2"
	}
	return "raw"
}

// ConsolePath returns the socket of the console of the machine with this directory.
// It serves one client at a time.
func ConsolePath(dir string) string { return filepath.Join(dir, "console") }

// ConsoleLog returns the file with the console output of the machine with this directory.
func ConsoleLog(dir string) string { return filepath.Join(dir, "console.log") }
