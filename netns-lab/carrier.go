package netnslab

import (
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// carrier counts the packets that a device loses while its cable is unplugged. The kernel
// puts them in one counter with those that found the device's ring full
// (net/sched/sch_generic.c, noop_enqueue; drivers/net/tun.c, tun_net_xmit).
type carrier struct {
	mu   sync.Mutex
	down bool
	at   uint64 // the kernel's counter when the cable was unplugged
	lost uint64 // until it was last plugged in
}

// lostOf returns how many of the packets that the device has dropped were lost without
// a carrier. The caller holds mu.
func (c *carrier) lostOf(dropped uint64) uint64 {
	if c.down {
		return c.lost + dropped - c.at
	}
	return c.lost
}

// SetCarrier plugs the cable in or out: without a carrier the host sees NO-CARRIER
// and loses the packets in its queueing discipline, as with a network card.
func (d *Device) SetCarrier(up bool) error {
	d.carrier.mu.Lock()
	defer d.carrier.mu.Unlock()
	return d.explainError(d.ns.runOpen(func() error { return d.setCarrier(up) }))
}

// What is lost while the cable is being unplugged or plugged in counts as lost without a
// carrier: the kernel's counter is read before the one and after the other.
func (d *Device) setCarrier(up bool) error {
	value := 1
	if !up {
		value = 0
	}
	before, err := d.dropped()
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(d.FD, unix.TUNSETCARRIER, value); err != nil {
		return fmt.Errorf("carrier: %w (Linux 5.0 or later is needed)", err)
	}
	if up != d.carrier.down {
		return nil
	}
	if !up {
		d.carrier.at, d.carrier.down = before, true
		return nil
	}
	if err := d.awaitCarrier(); err != nil {
		return err
	}
	after, err := d.dropped()
	if err != nil {
		return err
	}
	d.carrier.lost, d.carrier.down = d.carrier.lostOf(after), false
	return nil
}

// awaitCarrier waits until the kernel lets packets through again: it learns of a carrier
// at once, but attaches the queueing discipline in a worker (net/core/link_watch.c), which
// also sets the operational state. A device that is down gets none.
func (d *Device) awaitCarrier() error {
	for {
		link, err := d.ns.links.LinkByIndex(d.index)
		if err != nil {
			return fmt.Errorf("read the device's state: %w", err)
		}
		a := link.Attrs()
		if a.RawFlags&unix.IFF_UP == 0 || a.OperState != netlink.OperDown {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// dropped returns the kernel's counter of packets that the device did not take.
func (d *Device) dropped() (uint64, error) {
	link, err := d.ns.links.LinkByIndex(d.index)
	if err != nil {
		return 0, fmt.Errorf("read the device's counters: %w", err)
	}
	if s := link.Attrs().Statistics; s != nil {
		return s.TxDropped, nil
	}
	return 0, nil
}
