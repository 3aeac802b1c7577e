package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim/units"
)

// channel is a completion channel: a pipe that carries handles of completion queues. A queue has at
// most one there.
type channel struct {
	*pipe
	queues int
}

// maxChannelQueues is the number of queues that a channel can have, so that its pipe, of 64 KiB,
// always has room.
const maxChannelQueues = 65536 / 4

// completions is a completion queue whose entries are in shared memory. It implements
// cq.Sink.
type completions struct {
	server  *Server
	cq      *nicemu.CQ
	context *opened
	channel *channel
	handle  uint32
	mem     shm
	depth   uint32
	mask    uint32
	made    uint32
	epoch   bool // the process needs the time of day of entries
}

func (x *session) createChannel(q *handleMsg) answer {
	if _, err := getObject[*opened](x, q.Handle, "context"); err != nil {
		return failedAnswer(err)
	}
	p, read, err := newPipe()
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: handleMsg{Handle: x.addObject(&channel{pipe: p})}, fds: []int{read}}
}

func (x *session) destroyChannel(q *handleMsg) answer {
	c, err := getObject[*channel](x, q.Handle, "completion channel")
	if err != nil {
		return failedAnswer(err)
	}
	if c.queues > 0 {
		return failedAnswer(fmt.Errorf("%w: %d completion queues use this channel: destroy them first", syscall.EBUSY, c.queues))
	}
	c.releasePipe()
	x.dropHandle(q.Handle)
	return answer{}
}

// depthOf returns the capacity of a queue for at least n entries, as in mlx5: one less than a power
// of two.
func depthOf(n uint32, limit int) (int, error) {
	if n < 1 || int64(n) > int64(limit) {
		return 0, fmt.Errorf("%w: cqe is %d: it can be 1 to %d (max_cqe)", syscall.EINVAL, n, limit)
	}
	return min(ringSlots(int(n)+1)-1, limit), nil
}

func (x *session) createCQ(q *createCQ) answer {
	c, err := getObject[*opened](x, q.Context, "context")
	if err != nil {
		return failedAnswer(err)
	}
	k := &completions{server: x.server, context: c, epoch: q.Epoch != 0}
	if q.Channel != 0 {
		if k.channel, err = getObject[*channel](x, q.Channel, "completion channel"); err != nil {
			return failedAnswer(err)
		}
		if k.channel.queues >= maxChannelQueues {
			return failedAnswer(fmt.Errorf("%w: a completion channel can have at most %d queues", syscall.ENOMEM, maxChannelQueues))
		}
	}
	depth, err := depthOf(q.CQE, c.Limits().CQE)
	if err != nil {
		return failedAnswer(err)
	}
	if k.cq, err = c.CreateSinkCQ(depth, k); err != nil {
		return failedAnswer(err)
	}
	fd, err := k.makeMemory(depth)
	if err != nil {
		_ = k.cq.Destroy()
		return failedAnswer(err)
	}
	if k.channel != nil {
		k.channel.queues++
	}
	k.handle = x.addObject(k)
	x.server.cqs[k.cq] = k
	return k.answerWait(fd)
}

func (k *completions) answerWait(fd int) answer {
	return answer{body: cqAnswer{Handle: k.handle, CQE: k.depth, Slots: k.mask + 1}, fds: []int{fd}}
}

// makeMemory makes the memory for a number of entries.
func (k *completions) makeMemory(depth int) (fd int, err error) {
	n := ringSlots(depth)
	if k.mem, fd, err = k.server.share("cq", queueBytes+n*cqeLen); err != nil {
		return -1, err
	}
	k.depth, k.mask = uint32(depth), uint32(n-1)
	k.tellEpoch()
	return fd, nil
}

// maxMoved is the number of entries that may wait in a queue that is resized, which copies them: 4
// MiB.
const maxMoved = 1 << 16

func (x *session) resizeCQ(q *createCQ) answer {
	k, err := getObject[*completions](x, q.CQ, "completion queue")
	if err != nil {
		return failedAnswer(err)
	}
	depth, err := depthOf(q.CQE, k.context.Limits().CQE)
	if err != nil {
		return failedAnswer(err)
	}
	waiting := k.made - k.mem.wordAt(cqTaken).Load()
	if waiting > uint32(depth) {
		return failedAnswer(fmt.Errorf("%w: cqe is %d, and %d entries wait: poll them first", syscall.EINVAL, depth, waiting))
	}
	// The process writes how many it has taken, so this may be any number.
	if waiting > maxMoved {
		return failedAnswer(fmt.Errorf("%w: %d entries wait: poll them first", syscall.EBUSY, waiting))
	}
	old := *k
	fd, err := k.makeMemory(depth)
	if err != nil {
		k.mem = old.mem
		return failedAnswer(err)
	}
	for i := k.made - waiting; i != k.made; i++ {
		copy(k.slotOf(i), old.slotOf(i))
	}
	k.mem.wordAt(cqMade).Store(k.made)
	k.mem.wordAt(cqTaken).Store(k.made - waiting)
	for _, w := range []int{cqSolicit, cqTold, cqArm} {
		k.mem.wordAt(w).Store(old.mem.wordAt(w).Load())
	}
	k.mem.wordAt(cqEvent).Store(old.mem.wordAt(cqEvent).Load())
	x.unmapLater(old.mem)
	return k.answerWait(fd)
}

