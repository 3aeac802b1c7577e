package wall

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/links/device/uring"
)

// RingPoller is a device that can be read and written by an io_uring.
type RingPoller interface {
	Poller
	// UsesRing reports whether it should use one.
	UsesRing() bool
	// Start starts using the ring. The device calls ready when there is something for
	// Poll, during the ring's Enter and Submit.
	Start(r *uring.Ring, ready func()) error
	// Stop returns to what the device did before. The ring has been closed.
	Stop()
	// NeedsPoll reports whether PollInput should be called.
	NeedsPoll() bool
}

// IO is how devices are read and written.
type IO int

// Methods of reading and writing.
const (
	ReadWrite    IO = iota // system calls read and write
	Uring                  // io_uring if the kernel permits it, otherwise ReadWrite
	RequireUring           // io_uring, or Run fails
)

// ringSize is the maximum number of requests that wait for submission.
const ringSize = 256

// ring is the io_uring of a driver. Devices that it does not read are watched by
// epoll, as all are without a ring, and the ring watches epoll.
type ring struct {
	*uring.Ring
	handler int
	devices []RingPoller // by the driver's device number; nil for others
	ready   []int        // devices, or -1 for work
	listed  []bool       // devices that are in ready
	others  bool         // epoll has something
	watched bool         // the ring watches epoll
}

// wantsRing reports whether a device should be read by a ring if one is available.
func (d *Driver) wantsRing(p Poller) bool {
	r, ok := p.(RingPoller)
	return ok && d.options.IO != ReadWrite && r.UsesRing()
}

// startRing creates the ring if a device wants it. It must be called on the engine's
// thread.
func (d *Driver) startRing() error {
	var number []int
	for i, p := range d.devices {
		if d.wantsRing(p) {
			number = append(number, i)
		}
	}
	if len(number) == 0 {
		return nil
	}
	err := d.useRing(number)
	if err == nil {
		d.uring.Store(true)
		return nil
	}
	if d.options.IO == RequireUring {
		return fmt.Errorf("%w; with engine: {io: auto} the lab runs without it", err)
	}
	for _, i := range number {
		if err := d.epoll.watchFD(d.devices[i].FD(), i); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (d *Driver) useRing(number []int) error {
	u, err := uring.New(ringSize, len(number))
	if err != nil {
		return err
	}
	r := &ring{Ring: u, devices: make([]RingPoller, len(d.devices)), listed: make([]bool, len(d.devices))}
	r.handler = u.RegisterHandler(r)
	d.ring = r
	for _, i := range number {
		p := d.devices[i].(RingPoller)
		if err := p.Start(u, func() { r.listDevice(i) }); err != nil {
			d.stopRing()
			return err
		}
		r.devices[i] = p
	}
	return nil
}

func (d *Driver) stopRing() {
	if d.ring == nil {
		return
	}
	d.ring.Close()
	for _, p := range d.ring.devices {
		if p != nil {
			p.Stop()
		}
	}
	d.ring = nil
}

// listDevice records that a device has something.
func (r *ring) listDevice(i int) {
	if !r.listed[i] {
		r.listed[i] = true
		r.ready = append(r.ready, i)
	}
}

// OnCompletion is called when epoll has something. It is called only once, however much
// epoll has.
func (r *ring) OnCompletion(_ uint32, _ int, _ uint16, more bool) { r.others, r.watched = true, more }

// exchangeIO submits the devices' writes and checks for completions, without waiting.
// It reports whether anything is ready.
func (d *Driver) exchangeIO() bool {
	r := d.ring
	if r == nil {
		return false
	}
	if !r.watched {
		r.watched = true
		r.PollMultishot(r.handler, d.epoll.fd)
	}
	// Devices that were ready have had their turn, and may have more. For those that
	// epoll watches, asking epoll shows that.
	r.ready = slices.DeleteFunc(r.ready, func(i int) bool {
		if i < 0 {
			return true
		}
		r.listed[i] = r.devices[i] != nil && r.devices[i].NeedsPoll()
		return !r.listed[i]
	})
	r.SubmitAndWait(0)
	return len(r.ready) > 0 || r.others
}

// waitReady returns what is ready, after at most ns nanoseconds; a negative ns waits
// forever.
func (d *Driver) waitReady(ns int64) []int {
	r := d.ring
	if r == nil {
		return d.epoll.wait(ns)
	}
	if ns != 0 {
		r.SubmitAndWait(ns)
	}
	if r.others {
		more := d.epoll.wait(0)
		r.others = len(more) > 0
		for _, i := range more {
			if i < 0 {
				r.ready = append(r.ready, i)
			} else {
				r.listDevice(i)
			}
		}
	}
	return r.ready
}
