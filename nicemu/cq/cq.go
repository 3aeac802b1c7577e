package cq

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/weftlab/weft/sim/units"
)

// ErrOverrun is returned by Poll when a queue has overrun and its last entry was taken: more were
// lost, and the queue can only be destroyed.
var ErrOverrun = fmt.Errorf("%w: the completion queue has overrun: make it deeper, or poll it more often", syscall.EIO)

// Events takes the asynchronous events caused by an overrun (§11.6.3).
type Events interface {
	// CQError is IBV_EVENT_CQ_ERR.
	CQError(q *CQ)
	// QPFatal is IBV_EVENT_QP_FATAL: the queue pair cannot complete its work and must go to the
	// error state.
	QPFatal(qp uint32)
}

// Sink takes the entries and events of a queue elsewhere: to memory shared with a process. That
// process polls, arms and acknowledges there, so Poll, Len, Arm, DiscardQP and Resize of the queue
// are not used.
type Sink interface {
	// PutEntry adds an entry; solicited is also true for an error. It returns false if there is no room.
	PutEntry(c Completion, solicited bool) bool
	// EventRequest returns the events that the process has requested since the last call. It is called
	// after each PutEntry.
	EventRequest() (any, solicited bool)
	// SignalEvent reports an event.
	SignalEvent()
	// HasEntries reports whether there are entries that the process has not polled, or, with solicited,
	// such entries that are solicited or errors.
	HasEntries(solicited bool) bool
}

// armed says which completions make an event.
type armed uint8

const (
	unarmed armed = iota
	forSolicited
	forAny
)

// CQ is a completion queue. Make it with New.
type CQ struct {
	ring        []Completion // grows up to depth, which need not be a power of two; polled in bulk
	head, count int
	depth       int
	armed       armed
	overrun     bool

	pipe    *pipe // nil without SetLatency
	sink    Sink  // nil if entries are kept here
	channel *Channel
	unacked int // events taken from the channel and not acknowledged
	pending int // events in the channel

	moderation Moderation
	held       int        // completions that an event waits for
	due        units.Time // when the event comes anyway
	missed     units.Time // when to check for missed entries

	users    map[uint32]user // by queue pair, or shared receive queue with srqUser
	attached int             // so far
	events   Events
}

// srqUser marks the number of a shared receive queue; those of queue pairs have 24 bits.
const srqUser = 1 << 24

// user is a queue pair that completes into a queue, or a shared receive queue of an XRC domain.
type user struct {
	order int // of its attachment
	uses  int // 2 if its sends and its receives do
}

// New makes a completion queue for depth entries, at most limit (the device's max_cqe). channel and
// events may be nil. Entries take memory only when they are first needed.
func New(depth, limit int, channel *Channel, events Events) (*CQ, error) {
	if err := checkDepth(depth, limit); err != nil {
		return nil, err
	}
	if channel != nil {
		channel.queues++
	}
	return &CQ{depth: depth, channel: channel, events: events, due: units.Never, missed: units.Never, users: map[uint32]user{}}, nil
}

// NewSink makes a completion queue whose entries and events go to a sink, which has
// room for depth entries, at most limit.
func NewSink(depth, limit int, s Sink, events Events) (*CQ, error) {
	q, err := New(depth, limit, nil, events)
	if err == nil {
		q.sink = s
	}
	return q, err
}

func checkDepth(depth, limit int) error {
	if depth < 1 || depth > limit {
		return fmt.Errorf("%w: cqe is %d: it can be 1 to %d (max_cqe)", syscall.EINVAL, depth, limit)
	}
	return nil
}

// Depth returns the capacity in entries.
func (q *CQ) Depth() int { return q.depth }

// Len returns the number of entries waiting to be polled.
func (q *CQ) Len() int { return q.count }

// Overrun reports whether an entry was lost.
func (q *CQ) Overrun() bool { return q.overrun }

// Push adds an entry. solicited is the Solicited Event bit of the message that a receive completes;
// an error counts as solicited anyway (ibv_req_notify_cq(3)). If there is no room the entry is
// lost: the queue is in error for good, CQError is called, then QPFatal for each queue pair that
// completes here, in the order in which they were attached. Push returns false then and ever after.
// With a Latency, the room is checked when the entry comes.
func (q *CQ) Push(now units.Time, c Completion, solicited bool) bool {
	if q.overrun {
		return false
	}
	if c.Timestamp == 0 { // a layer's has that of the NIC's entry
		c.Timestamp = now
	}
	if c.VendorErr == 0 {
		c.VendorErr = c.Status.VendorErr(c.Opcode&Recv != 0)
	}
	if q.pipe != nil && !q.pipe.arriving {
		q.pipe.pushEntry(now, c, solicited)
		q.addArrived(now)
		return !q.overrun
	}
	if q.sink != nil {
		return q.passToSink(now, c, solicited)
	}
	if q.count == q.depth {
		q.failQueue()
		return false
	}
	if q.count == len(q.ring) {
		q.growRing(min(q.depth, max(4, 2*len(q.ring))))
	}
	q.ring[q.slotIndex(q.count)] = c
	q.count++
	q.handleMaybeRequested(now, c, solicited)
	return true
}

// handleMaybeRequested handles an entry that may be of the requested kind.
func (q *CQ) handleMaybeRequested(now units.Time, c Completion, solicited bool) {
	if q.armed == forAny || q.armed == forSolicited && (solicited || c.Status != Success) {
		q.handleRequested(now)
	}
}

