// Package vm runs virtual machines in QEMU: it starts them, waits until they say
// that they are up, keeps what they say on their consoles, and ends them. Their
// NICs are datagram sockets in the hands of the caller (package links/dgram).
//
// Nothing of a machine outlives its process: sockets are inherited, the console's
// socket and the logs lie in a directory of the caller's, and disks are written to
// only where that is wanted. It needs no root.
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

// Accel is how instructions of the guest are run.
type Accel uint8

// The ways to run a guest.
const (
	// Auto is KVM where it works and the processor helps it, else TCG. A machine on
	// which KVM is there but fails is found out by the guest's end before it is ready.
	Auto Accel = iota
	KVM
	TCG
)

// AccelNames are the names of the ways, by their values.
var AccelNames = []string{"auto", "kvm", "tcg"}

// String gives the name.
func (a Accel) String() string { return AccelNames[a] }

// What a guest's Ready may be beside a text of its console.
const (
	ReadyAgent = "agent"
	ReadyNone  = "none"
)

// Config is what a machine is made from.
type Config struct {
	Name string
	// Dir is for the console's socket and the logs. It must be there.
	Dir string
	// Console is the file for what the guest says on its console, to which that is
	// added; empty is ConsoleLog.
	Console string

	// Image is the directory of weft's own image (FindImage), whose kernel and
	// initramfs are booted, or empty. Then Kernel, Initrd and Disk are booted, any
	// of which may be empty; without a Kernel the Disk boots by its own loader.
	Image, Kernel, Initrd, Disk string
	// Persist lets the guest change its Disk, which it otherwise does only for
	// itself and until it ends.
	Persist bool
	// Append is what the kernel gets on its command line behind what weft puts
	// there. It has no effect without Kernel and Image.
	Append string

	Memory units.Bytes // a multiple of MiB, else it is rounded down to one
	CPUs   int
	Accel  Accel

	NICs  []NIC
	Setup Setup

	// Ready is what the machine must have said until it counts as up: ReadyAgent,
	// ReadyNone for nothing, or a text on its console. Limit is how long that may
	// take.
	Ready string
	Limit time.Duration
}

// NIC is a network interface of a machine.
type NIC struct {
	Name string // in the lab
	MAC  net.HardwareAddr
	MTU  int // of layer-3 packets; the guest takes it from the device
	// Socket is the guest's end of a pair of datagram sockets. The machine takes
	// it over.
	Socket *os.File
}

// Setup is what a guest of weft's own image is to be.
type Setup struct {
	Addresses map[string][]netip.Prefix // by NIC
	OnLink    map[string][]netip.Prefix // by NIC, reached without a gateway
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

// Host is somebody whom the guest knows by name.
type Host struct {
	Name    string
	Address netip.Addr
}

// text writes the setup for netns-lab/vm/guest/setup.sh: a line for each setting,
// in the order in which they are to be made.
func (s *Setup) text(name string, nics []NIC) string {
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
	for _, v := range []Sysctl{ // as the hosts in namespaces have it
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
		for _, p := range s.OnLink[n.Name] {
			line("onlink", n.Name, p.String())
		}
		line("rdma", n.Name, "rxe"+strconv.Itoa(i))
	}
	for _, r := range s.Routes {
		line("route", r.To.String(), r.Via.String())
	}
	return b.String()
}

// ImageDir is where scripts/vm-image.sh puts weft's own image.
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

// FindImage gives the directory of weft's own image. The error says how to build
// it.
func FindImage() (string, error) {
	dir := filepath.Join(ImageDir(), "current")
	if _, err := os.Stat(filepath.Join(dir, "initramfs")); err != nil {
		return "", fmt.Errorf("the image of weft's own guests is not in %s: build it with scripts/vm-image.sh (Debian's packages, no root), or give the node a kernel or a disk; $WEFT_VM names another place for it", ImageDir())
	}
	return filepath.EvalSymlinks(dir)
}

// built-in parameters: without the first a busy machine's emulated timer looks
// broken to the kernel; the others spare an emulated processor work.
const imageAppend = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable nokaslr mitigations=off audit=0 apparmor=0 cryptomgr.notests"

// ownAppend is in front of the command line of others' kernels.
const ownAppend = "console=ttyS0"

// arguments are those of QEMU. Sockets are by their numbers in the new process:
// monitor and agent, then those of the NICs.
func (c *Config) arguments(accel Accel, monitor, port int, nics []int, setup string) []string {
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
			// Frames come and go whole: nobody would make checksums and
			// segments behind the socket.
			"-device", fmt.Sprintf("virtio-net-pci,id=%s-dev,netdev=%s,mac=%s,host_mtu=%d,romfile=,csum=off,gso=off,guest_csum=off", id, id, n.MAC, n.MTU))
	}
	return a
}

// diskFormat is qcow2 for an image that begins as one, else raw. QEMU does not look
// by itself where a guest could write such a beginning.
func diskFormat(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "raw" // QEMU says what is wrong with it
	}
	defer f.Close()
	var magic [4]byte
	if _, err := f.Read(magic[:]); err == nil && string(magic[:]) == "QFI\xfb" {
		return "qcow2"
	}
	return "raw"
}

// ConsolePath is the socket on which the console of the machine with this
// directory is, for one at a time.
func ConsolePath(dir string) string { return filepath.Join(dir, "console") }

// ConsoleLog is the file with all that the machine with this directory has said on
// its console.
func ConsoleLog(dir string) string { return filepath.Join(dir, "console.log") }
