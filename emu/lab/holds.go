package lab

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/hosts"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// A traffic class of a real host is paused by not dequeuing from it. What its
// programs send is still read promptly, because the device's ring drops packets
// when it is full, and waits in the class's queue at the host's port, which
// keeps the exact times. Only when that queue is long is the class held in the
// host. It is released when the queue is half as long.

const (
	// heldBytes and heldTime set the length of a class's queue at a host's port at which the
	// class is held: that many bytes, or as many as the link carries in that real time. It
	// is a few times what a pass of the engine's thread and of the holder may take, so that
	// a link does not run dry.
	heldBytes = 256 * units.KB
	heldTime  = 2 * units.Millisecond
)

// heldAt returns the length of a class's queue at a host's port at which the
// class is held. It is released when the queue is half as long. What the host
// sends until the hold takes effect, and then one bucket
// (netnslab.Device.HoldQueue), comes on top.
func heldAt(rate units.Rate, dilation int) units.Bytes {
	return max(heldBytes, rate.BytesIn(heldTime/units.Time(dilation)))
}

// flowQueues is how many queues a class of a real host with an edge service has in its
// device. Flows are distributed over them, so that few flows wait for one that is held.
// All classes together use half of the queues that a device may have.
const flowQueues = netnslab.MaxQueues / 2 / class.Count

// holder holds the traffic classes of real hosts while their queues in the
// fabric are full. It has its own thread, because netlink takes tens of
// microseconds that the engine's thread cannot spare. The thread is scheduled
// like the engine's, because the host keeps sending until it has run.
type holder struct {
	devices map[*hosts.Interface]*holdable
	order   []*holdable
	wake    int // eventfd: there is work
	closing atomic.Bool
	done    chan struct{}
}

// holdable is a device whose traffic classes can be held.
type holdable struct {
	name     string // "h1:eth0"
	device   *netnslab.Device
	priority []uint8       // of its classes
	full     atomic.Uint32 // priorities whose queues are full, one bit each
	long     []atomic.Bool // by queue: too much of its traffic waits in the edge service
	failed   bool          // the last attempt failed; warned about once

	mu    sync.Mutex
	since []time.Time     // when the queue was held; zero when it is not
	holds []uint64        // by queue, how often and for how long
	held  []time.Duration // of real time
}

func newHolder() *holder {
	return &holder{devices: map[*hosts.Interface]*holdable{}, wake: -1, done: make(chan struct{})}
}

// addDevice adds a device with classes.
func (h *holder) addDevice(iface *hosts.Interface, name string, d *netnslab.Device, c *netnslab.Classes) {
	n := len(d.FDs)
	dev := &holdable{
		name: name, device: d, priority: c.Priorities,
		long: make([]atomic.Bool, n), since: make([]time.Time, n), holds: make([]uint64, n), held: make([]time.Duration, n),
	}
	h.devices[iface] = dev
	h.order = append(h.order, dev)
}

// watchQueues arranges for calls of classFull for the queues of a host's port,
// at lengths that depend on its link's rate.
func (l *Lab) watchQueues(iface *hosts.Interface) {
	dev := l.holder.devices[iface]
	if dev == nil {
		return
	}
	var rate units.Rate
	if k := iface.Port.Link(); k != nil {
		rate = k.Rate()
	}
	high := heldAt(rate, l.plan.Dilation)
	iface.Port.WatchQueues(high, high/2, func(_ units.Time, prio uint8, full bool) { l.classFull(iface, prio, full) })
	iface.Watch(len(dev.device.FDs), high, func(_ units.Time, queue int, full bool) { l.queueLong(dev, queue, full) })
}

// queueLong is called on the thread of an interface's engine when too much traffic from a
// queue of a real host's device waits in the edge service, or little again.
func (l *Lab) queueLong(dev *holdable, queue int, long bool) {
	dev.long[queue].Store(long)
	l.holder.wakeHolder()
}

// classFull is called on the thread of an interface's engine when the queue of a
// class at a real host's port has become too long, or is short again.
func (l *Lab) classFull(iface *hosts.Interface, priority uint8, full bool) {
	l.holder.setHold(iface, priority, full)
}

// setHold records whether to hold a class. It neither blocks nor allocates.
func (h *holder) setHold(iface *hosts.Interface, priority uint8, full bool) {
	dev := h.devices[iface]
	if dev == nil {
		return
	}
	if bit := uint32(1) << priority; full {
		dev.full.Or(bit)
	} else {
		dev.full.And(^bit)
	}
	h.wakeHolder()
}

// wakeHolder makes the holder check all devices.
func (h *holder) wakeHolder() {
	one := [8]byte{1}
	_, _ = unix.Write(h.wake, one[:])
}

