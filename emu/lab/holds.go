package lab

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/wall"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// A traffic class of a real host is paused by not taking from it. What its
// programs send is read promptly all the same, because the device's ring drops
// when it is full, and waits in the class's queue at the host's port, which
// keeps the exact times. Only when that queue is long is the class held in the
// host, and let go when it is half as long.

const (
	// heldBytes and heldTime are how long a class's queue at a host's port
	// gets before the class is held: as many bytes, or as many as the link
	// carries in that time, which is real time. It is some times what a pass of the engine's
	// thread and of the holder may take, so that a link does not run dry.
	heldBytes = 256 * units.KB
	heldTime  = 2 * units.Millisecond
)

// heldAt is how long a class's queue at a host's port gets before the class is
// held. It is let go when the queue is half as long. What the host sends until
// the hold takes effect, and a bucket of it then (netnslab.Device.Hold), comes
// on top.
func heldAt(rate units.Rate, dilation int) units.Bytes {
	return max(heldBytes, rate.Per(heldTime/units.Time(dilation)))
}

// flowQueues is how many queues a class of a real host with an edge service has in its
// device: its flows are shared out among them, so that few wait for one that is held. All
// classes together have half of what a device may.
const flowQueues = netnslab.MaxQueues / 2 / class.Count

// holder holds the traffic classes of real hosts while their queues in the
// fabric are full. It has a thread of its own, because netlink takes tens of
// microseconds that the engine's does not have; and one that is scheduled like
// the engine's, because until it has run the host sends on.
type holder struct {
	devices map[*fabric.Station]*holdable
	order   []*holdable
	wake    int // eventfd: something is to be done
	closing atomic.Bool
	done    chan struct{}
}

// holdable is a device whose traffic classes can be held.
type holdable struct {
	name     string // "h1:eth0"
	device   *netnslab.Device
	priority []uint8       // of its classes
	full     atomic.Uint32 // priorities whose queues are full, a bit each
	long     []atomic.Bool // by queue: too much of what came by it waits in the edge service
	failed   bool          // the last attempt; said once

	mu    sync.Mutex
	since []time.Time     // when the queue was held; zero when it is not
	holds []uint64        // by queue, how often and for how long
	held  []time.Duration // of real time
}

func newHolder() *holder {
	return &holder{devices: map[*fabric.Station]*holdable{}, wake: -1, done: make(chan struct{})}
}

// add takes on a device with classes.
func (h *holder) add(s *fabric.Station, name string, d *netnslab.Device, c *netnslab.Classes) {
	n := len(d.FDs)
	dev := &holdable{
		name: name, device: d, priority: c.Priorities,
		long: make([]atomic.Bool, n), since: make([]time.Time, n), holds: make([]uint64, n), held: make([]time.Duration, n),
	}
	h.devices[s] = dev
	h.order = append(h.order, dev)
}

// watchQueues has classFull called for the queues of a host's port, by lengths
// that follow its link's rate.
func (l *Lab) watchQueues(s *fabric.Station) {
	dev := l.holder.devices[s]
	if dev == nil {
		return
	}
	var rate units.Rate
	if k := s.Port.Link(); k != nil {
		rate = k.Rate()
	}
	high := heldAt(rate, l.plan.Dilation)
	s.Port.Watch(high, high/2, func(_ units.Time, prio uint8, full bool) { l.classFull(s, prio, full) })
	s.Watch(len(dev.device.FDs), high, func(_ units.Time, queue int, full bool) { l.queueLong(dev, queue, full) })
}

// queueLong is told, on the thread of a station's engine, that more of what came by a queue
// of a real host's device waits in the edge service than should, or little again.
func (l *Lab) queueLong(dev *holdable, queue int, long bool) {
	dev.long[queue].Store(long)
	l.holder.look()
}

