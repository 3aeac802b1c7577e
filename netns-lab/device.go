package netnslab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/songgao/water"
	"github.com/vishvananda/netlink"
	"github.com/weftlab/weft/sim/units"
	"golang.org/x/sys/unix"
)

const tunPath = "/dev/net/tun"

// DeviceKind says what a device carries.
type DeviceKind int

// Kinds of device.
const (
	TAP DeviceKind = iota // Ethernet frames, without preamble and FCS
	TUN                   // IP packets

	// Virtual is the network interface of a virtual machine that runs in the
	// host's namespace: no device is made there.
	Virtual
)

func (k DeviceKind) String() string {
	switch k {
	case TAP:
		return "TAP"
	case TUN:
		return "TUN"
	case Virtual:
		return "virtual"
	}
	return fmt.Sprintf("DeviceKind(%d)", int(k))
}

// Device is the outer side of a host's interface. Its methods may be called from
// several goroutines and return an error after Lab.Close.
type Device struct {
	Host, Name string
	Kind       DeviceKind
	MAC        net.HardwareAddr // of the host's side; nil for a TUN

	// FD is the device: a read returns one frame from the host, a write gives it
	// one. A struct virtio_net_hdr of 10 bytes precedes the frame if the device has
	// Offload; otherwise there is no header. FD is non-blocking and not registered
	// with Go's poller; the caller polls it. Lab.Close closes it.
	FD      int
	Offload bool

	// FDs are the descriptors of all queues of the device, by queue number; the
	// first is FD. The host's packets must be read from all of them; a write to any
	// reaches the host.
	FDs []int

	// Unsteered says why a device with Classes has only one queue for all of them;
	// nil if it has one for each. It wraps ErrNoSteering.
	Unsteered error

	ns      *namespace
	index   int // of the interface in ns
	classes *Classes

	dilation int     // Host.Dilation, at least 1
	kick     *kicker // nil without classes

	mu      sync.Mutex
	mtu     int
	shaping bool // a shaper is in place
	shaper  shaper
	held    []bool // by queue
	carrier carrier
}

// openDevice makes the device i of h in the calling thread's namespace ns. The
// device is down and has no addresses; everything else is set up.
func openDevice(ns *namespace, h Host, i Interface) (*Device, error) {
	d := &Device{Host: h.Name, dilation: max(h.Dilation, 1), Name: i.Name, Kind: i.Kind, Offload: i.Offload, ns: ns, mtu: i.effectiveMTU(), classes: i.Classes}
	if err := d.openQueues(i); err != nil {
		return nil, err
	}
	d.FD, d.held = d.FDs[0], make([]bool, len(d.FDs))
	if err := d.configureLink(i); err != nil {
		d.closeQueues()
		return nil, err
	}
	return d, nil
}

// openQueues opens the device's queues: one, or those of its classes.
func (d *Device) openQueues(i Interface) (err error) {
	if i.Classes != nil && i.Classes.queueCount() > 1 {
		d.FDs, err = openQueues(i)
		if !errors.Is(err, ErrNoSteering) {
			return err
		}
		d.Unsteered = err
	}
	open := openTun
	if i.Offload {
		open = openOffload
	}
	fd, err := open(i.Name, i.Kind, false)
	d.FDs = []int{fd}
	return err
}

// openTun opens a device through the water package and takes its descriptor out of
// Go's poller. Each of several queues is opened by a separate call.
func openTun(name string, kind DeviceKind, several bool) (fd int, err error) {
	config := water.Config{DeviceType: water.TAP, PlatformSpecificParams: water.PlatformSpecificParams{Name: name, MultiQueue: several}}
	if kind == TUN {
		config.DeviceType = water.TUN
	}
	// water opens without O_CLOEXEC: no child may be forked before the descriptor is
	// replaced by one that has it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	tun, err := water.New(config)
	if err != nil {
		return -1, fmt.Errorf("open a %v device through %s: %w", kind, tunPath, err)
	}
	defer tun.Close()
	// water hides an *os.File. Its Fd method would make the device blocking.
	conn, err := tun.ReadWriteCloser.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := conn.Control(func(own uintptr) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	}); cerr != nil {
		return -1, cerr
	}
	if err != nil {
		return -1, fmt.Errorf("duplicate the device's descriptor: %w (more hosts need a higher limit: ulimit -n)", err)
	}
	return fd, unix.SetNonblock(fd, true)
}