// startHolder starts the holder and warns of hosts that can only be held as a whole.
// realtime requests SCHED_FIFO.
func (h *holder) startHolder(realtime bool, warn func(error)) (err error) {
	if len(h.order) == 0 {
		return nil
	}
	if h.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := h.sharedHoldError(); err != nil {
		warn(err)
	}
	kinds := []wall.Scheduling{wall.Realtime, wall.Busy, wall.Ordinary}
	if !realtime {
		kinds = kinds[2:]
	}
	go func() {
		defer close(h.done)
		for _, s := range kinds {
			if wall.OnThread(s, func() error { h.applyHolds(warn); return nil }) == nil {
				return // otherwise SCHED_FIFO is not allowed
			}
		}
	}()
	return nil
}

// applyHolds applies holds until the holder is closed.
func (h *holder) applyHolds(warn func(error)) {
	var count [8]byte
	for !h.closing.Load() {
		for _, dev := range h.order {
			dev.applyState(warn)
		}
		_, _ = unix.Read(h.wake, count[:])
	}
}

// sharedHoldError returns an error that names the hosts whose classes can only be held
// all together, nil without such hosts.
func (h *holder) sharedHoldError() error {
	var names []string
	var why error
	for _, dev := range h.order {
		if err := dev.device.Unsteered; err != nil {
			names, why = append(names, dev.name), err
		}
	}
	if why == nil {
		return nil
	}
	const maxNames = 8
	text := strings.Join(names[:min(len(names), maxNames)], ", ")
	if n := len(names) - maxNames; n > 0 {
		text = fmt.Sprintf("%s and %d more", text, n)
	}
	return fmt.Errorf("a pause of one traffic class of these hosts stops all of their traffic: %s: %w", text, why)
}

// wantsHold reports whether to hold a queue. A queue shared by classes is held while one of
// them is to be held.
func (dev *holdable) wantsHold(queue int) bool {
	if dev.long[queue].Load() {
		return true
	}
	full := dev.full.Load()
	for _, p := range dev.priority {
		if first, n := dev.device.Queues(p); full>>p&1 != 0 && first <= queue && queue < first+n {
			return true
		}
	}
	return false
}

// applyState holds and releases the queues whose state has changed.
func (dev *holdable) applyState(warn func(error)) {
	for q := range dev.device.FDs {
		want := dev.wantsHold(q)
		is := !dev.since[q].IsZero()
		var err error
		switch {
		case want == is:
			continue
		case want:
			err = dev.device.HoldQueue(q)
		default:
			err = dev.device.ResumeQueue(q)
		}
		if err != nil && !dev.failed {
			warn(fmt.Errorf("pausing a traffic class: %w (a program in the host may have replaced its queueing discipline)", err))
		}
		dev.failed = err != nil
		dev.recordHold(q, want)
	}
}

// recordHold records the start or the end of a hold.
func (dev *holdable) recordHold(queue int, held bool) {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	now := time.Now()
	if held {
		dev.since[queue] = now
		dev.holds[queue]++
		return
	}
	dev.held[queue] += now.Sub(dev.since[queue])
	dev.since[queue] = time.Time{}
}

// reportClasses returns what happened to the classes in the host, with the counters of
// its device.
func (dev *holdable) reportClasses(p *plan.Port, c netnslab.Counters, clock *wall.Clock) []report.HostClass {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	var all []report.HostClass
	for _, k := range p.Classes {
		out := report.HostClass{Name: k.Name, Priority: k.Priority}
		first, n := dev.device.Queues(k.Priority)
		for q := first; q < first+n; q++ {
			held := dev.held[q]
			if since := dev.since[q]; !since.IsZero() {
				held += time.Since(since)
			}
			out.Holds += dev.holds[q]
			out.Held += clock.ToEmulated(held)
			if c.Queues != nil {
				out.QueueDropped += c.Queues[q].Drops
				out.QueuePackets += c.Queues[q].Packets
			}
		}
		all = append(all, out)
	}
	return all
}

// closeHolder stops the holder and waits for work in progress.
func (h *holder) closeHolder() {
	if h.wake < 0 {
		return
	}
	h.closing.Store(true)
	h.wakeHolder()
	<-h.done
	unix.Close(h.wake)
}

// classesOf returns the classes that netns-lab has to separate at a port of a
// host, nil for a port without classes.
func classesOf(n *plan.Node, p *plan.Port) *netnslab.Classes {
	if n.QoS == nil {
		return nil
	}
	c := &netnslab.Classes{Map: n.QoS.Map}
	if n.Edge.Settings != nil {
		c.Flows = flowQueues
	}
	for _, k := range p.Classes {
		c.Priorities = append(c.Priorities, k.Priority)
	}
	return c
}