// passToSink hands an entry to the sink. Requests of the process count from before the entry, which it
// cannot have seen.
func (q *CQ) passToSink(now units.Time, c Completion, solicited bool) bool {
	if !q.sink.PutEntry(c, solicited || c.Status != Success) {
		q.failQueue()
		return false
	}
	q.takeRequests()
	q.handleMaybeRequested(now, c, solicited)
	return true
}

// takeRequests takes over the requests of the process.
func (q *CQ) takeRequests() {
	if forAny, forSolicited := q.sink.EventRequest(); forAny || forSolicited {
		q.Arm(!forAny)
	}
}

// slotIndex returns the index of the i-th entry.
func (q *CQ) slotIndex(i int) int {
	if i += q.head; i >= len(q.ring) {
		i -= len(q.ring)
	}
	return i
}

func (q *CQ) growRing(n int) {
	ring := make([]Completion, n)
	q.copyOut(ring)
	q.ring, q.head = ring, 0
}

// copyOut copies the oldest entries and returns how many.
func (q *CQ) copyOut(dst []Completion) int {
	n := min(len(dst), q.count)
	first := min(n, len(q.ring)-q.head)
	copy(dst, q.ring[q.head:q.head+first])
	copy(dst[first:n], q.ring)
	return n
}

func (q *CQ) failQueue() {
	q.overrun = true
	if q.events == nil {
		return
	}
	q.events.CQError(q)
	// A queue pair that goes to the error state may be detached meanwhile.
	byAge := func(a, b uint32) int { return cmp.Compare(q.users[a].order, q.users[b].order) }
	for _, qp := range slices.SortedFunc(maps.Keys(q.users), byAge) {
		if qp < srqUser {
			q.events.QPFatal(qp)
		}
	}
}

// Poll takes up to len(dst) entries, oldest first, and returns how many. After an overrun it
// returns the entries that came before it, then ErrOverrun.
func (q *CQ) Poll(dst []Completion) (int, error) {
	n := q.copyOut(dst)
	if n == 0 && q.overrun && len(dst) > 0 {
		return 0, ErrOverrun
	}
	if q.count -= n; q.count == 0 {
		q.head = 0
	} else {
		q.head = q.slotIndex(n)
	}
	return n, nil
}

// DiscardQP removes the entries of a queue pair that is reset or destroyed, as drivers do
// (mlx5_ib_cq_clean of Linux), and returns how many there were.
func (q *CQ) DiscardQP(qp uint32) int {
	return q.discardEntries(func(c *Completion) bool { return c.QP == qp })
}

// DiscardSRQ removes the entries of a shared receive queue of an XRC domain that is destroyed, and
// returns how many there were.
func (q *CQ) DiscardSRQ(srq uint32) int {
	return q.discardEntries(func(c *Completion) bool { return c.SRQ == srq })
}

func (q *CQ) discardEntries(of func(*Completion) bool) int {
	left := 0
	for i := range q.count {
		c := q.ring[q.slotIndex(i)]
		if !of(&c) {
			q.ring[q.slotIndex(left)] = c
			left++
		}
	}
	removed := q.count - left
	q.count = left
	return removed + q.pipe.discardEntries(of)
}

// Resize changes the depth, to between the number of waiting entries and limit.
func (q *CQ) Resize(depth, limit int) error {
	if err := checkDepth(depth, limit); err != nil {
		return err
	}
	if depth < q.count {
		return fmt.Errorf("%w: cqe is %d, and %d entries wait: poll them first", syscall.EINVAL, depth, q.count)
	}
	q.depth = depth
	return nil
}

// AttachQP records that a queue pair completes here; it is called twice if both sends and receives
// do.
func (q *CQ) AttachQP(qp uint32) {
	u := q.users[qp]
	if u.uses == 0 {
		q.attached++
		u.order = q.attached
	}
	u.uses++
	q.users[qp] = u
}

// DetachQP undoes one AttachQP.
func (q *CQ) DetachQP(qp uint32) {
	u := q.users[qp]
	if u.uses--; u.uses <= 0 {
		delete(q.users, qp)
		return
	}
	q.users[qp] = u
}

// AttachSRQ records that a shared receive queue of an XRC domain completes here.
func (q *CQ) AttachSRQ(srq uint32) { q.AttachQP(srq | srqUser) }

// DetachSRQ undoes AttachSRQ.
func (q *CQ) DetachSRQ(srq uint32) { q.DetachQP(srq | srqUser) }

// Destroy destroys the queue. Its events that have not been taken vanish from the channel. EBUSY:
// queue pairs or shared receive queues complete here, or events were taken and not acknowledged; ibv_destroy_cq waits for
// these.
func (q *CQ) Destroy() error {
	switch {
	case len(q.users) > 0:
		return fmt.Errorf("%w: %d queue pairs or shared receive queues complete into this queue: destroy them first", syscall.EBUSY, len(q.users))
	case q.unacked > 0:
		return fmt.Errorf("%w: %d completion events of this queue are not acknowledged: call ibv_ack_cq_events", syscall.EBUSY, q.unacked)
	}
	if q.channel != nil {
		q.channel.removeEvents(q)
	}
	q.channel, q.ring, q.count, q.head = nil, nil, 0, 0
	q.pipe.clearEntries()
	q.armed, q.due, q.missed, q.overrun = unarmed, units.Never, units.Never, true
	return nil
}
