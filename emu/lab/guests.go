package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/links/device/dgram"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

const (
	// guestBuffer limits the kernel memory used by frames waiting to be read by a guest
	// (a frame of 1500 bytes takes 2.3 KB, a small one 0.8 KB). Beyond it the socket
	// refuses frames. It covers a guest that falls behind for some milliseconds.
	guestBuffer = 2 << 20
	// guestRing is how much kernel memory the frames sent by a guest may take before
	// the guest is kept from sending.
	guestRing = 64 << 10

	// A guest is kept from sending while its port's queue in the fabric is longer than
	// sendBytes, or what the link carries in sendTime of real time.
	sendBytes = 32 * units.KB
	sendTime  = units.Millisecond
)

// PowerOff is how long a guest that may write to its disk has to power off when the
// lab ends.
const PowerOff = 60 * time.Second

// guest is a running virtual machine.
type guest struct {
	node    int
	name    string
	machine *vm.Machine
	nics    []*guestNIC // by port
}

// guestNIC is a network interface of a virtual machine.
type guestNIC struct {
	*dgram.NIC
	guest *guest
	iface *hosts.Interface
	index int
	mtu   units.Bytes // announced to the guest
}

// checkGuests checks whether a plan's virtual machines can be started here.
func checkGuests(p *plan.Plan) error {
	var errs []error
	fail := func(n *plan.Node, err error) {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %w", p.File, n.VM.Line, n.Name, err))
	}
	any := false
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.VM == nil {
			continue
		}
		any = true
		for what, path := range map[string]string{"kernel": n.VM.Kernel, "initrd": n.VM.Initrd, "disk": n.VM.Disk} {
			if path == "" {
				continue
			}
			mode := uint32(unix.R_OK)
			if what == "disk" && n.VM.Persist {
				mode |= unix.W_OK
			}
			if err := unix.Access(path, mode); err != nil {
				fail(n, fmt.Errorf("the %s %s cannot be used: %w (a path is relative to the lab file)", what, path, err))
			} else if s, err := os.Stat(path); err == nil && s.IsDir() {
				fail(n, fmt.Errorf("the %s %s is a directory", what, path))
			}
		}
		if _, err := imageOf(n.VM); err != nil {
			fail(n, err)
		}
		if n.VM.Accel == vm.KVM && unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
			fail(n, errors.New("accel: kvm needs /dev/kvm, which is not there or not for this user: write accel: tcg, or auto"))
		}
	}
	if any {
		if _, err := vm.FindQEMU(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// imageOf returns the directory of the image that a machine boots, "" if it boots
// something else.
func imageOf(m *plan.VM) (string, error) {
	switch {
	case !m.BuiltIn():
		return "", nil
	case m.Image == "":
		return vm.FindImage()
	}
	for _, file := range []string{"vmlinux", "initramfs"} {
		if _, err := os.Stat(filepath.Join(m.Image, file)); err != nil {
			return "", fmt.Errorf("the image %s has no %s: scripts/vm-image.sh builds such directories", m.Image, file)
		}
	}
	return m.Image, nil
}

// guestHost returns the host that netns-lab creates for a virtual machine: a
// namespace for its QEMU.
func guestHost(n *plan.Node) netnslab.Host {
	h := netnslab.Host{Name: n.Name}
	for _, p := range n.Ports {
		h.Interfaces = append(h.Interfaces, netnslab.Interface{Name: p.Name, Kind: netnslab.Virtual, Addresses: p.Addresses})
	}
	return h
}

// addGuests starts the virtual machines and connects their NICs to the fabric. They
// boot while the caller continues: see awaitGuests.
func (l *Lab) addGuests() error {
	for i := range l.plan.Nodes {
		n := &l.plan.Nodes[i]
		if n.VM == nil {
			continue
		}
		g := &guest{node: i, name: n.Name}
		c, err := l.guestConfig(i)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		for index := range n.Ports {
			socket, err := l.addGuestNIC(g, index)
			if err != nil {
				return fmt.Errorf("%s: %w", l.plan.PortName(i, index), err)
			}
			p := &n.Ports[index]
			c.NICs = append(c.NICs, vm.NIC{Name: p.Name, MAC: p.MAC[:], MTU: int(g.nics[index].mtu), Socket: socket})
		}
		g.machine, err = vm.Start(c, l.starterOf(n.Name))
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		l.guests = append(l.guests, g)
	}
	return nil
}

func (l *Lab) starterOf(host string) vm.Starter {
	return func(c *exec.Cmd) (<-chan error, error) { return l.hosts.Start(host, c) }
}

// GuestDir is the directory for a guest's console and logs in the state directory of
// its lab.
func GuestDir(lab, host string) string { return filepath.Join(lab, host+".vm") }

func (l *Lab) guestDir(name string) string { return GuestDir(l.hosts.Dir(), name) }

// guestConfig returns the configuration of a node's machine, without its NICs.
func (l *Lab) guestConfig(node int) (c vm.Config, err error) {
	n := &l.plan.Nodes[node]
	m := n.VM
	c = vm.Config{
		Name: n.Name, Dir: l.guestDir(n.Name), Kernel: m.Kernel, Initrd: m.Initrd, Disk: m.Disk, Persist: m.Persist, Append: m.Append,
		Memory: m.Memory, CPUs: m.CPUs, Accel: m.Accel, Console: m.Console, Ready: m.Ready, Limit: m.ReadyLimit,
		Setup: vm.Setup{Addresses: map[string][]netip.Prefix{}},
	}
	if c.Image, err = imageOf(m); err != nil {
		return c, err
	}
	for _, p := range n.Ports {
		c.Setup.Addresses[p.Name] = p.Addresses
	}
	for _, r := range n.Routes {
		c.Setup.Routes = append(c.Setup.Routes, vm.Route{To: r.To, Via: r.Via})
	}
	for _, s := range n.Sysctls {
		c.Setup.Sysctls = append(c.Setup.Sysctls, vm.Sysctl{Key: s.Key, Value: s.Value})
	}
	c.Setup.Hosts = l.namesFor(node)
	return c, os.MkdirAll(c.Dir, 0o700)
}

// namesFor returns the names that a guest knows: those in the /etc/hosts of other hosts.
func (l *Lab) namesFor(guest int) (hosts []vm.Host) {
	prefer := map[string][]netip.Addr{}
	for _, x := range preferredNames(l.plan, l.plan.Reach(), guest) {
		prefer[x.Name] = x.Addresses
	}
	for i := range l.plan.Nodes {
		n := &l.plan.Nodes[i]
		if !isReal(n) {
			continue
		}
		for _, v6 := range []bool{false, true} {
			a, ok := firstOf(n.Ports, v6)
			if k := slices.IndexFunc(prefer[n.Name], func(a netip.Addr) bool { return a.Is6() == v6 }); k >= 0 {
				a = prefer[n.Name][k]
			}
			if ok {
				hosts = append(hosts, vm.Host{Name: n.Name, Address: a})
			}
		}
		for j := range n.Ports {
			alias := n.Name + "-" + n.Ports[j].Name
			if _, taken := l.plan.Node(alias); taken {
				continue
			}
			for _, a := range n.Ports[j].Addresses {
				hosts = append(hosts, vm.Host{Name: alias, Address: a.Addr()})
			}
		}
	}
	for _, r := range routersOf(l.plan) {
		for _, a := range r.Addresses {
			hosts = append(hosts, vm.Host{Name: r.Name, Address: a})
		}
	}
	return hosts
}

// firstOf returns the first IPv4 or IPv6 address of the ports.
func firstOf(ports []plan.Port, v6 bool) (netip.Addr, bool) {
	return firstThat(ports, func(a netip.Addr) bool { return a.Is6() == v6 })
}

// firstThat returns the first address of the ports that is good.
func firstThat(ports []plan.Port, good func(netip.Addr) bool) (netip.Addr, bool) {
	for _, p := range ports {
		if i := slices.IndexFunc(p.Addresses, func(a netip.Prefix) bool { return good(a.Addr()) }); i >= 0 {
			return p.Addresses[i].Addr(), true
		}
	}
	return netip.Addr{}, false
}

// addGuestNIC makes an interface of a guest and returns the guest's end of its socket.
func (l *Lab) addGuestNIC(g *guest, index int) (*os.File, error) {
	iface := l.fabric.Interface(g.node, index)
	shard := l.fabric.ShardOf(g.node)
	engine := l.engines[shard.Number]
	ours, its, err := guestSocket()
	if err != nil {
		return nil, err
	}
	settings := links.Settings{MTU: netnslab.DefaultMTU}
	if k := iface.Port.Link(); k != nil {
		settings = k.Settings()
	}
	settings.MTU = l.plan.Nodes[iface.Node].DeviceMTU(iface.Index, settings.MTU)
	high, low := l.sendBounds(iface, settings.Rate)
	nic, err := dgram.New(dgram.Config{
		FD: ours, Pool: shard.Pool, Entrance: iface, Queue: iface, High: high, Low: low, Rate: settings.Rate, Engine: shard.Engine, Delivered: engine.driver.RecordDelivery,
	})
	if err != nil {
		unix.Close(ours)
		its.Close()
		return nil, err
	}
	g.nics = append(g.nics, &guestNIC{NIC: nic, guest: g, iface: iface, index: index, mtu: settings.MTU})
	l.nics = append(l.nics, nic)
	iface.Attach(nic)
	if err := engine.driver.AttachDevice(nic); err != nil {
		its.Close()
		return nil, err
	}
	return its, nil
}

// sendBounds returns the queue length of a guest's port above which the guest is
// kept from sending, and the length at which it may send again.
func (l *Lab) sendBounds(iface *hosts.Interface, rate units.Rate) (high, low units.Bytes) {
	high = max(sendBytes, rate.BytesIn(sendTime/units.Time(l.plan.Dilation)))
	if limit := iface.Port.Limit(); limit > 0 {
		if iface.HasEdge() {
			limit /= 2 // an edge service may leave half of the limit to others
		}
		high = min(high, limit/2) // so that the port does not drop what the guest would keep
	}
	return high, high / 2
}

// guestSocket makes the socket of a NIC. In a connected pair only the memory limits
// the queue, not net.unix.max_dgram_qlen (net/unix/af_unix.c, unix_dgram_sendmsg).
func guestSocket() (ours int, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("socketpair: %w", err)
	}
	for i, size := range []int{guestBuffer, guestRing} {
		// SO_SNDBUFFORCE exceeds net.core.wmem_max but needs privileges; with a
		// smaller buffer a guest that falls behind loses frames earlier.
		if unix.SetsockoptInt(fds[i], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, size) != nil {
			_ = unix.SetsockoptInt(fds[i], unix.SOL_SOCKET, unix.SO_SNDBUF, size)
		}
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "NIC"), nil
}

// awaitGuests waits until all guests are up, or one has failed.
func (l *Lab) awaitGuests(ctx context.Context) error {
	var all errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, g := range l.guests {
		all.Go(func() error {
			err := g.machine.AwaitUp(ctx)
			if err != nil {
				cancel() // do not wait for the others
			}
			return err
		})
	}
	err := all.Wait()
	var failed *vm.NotReady
	if errors.As(err, &failed) || err == nil {
		return err
	}
	return fmt.Errorf("ended while its virtual machines came up: %w", err)
}

// watchGuests warns if a guest ends before the lab does.
func (l *Lab) watchGuests(warn func(error)) {
	for _, g := range l.guests {
		go func() {
			select {
			case <-l.stopped:
			case <-g.machine.Over():
				l.recordEvent(status.HostLost, g.name, strings.ReplaceAll(g.machine.Err().Error(), "\n", "; "))
				warn(fmt.Errorf("the virtual machine %s has ended: %w; the lab goes on without it", g.name, g.machine.Err()))
			}
		}()
	}
}

// stopGuests ends the machines and closes their NICs. No engine may run any more.
func (l *Lab) stopGuests() {
	var all sync.WaitGroup
	for _, g := range l.guests {
		all.Go(func() { g.machine.Stop(PowerOff) })
	}
	all.Wait()
	for _, n := range l.nics {
		n.Close()
	}
	l.guests, l.nics = nil, nil
}

// followGuest applies changes of its link to a guest's NIC. The NIC's engine calls it.
func (l *Lab) followGuest(n *guestNIC, s links.Settings) {
	high, low := l.sendBounds(n.iface, s.Rate)
	n.AdoptLink(high, low, s.Rate)
	l.shaper.requestSettings(n, s)
}

// guestNICAt returns the guest NIC of an interface, nil if its host is not a guest.
func (l *Lab) guestNICAt(iface *hosts.Interface) *guestNIC {
	for _, g := range l.guests {
		if g.node == iface.Node {
			return g.nics[iface.Index]
		}
	}
	return nil
}

// SetMTU returns an error for a new MTU: a guest keeps the MTU that its NIC began with.
func (n *guestNIC) SetMTU(mtu int) error {
	if units.Bytes(mtu) == n.mtu {
		return nil
	}
	return fmt.Errorf("%s keeps the mtu %d that its link began with: set one inside it, no larger than that, such as with ip link set mtu %d", n.iface.Port.Name, n.mtu, min(mtu, int(n.mtu)))
}

// SetRate does nothing: the port's queue keeps the rate of the link.
func (n *guestNIC) SetRate(units.Rate) error { return nil }

// SetCarrier unplugs and plugs the cable.
func (n *guestNIC) SetCarrier(up bool) error {
	select {
	case <-n.guest.machine.Over():
		return nil // the machine has ended
	default:
	}
	if err := n.guest.machine.SetCarrier(n.index, up); err != nil {
		return fmt.Errorf("%s: %w", n.iface.Port.Name, err)
	}
	return nil
}

// guestReports returns the report entries of the guests' interfaces.
func (l *Lab) guestReports() (all []report.Host) {
	for _, g := range l.guests {
		for _, n := range g.nics {
			h := report.Host{Name: n.iface.Port.Name, Namespace: netnslab.NamespaceName(l.plan.Name, g.name), Guest: &report.Guest{Holds: n.HeldCount()}}
			select {
			case <-g.machine.Over():
				h.Guest.Ended = strings.ReplaceAll(g.machine.Err().Error(), "\n", "; ")
			default:
			}
			all = append(all, h)
		}
	}
	return all
}
