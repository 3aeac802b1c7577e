package tuntap

import (
	"time"

	"github.com/weftlab/weft/links/gso"
	"github.com/weftlab/weft/sim/units"
)

// maxBehind is how many writes of a device may wait for its thread. With one more
// the engine waits, as it does for every write without a thread.
const maxBehind = 32

// behind has a thread beside the engine's write runs of packets to a device: most of
// what a super-packet costs is the receiving host's TCP, which runs within the write.
// What is a packet alone, as acknowledgements and pings are, is written by the engine,
// so that it need not wait for another thread to wake, unless something waits in front
// of it.
type behind struct {
	offload *offload
	thread  func(job func())
	waiting int          // jobs that have not been collected
	done    chan *handed // has room for all of them
	spare   []*handed
}

// handed is a run that the thread writes. The engine has it before that and afterwards.
type handed struct {
	run   *gso.Run
	due   units.Time
	err   error
	ended time.Time
	job   func()
}

// WantsThread tells whether the queue's device gains by a thread: it carries super-packets.
// It does so for one queue of each device, as all writes go by one descriptor.
func (q *Queue) WantsThread() bool { return q.device.offload != nil && q.number == 0 }

// WriteBy has the device's writes done by thread, which calls the jobs that it is given
// one after the other on another goroutine. nil ends that; it waits until all is written.
func (q *Queue) WriteBy(thread func(job func())) {
	o := q.device.offload
	if o.behind != nil {
		o.behind.drain()
		o.behind = nil
	}
	if thread != nil {
		o.behind = &behind{offload: o, thread: thread, done: make(chan *handed, maxBehind)}
	}
}

// take hands a run to the thread, or reports false: then the engine is to write it.
func (b *behind) take(r *gso.Run, now units.Time) bool {
	b.collect()
	if b.waiting == 0 && r.Packets == 1 {
		return false
	}
	if b.waiting == maxBehind {
		b.finish(<-b.done)
	}
	h := b.get()
	h.run, h.due = r, now
	b.waiting++
	b.thread(h.job)
	return true
}

func (b *behind) get() *handed {
	if n := len(b.spare); n > 0 {
		h := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return h
	}
	h := new(handed)
	h.job = func() {
		h.err = b.offload.writev(h.run.Iov)
		h.ended = time.Now()
		b.done <- h
	}
	return h
}

// collect takes back what has been written.
func (b *behind) collect() {
	for {
		select {
		case h := <-b.done:
			b.finish(h)
		default:
			return
		}
	}
}

// drain waits until all is written.
func (b *behind) drain() {
	for b.waiting > 0 {
		b.finish(<-b.done)
	}
}

func (b *behind) finish(h *handed) {
	b.waiting--
	o := b.offload
	o.counts.Behind++
	o.wrote(h.run, h.due, h.err, time.Since(h.ended))
	o.joiner.Written(h.run)
	h.run = nil
	b.spare = append(b.spare, h)
}