func (d *Device) configureLink(i Interface) error {
	link, err := d.ns.links.LinkByName(i.Name)
	if err != nil {
		return fmt.Errorf("find the new device: %w", err)
	}
	d.index = link.Attrs().Index
	if i.MAC != nil {
		if err := d.ns.links.LinkSetHardwareAddr(link, i.MAC); err != nil {
			return fmt.Errorf("MAC %s: %w (it must be a unicast address)", i.MAC, err)
		}
		d.MAC = i.MAC
	} else if i.Kind == TAP {
		d.MAC = link.Attrs().HardwareAddr
	}
	if len(d.FDs) > 1 {
		if err := d.separateQueues(); err != nil {
			return err
		}
		// Before the ring gets its length: each queue's own default queueing
		// discipline would get it too.
		if err := d.setShaper(i.Rate); err != nil {
			return err
		}
	}
	if d.classes != nil {
		if d.kick, err = newKicker(d.index, len(d.FDs) > 1); err != nil {
			return err
		}
	}
	if err := d.ns.links.LinkSetTxQLen(link, i.txQueueLen()); err != nil {
		return fmt.Errorf("transmit queue of %d packets: %w", i.txQueueLen(), err)
	}
	if err := d.setMTU(i.effectiveMTU()); err != nil {
		return err
	}
	// A device that will be held needs a shaper from the start: adding one later
	// would lose the waiting packets.
	if d.classes != nil || i.Rate > 0 {
		return d.setRate(i.Rate)
	}
	return nil
}

// linkID identifies d in requests to its namespace.
func (d *Device) linkID() netlink.Link {
	return &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: d.Name, Index: d.index}}
}

// SetMTU changes the MTU (bytes of IP packet). The shaper follows it. The shaper
// does not see a change made inside the host, and drops larger packets.
func (d *Device) SetMTU(mtu int) error {
	return d.explainError(d.ns.runOpen(func() error { return d.setMTU(mtu) }))
}

func (d *Device) setMTU(mtu int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ns.links.LinkSetMTU(d.linkID(), mtu); err != nil {
		return fmt.Errorf("MTU %d: %w (a %v device takes 68 to %d)", mtu, err, d.Kind, 65535-d.Kind.headerLen())
	}
	d.mtu = mtu
	if d.shaping {
		return d.setShaper(d.shaper.rate)
	}
	return nil
}

// SetRate changes the rate of the shaper, in emulated time, without losing the packets waiting in
// it. 0 removes the limit. The packet at the head of the queue still leaves at the time set by
// the old rate.
func (d *Device) SetRate(r units.Rate) error {
	return d.explainError(d.ns.runOpen(func() error { return d.setRate(r) }))
}

func (d *Device) setRate(r units.Rate) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r < 0:
		return fmt.Errorf("rate %s is negative", r)
	case r == 0 && !d.shaping && d.classes == nil:
		return nil
	}
	if err := d.ns.links.LinkSetGSOMaxSegs(d.linkID(), d.superSegments(r)); err != nil {
		return fmt.Errorf("limit the packets that TCP sends as one (gso_max_segs): %w", err)
	}
	if err := d.setShaper(r); err != nil {
		return err
	}
	d.shaping = true
	return nil
}

func (d *Device) explainError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("host %s: interface %s: %w", d.Host, d.Name, err)
}

func (d *Device) closeQueues() error {
	d.kick.closeKicker()
	var errs []error
	for _, fd := range d.FDs {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// checkTun reports why devices cannot be opened.
func checkTun() error {
	f, err := os.OpenFile(tunPath, os.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: modprobe tun, or mkdir -p /dev/net && mknod %s c 10 200; in a container, run it with --device %s", tunPath, tunPath, tunPath)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be opened for reading and writing: chmod 0666 %s; in a container, run it with --device %s", tunPath, tunPath, tunPath)
	}
	return fmt.Errorf("%w: the kernel has no TUN driver (modprobe tun, or CONFIG_TUN)", err)
}
