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

// DeviceKind tells what a device carries.
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

// Device is one interface of a host, held from outside. Its methods may be
// called from several goroutines, and after Lab.Close return an error.
type Device struct {
	Host, Name string
	Kind       DeviceKind
	MAC        net.HardwareAddr // of the host's side; nil for a TUN

	// FD is the device: a read takes one frame that the host sent, a write
	// gives it one, with a struct virtio_net_hdr of 10 bytes before it if the
	// device has Offload and without any header otherwise. It is
	// non-blocking and unknown to Go's poller, for a loop of the caller's own
	// to poll. Lab.Close closes it.
	FD      int
	Offload bool

	// FDs are those of all queues of the device, by their numbers; the first
	// is FD. What the host sends has to be read from each, and what is written
	// to any arrives.
	FDs []int

	// Unsteered says why a device with Classes has but one queue for all of
	// them; nil if it has one for each. It wraps ErrNoSteering.
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
}

// openDevice makes the device i of h in the calling thread's namespace ns: set up
// in all but its addresses, and down.
func openDevice(ns *namespace, h Host, i Interface) (*Device, error) {
	d := &Device{Host: h.Name, dilation: max(h.Dilation, 1), Name: i.Name, Kind: i.Kind, Offload: i.Offload, ns: ns, mtu: i.mtu(), classes: i.Classes}
	if err := d.open(i); err != nil {
		return nil, err
	}
	d.FD, d.held = d.FDs[0], make([]bool, len(d.FDs))
	if err := d.configure(i); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// open opens the device's queues: one, or those of its classes.
func (d *Device) open(i Interface) (err error) {
	if i.Classes != nil && i.Classes.queues() > 1 {
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

// openTun opens a device through the water package and takes its descriptor out
// of Go's poller. Of several queues each is opened by a call of its own.
func openTun(name string, kind DeviceKind, several bool) (fd int, err error) {
	config := water.Config{DeviceType: water.TAP, PlatformSpecificParams: water.PlatformSpecificParams{Name: name, MultiQueue: several}}
	if kind == TUN {
		config.DeviceType = water.TUN
	}
	// water opens without O_CLOEXEC: no child may be forked before the
	// descriptor is exchanged for one that has it.
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

func (d *Device) configure(i Interface) error {
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
		if err := d.keepApart(); err != nil {
			return err
		}
		// Before the ring gets its length: what each queue has to wait in by
		// itself would get it too.
		if err := d.shape(i.Rate); err != nil {
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
	if err := d.setMTU(i.mtu()); err != nil {
		return err
	}
	// What is to be held needs a shaper from the beginning: one that came later
	// would lose what waits.
	if d.classes != nil || i.Rate > 0 {
		return d.setRate(i.Rate)
	}
	return nil
}

// link names d in requests to its namespace.
func (d *Device) link() netlink.Link {
	return &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: d.Name, Index: d.index}}
}

// SetMTU changes the MTU (bytes of IP packet). A shaper follows it; a change
// made from inside the host it does not see, and drops what is larger.
func (d *Device) SetMTU(mtu int) error {
	return d.explain(d.ns.use(func() error { return d.setMTU(mtu) }))
}

func (d *Device) setMTU(mtu int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ns.links.LinkSetMTU(d.link(), mtu); err != nil {
		return fmt.Errorf("MTU %d: %w (a %v device takes 68 to %d)", mtu, err, d.Kind, 65535-d.Kind.headerLen())
	}
	d.mtu = mtu
	if d.shaping {
		return d.shape(d.shaper.rate)
	}
	return nil
}

// SetRate changes the rate of the shaper, of emulated time, and nothing that waits in it is lost.
// 0 takes the limit away. The packet that waits for its turn at that moment
// still leaves at the old rate's time.
func (d *Device) SetRate(r units.Rate) error {
	return d.explain(d.ns.use(func() error { return d.setRate(r) }))
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
	if err := d.ns.links.LinkSetGSOMaxSegs(d.link(), d.superSegments(r)); err != nil {
		return fmt.Errorf("limit the packets that TCP sends as one (gso_max_segs): %w", err)
	}
	if err := d.shape(r); err != nil {
		return err
	}
	d.shaping = true
	return nil
}

// SetCarrier plugs the cable in or out: without a carrier the host sees
// NO-CARRIER and what waits in its queueing discipline is lost, as on a network
// card.
func (d *Device) SetCarrier(up bool) error {
	return d.explain(d.ns.use(func() error {
		carrier := 0
		if up {
			carrier = 1
		}
		if err := unix.IoctlSetPointerInt(d.FD, unix.TUNSETCARRIER, carrier); err != nil {
			return fmt.Errorf("carrier: %w (kernels from 5.0 on can set it)", err)
		}
		return nil
	}))
}

func (d *Device) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("host %s: interface %s: %w", d.Host, d.Name, err)
}

func (d *Device) close() error {
	d.kick.close()
	var errs []error
	for _, fd := range d.FDs {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// checkTun says why devices cannot be opened.
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
