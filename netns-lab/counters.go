package netnslab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/weftlab/weft/sim/units"
)

// Counters are the host kernel's counters of a device. Tx is what the host sends.
// The device's totals count from its creation; those of the queueing discipline
// count from its own creation and wrap at 2^32.
type Counters struct {
	TxPackets uint64 // read from Device.FD
	TxBytes   uint64 // with the Ethernet header on a TAP
	TxDropped uint64 // by the device: its ring was full, or it was not read
	NoCarrier uint64 // by the device: its cable was unplugged (SetCarrier)
	RxPackets uint64 // written to Device.FD and taken by the stack
	RxBytes   uint64
	RxDropped uint64
	RxErrors  uint64

	QueueDrops      uint64      // by the queueing discipline: over its limit, or larger than the MTU
	QueueOverlimits uint64      // times that a packet had to wait for the shaper
	QueuePackets    int         // now in the queueing discipline
	QueueBytes      units.Bytes // and their size

	// Queues are the queues of a device that has several; the counts above are their
	// sums. The kernel does not count the device's drops by queue.
	Queues []Waiting
}

// Counters reads the counters of d.
func (d *Device) Counters() (c Counters, err error) {
	err = d.explainError(d.ns.runOpen(func() (err error) {
		c, err = d.readCounters()
		return err
	}))
	return c, err
}

func (d *Device) readCounters() (c Counters, err error) {
	d.carrier.mu.Lock()
	defer d.carrier.mu.Unlock()
	link, err := d.ns.links.LinkByIndex(d.index)
	if err != nil {
		return c, fmt.Errorf("read the device's counters: %w", err)
	}
	if s := link.Attrs().Statistics; s != nil {
		c.NoCarrier = d.carrier.lostOf(s.TxDropped)
		c.TxPackets, c.TxBytes, c.TxDropped = s.TxPackets, s.TxBytes, s.TxDropped-c.NoCarrier
		c.RxPackets, c.RxBytes, c.RxDropped, c.RxErrors = s.RxPackets, s.RxBytes, s.RxDropped, s.RxErrors
	}
	// A listing interrupted by a concurrent change still has the root: the
	// namespace's few devices fit in one message.
	qdiscs, err := d.ns.links.QdiscList(link)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return c, fmt.Errorf("read the queue's counters: %w", err)
	}
	if len(d.FDs) > 1 {
		c.Queues = make([]Waiting, len(d.FDs))
	}
	for _, q := range qdiscs {
		a := q.Attrs()
		if a.Statistics == nil {
			continue
		}
		s := a.Statistics.Queue
		if a.Parent == netlink.HANDLE_ROOT {
			c.QueueDrops, c.QueueOverlimits = uint64(s.Drops), uint64(s.Overlimits)
			c.QueuePackets, c.QueueBytes = int(s.Qlen), units.Bytes(s.Backlog)
		}
		for i := range c.Queues {
			if _, parent := d.qdiscPlace(i); a.Parent == parent {
				c.Queues[i] = Waiting{Drops: uint64(s.Drops), Packets: int(s.Qlen), Bytes: units.Bytes(s.Backlog)}
			}
		}
	}
	return c, nil
}