func (x *session) modifyCQ(q *modifyCQ) answer {
	k, err := getObject[*completions](x, q.CQ, "completion queue")
	if err != nil {
		return failedAnswer(err)
	}
	if q.Count > 0xffff || q.Period > 0xffff {
		return failedAnswer(fmt.Errorf("%w: cq_count is %d and cq_period %d: they can be 0 to 65535", syscall.EINVAL, q.Count, q.Period))
	}
	return doneAnswer(k.cq.Moderate(cq.Moderation{Count: uint16(q.Count), Period: units.Time(q.Period) * units.Microsecond}))
}

// notifyCQ handles a notice that there are entries that the process has not polled, for which no
// event came and that were there when it asked for the next: without it they might wait for ever.
func (x *session) notifyCQ(q *handleMsg) answer {
	k, err := getObject[*completions](x, q.Handle, "completion queue")
	if err != nil {
		return failedAnswer(err)
	}
	k.cq.RecheckEntries()
	return answer{}
}

func (x *session) destroyCQ(q *handleMsg) answer {
	k, err := getObject[*completions](x, q.Handle, "completion queue")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, func() error {
		if err := k.destroyQueue(); err != nil {
			return err
		}
		x.releaseObject(k)
		return nil
	})
}

func (k *completions) destroyQueue() error {
	if err := k.cq.Destroy(); err != nil {
		return err
	}
	delete(k.server.cqs, k.cq)
	if k.channel != nil {
		k.channel.queues--
	}
	return nil
}

func (k *completions) slotOf(i uint32) []byte {
	return k.mem.bytes[queueBytes+int(i&k.mask)*cqeLen:][:cqeLen]
}

// PutEntry implements cq.Sink. The process's count of taken entries may be nonsense; then the queue is
// full.
func (k *completions) PutEntry(c cq.Completion, solicited bool) bool {
	if k.made-k.mem.wordAt(cqTaken).Load() >= k.depth {
		return false
	}
	b, le := k.slotOf(k.made), binary.LittleEndian
	le.PutUint64(b, c.ID)
	le.PutUint32(b[8:], uint32(c.Status))
	le.PutUint32(b[12:], uint32(c.Opcode))
	le.PutUint32(b[16:], c.VendorErr)
	le.PutUint32(b[20:], c.ByteLen)
	le.PutUint32(b[24:], c.Imm)
	le.PutUint32(b[28:], c.QP)
	le.PutUint32(b[32:], c.SrcQP)
	le.PutUint32(b[36:], uint32(c.Flags))
	le.PutUint32(b[40:], uint32(c.PKeyIndex))
	le.PutUint32(b[44:], uint32(c.SL))
	le.PutUint32(b[48:], 0)
	le.PutUint32(b[52:], c.SRQ)
	le.PutUint64(b[56:], uint64(c.Timestamp/units.Nanosecond))
	if k.epoch {
		k.tellEpoch()
	}
	k.made++
	if solicited {
		k.mem.wordAt(cqSolicit).Store(k.made)
	}
	k.mem.wordAt(cqMade).Store(k.made)
	return true
}

// tellEpoch tells the process when the lab's clock was zero, which changes when the lab cannot keep
// up.
func (k *completions) tellEpoch() {
	if k.epoch {
		k.mem.doubleAt(cqEpoch).Store(uint64(k.server.Start().UnixNano()))
	}
}

// EventRequest implements cq.Sink.
func (k *completions) EventRequest() (any, solicited bool) {
	arm := k.mem.wordAt(cqArm)
	if arm.Load() == 0 {
		return false, false
	}
	a := arm.Swap(0)
	return a&armAny != 0, a&armSolicited != 0
}

// SignalEvent implements cq.Sink.
func (k *completions) SignalEvent() {
	k.mem.wordAt(cqTold).Store(k.made)
	if k.channel == nil || k.mem.wordAt(cqEvent).Swap(1) != 0 {
		return
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], k.handle)
	k.channel.putRecord(b[:])
}

// HasEntries implements cq.Sink.
func (k *completions) HasEntries(solicited bool) bool {
	last := k.made
	if solicited {
		last = k.mem.wordAt(cqSolicit).Load()
	}
	return int32(last-k.mem.wordAt(cqTaken).Load()) > 0
}

// reportEvent reports an asynchronous event to a process. If the process does not read its events, it
// misses those that its pipe has no room for.
func (c *opened) reportEvent(event, handle uint32) {
	if c.pipe == nil {
		return
	}
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], event)
	binary.LittleEndian.PutUint32(b[4:], handle)
	c.putRecord(b[:])
}

// takeEvents delivers a device's asynchronous events.
func (s *Server) takeEvents(d Device) {
	for e, ok := d.NextEvent(); ok; e, ok = d.NextEvent() {
		switch {
		case s.cqs[e.CQ] != nil:
			k := s.cqs[e.CQ]
			k.context.reportEvent(uint32(e.Kind), k.handle)
		case s.qps[e.QP] != nil:
			k := s.qps[e.QP]
			k.context.reportEvent(uint32(e.Kind), k.handle)
		case s.targets[e.QP] != nil:
			for _, k := range s.targets[e.QP].handles {
				k.context.reportEvent(uint32(e.Kind), k.handle)
			}
		case s.srqs[e.SRQ] != nil:
			k := s.srqs[e.SRQ]
			k.context.reportEvent(uint32(e.Kind), k.handle)
		case e.Port != 0:
			for c := range s.contexts {
				if c.Device == d.Device {
					c.reportEvent(uint32(e.Kind), uint32(e.Port))
				}
			}
			if s.PortChanged != nil {
				s.PortChanged()
			}
		}
	}
}