// classFull is told, on the thread of a station's engine, that the queue of a
// class at a real host's port has become too long, or is short again.
func (l *Lab) classFull(s *fabric.Station, priority uint8, full bool) {
	l.holder.set(s, priority, full)
}

// set notes whether a class is to be held. It neither blocks nor allocates.
func (h *holder) set(s *fabric.Station, priority uint8, full bool) {
	dev := h.devices[s]
	if dev == nil {
		return
	}
	if bit := uint32(1) << priority; full {
		dev.full.Or(bit)
	} else {
		dev.full.And(^bit)
	}
	h.look()
}

// look makes the holder look at all devices.
func (h *holder) look() {
	one := [8]byte{1}
	_, _ = unix.Write(h.wake, one[:])
}

// start begins to hold and says which hosts can only be held as a whole.
// Realtime asks for SCHED_FIFO.
func (h *holder) start(realtime bool, warn func(error)) (err error) {
	if len(h.order) == 0 {
		return nil
	}
	if h.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := h.together(); err != nil {
		warn(err)
	}
	kinds := []wall.Scheduling{wall.Realtime, wall.Busy, wall.Ordinary}
	if !realtime {
		kinds = kinds[2:]
	}
	go func() {
		defer close(h.done)
		for _, s := range kinds {
			if wall.OnThread(s, func() error { h.run(warn); return nil }) == nil {
				return // else such scheduling is not allowed
			}
		}
	}()
	return nil
}

// run does what is to be done until the holder is closed.
func (h *holder) run(warn func(error)) {
	var count [8]byte
	for !h.closing.Load() {
		for _, dev := range h.order {
			dev.apply(warn)
		}
		_, _ = unix.Read(h.wake, count[:])
	}
}

// together is the error of hosts whose classes are held all or none, nil
// without such hosts.
func (h *holder) together() error {
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
	const most = 8
	text := strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text = fmt.Sprintf("%s and %d more", text, n)
	}
	return fmt.Errorf("a pause of one traffic class of these hosts stops all of their traffic: %s: %w", text, why)
}

// wants tells whether a queue is to be held. Where classes share it, that is as long as one
// of them is to be.
func (dev *holdable) wants(queue int) bool {
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

// apply holds and lets go what has changed.
func (dev *holdable) apply(warn func(error)) {
	for q := range dev.device.FDs {
		want := dev.wants(q)
		is := !dev.since[q].IsZero()
		var err error
		switch {
		case want == is:
			continue
		case want:
			err = dev.device.Hold(q)
		default:
			err = dev.device.Resume(q)
		}
		if err != nil && !dev.failed {
			warn(fmt.Errorf("pausing a traffic class: %w (a program in the host may have replaced its queueing discipline)", err))
		}
		dev.failed = err != nil
		dev.note(q, want)
	}
}

// note counts a hold and its end.
func (dev *holdable) note(queue int, held bool) {
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

// report is what happened to the classes in the host, with the counters of its
// device.
func (dev *holdable) report(p *plan.Port, c netnslab.Counters, clock *wall.Clock) []report.HostClass {
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
			out.Held += clock.Emulated(held)
			if c.Queues != nil {
				out.QueueDropped += c.Queues[q].Drops
				out.QueuePackets += c.Queues[q].Packets
			}
		}
		all = append(all, out)
	}
	return all
}

// close waits for what is being done.
func (h *holder) close() {
	if h.wake < 0 {
		return
	}
	h.closing.Store(true)
	h.look()
	<-h.done
	unix.Close(h.wake)
}

// classesOf is what netns-lab has to keep apart at a port of a host, nil for a
// plain one.
func classesOf(n *plan.Node, p *plan.Port) *netnslab.Classes {
	if n.Deep == nil {
		return nil
	}
	c := &netnslab.Classes{Map: n.Deep.Map}
	if n.Edge.Settings != nil {
		c.Flows = flowQueues
	}
	for _, k := range p.Classes {
		c.Priorities = append(c.Priorities, k.Priority)
	}
	return c
}
