package ndp

import (
	"container/heap"
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// event is the arrival of a packet, or a check of timers.
type event struct {
	at       units.Time
	order    int
	header   *Header // nil for timers
	payload  units.Bytes
	trimmed  bool
	returned bool
	toSender bool
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, k int) bool {
	return e[i].at < e[k].at || e[i].at == e[k].at && e[i].order < e[k].order
}
func (e events) Swap(i, k int) { e[i], e[k] = e[k], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// fate is what a network does to a packet, once for each copy.
type fate struct {
	delay             units.Time
	trimmed, returned bool
}

// network joins a sender and a receiver, whose host has a pull queue.
type network struct {
	sender   Sender
	receiver Receiver
	peer     Peer
	pacer    *Pacer
	config   *Config

	now     units.Time
	order   int
	queue   events
	gap     units.Time // between two packets of the sender
	free    units.Time // when the sender's port is free
	open    bool       // the receiver knows the connection
	arrived int        // how often everything has arrived
	came    units.Bytes

	way   func(toReceiver bool, h *Header) []fate
	seen  func(toReceiver bool, h *Header, payload units.Bytes)
	check func()
}

func newNetwork(c *Config, x Start, way func(bool, *Header) []fate) *network {
	p := &pull.Config{Line: 10 * units.Gbps, MTU: c.MTU + 14, Share: c.PullShare, Credit: 1, Policy: pull.Strict{}}
	n := &network{config: c, pacer: pull.New[*Receiver](p), way: way, gap: (10 * units.Gbps).TimeOf(c.MTU + 38)}
	if x.Rand == nil {
		x.Rand = rand.New(rand.NewPCG(1, 1))
	}
	n.sender.Reset(0, c, x)
	return n
}

func (n *network) put(e event) {
	n.order++
	e.order = n.order
	heap.Push(&n.queue, e)
}

func (n *network) send(toReceiver bool, h Header, payload units.Bytes) {
	if n.seen != nil {
		n.seen(toReceiver, &h, payload)
	}
	for _, f := range n.way(toReceiver, &h) {
		k := h
		n.put(event{at: n.now + f.delay, header: &k, payload: payload, trimmed: f.trimmed || f.returned, returned: f.returned, toSender: !toReceiver || f.returned})
	}
}

// settle does what is due at both ends, and schedules the next check.
func (n *network) settle() {
	for n.sender.CanSend() && n.free <= n.now {
		var h Header
		payload, ok := n.sender.Next(n.now, &h)
		if !ok {
			panic("a sender that is ready has nothing")
		}
		n.free = n.now + n.gap
		n.send(true, h, payload)
	}
	for s := n.pacer.Next(n.now); s != nil; s = n.pacer.Next(n.now) {
		n.send(false, s.Owner.MakePull(), 0)
	}
	if n.check != nil {
		n.check()
	}
	at := min(n.sender.NextTimer(), max(n.now, n.pacer.NextPull()))
	if n.sender.CanSend() {
		at = min(at, n.free)
	}
	if at != units.Never {
		n.put(event{at: max(at, n.now+1)})
	}
}

// receive handles a data packet at a host.
func (n *network) receive(e *event) {
	h := e.header
	switch {
	case n.open:
	case n.peer.IsOver(h.Connection):
		n.send(false, AnswerLate(h), 0)
		return
	case h.Flags&FlagSYN == 0:
		return
	default:
		n.receiver.Reset(n.config, n.pacer, h)
		n.open = true
	}
	answer, ok := n.receiver.Receive(h, e.payload, e.trimmed)
	if !ok {
		return
	}
	n.send(false, answer, 0)
	if n.receiver.IsComplete() {
		n.arrived++
		n.came = n.receiver.ReceivedBytes()
		n.peer.RecordEnd(h.Connection)
		n.open = false
	}
}

// run runs events until there are no more, or until a time.
func (n *network) run(end units.Time) {
	n.settle()
	looked := units.Time(-1)
	for len(n.queue) > 0 && n.queue[0].at <= end {
		e := heap.Pop(&n.queue).(event)
		if n.now = e.at; e.header == nil && looked == n.now {
			continue
		}
		switch {
		case e.header == nil:
			looked = n.now
			n.sender.OnTimer(n.now)
		case e.returned:
			n.sender.ReceiveReturned(n.now, e.header)
		case e.toSender:
			n.sender.Receive(n.now, e.header)
		default:
			n.receive(&e)
		}
		n.settle()
	}
}
