package netnslab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// A device with several queues has mq at its root, whose class 1:N+1 is queue N.
// Each class has its own token bucket, N+10: in tc's notation.
const (
	mqHandle     = shaperHandle
	bucketHandle = 0x10 << 16
)

// MaxQueues is the number of queues that the kernel allocates for a multi-queue
// device (MAX_TAP_QUEUES, drivers/net/tun.c).
const MaxQueues = 256

// trickle is the rate of a held queue, in bytes per second of emulated time. The
// kernel cannot stop a queue. The packet that waits longest for the bucket, a
// super-packet, would leave after a minute without a resume.
const trickle = 1000

// qdiscPlace returns the handle and the parent of a queue's token bucket.
func (d *Device) qdiscPlace(queue int) (handle, parent uint32) {
	if len(d.FDs) == 1 {
		return shaperHandle, netlink.HANDLE_ROOT
	}
	return bucketHandle + uint32(queue)<<16, mqHandle | uint32(queue+1)
}

// separateQueues gives each of the device's queues its own queueing discipline. It is
// called while the device is down.
//
// The kernel makes all MaxQueues disciplines, and in each three arrays of the length
// of the device's ring: 60 MB at the default. keepApart removes those without a
// queue, by first replacing each with a discipline that can be deleted.
func (d *Device) separateQueues() error {
	if err := d.ns.links.LinkSetTxQLen(d.linkID(), 1); err != nil {
		return fmt.Errorf("transmit queue of 1 packet: %w", err)
	}
	const replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	if err := d.requestQdisc(unix.RTM_NEWQDISC, replace, mqHandle, netlink.HANDLE_ROOT, "mq"); err != nil {
		return fmt.Errorf("queueing discipline mq: %w", err)
	}
	for i := len(d.FDs); i < MaxQueues; i++ {
		handle, parent := d.qdiscPlace(i)
		err := d.requestQdisc(unix.RTM_NEWQDISC, replace, handle, parent, "pfifo")
		if errors.Is(err, unix.ENOENT) {
			break // this kernel has fewer
		}
		if err == nil {
			err = d.requestQdisc(unix.RTM_DELQDISC, 0, handle, parent, "pfifo")
		}
		if err != nil {
			return fmt.Errorf("remove transmit queue %d: %w", i, err)
		}
	}
	return nil
}

// requestQdisc requests a change of a queueing discipline.
func (d *Device) requestQdisc(request, flags int, handle, parent uint32, kind string, attributes ...*nl.RtAttr) error {
	req := nl.NewNetlinkRequest(request, flags|unix.NLM_F_ACK)
	req.Sockets = d.ns.raw
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(d.index), Handle: handle, Parent: parent})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)))
	for _, a := range attributes {
		req.AddData(a)
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// HoldQueue stops a queue of a device with Classes: the host's packets wait in its
// queueing discipline, where the sender is throttled. As much as fits into the
// bucket still leaves: one packet, or one super-packet. A device whose classes are
// not kept apart has only queue 0, for all.
func (d *Device) HoldQueue(queue int) error {
	return d.explainError(d.ns.runOpen(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held[queue] = true
		return d.setBucket(queue)
	}))
}

// ResumeQueue restarts a held queue.
func (d *Device) ResumeQueue(queue int) error {
	return d.explainError(d.ns.runOpen(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held[queue] = false
		if err := d.setBucket(queue); err != nil {
			return err
		}
		return d.kick.kickQueue(queue)
	}))
}

// Queues returns the number of the first of the n queues for packets of a priority;
// n is 0 if the device has no Classes or none of that priority.
func (d *Device) Queues(priority uint8) (first, n int) {
	if d.classes == nil {
		return 0, 0
	}
	switch first = d.classes.firstQueue(priority); {
	case first < 0:
		return 0, 0
	case len(d.FDs) == 1:
		return 0, 1
	}
	return first, d.classes.perClass()
}

// Waiting are the host's counters of a queue of a device.
type Waiting struct {
	Drops   uint64      // by the queueing discipline: over its limit, or larger than the MTU
	Packets int         // now waiting
	Bytes   units.Bytes // and their size
}
