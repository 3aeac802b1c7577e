package tcp

import (
	"container/heap"
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// fixed is a control whose window losses and marks halve, and nothing raises.
type fixed struct {
	cc.NopControl
	window, minWindow units.Bytes
	rate              units.Rate
	burst             units.Bytes
	undone            int
	episode           cc.Episode
	before            units.Bytes
}

func (f *fixed) Window() units.Bytes    { return f.window }
func (f *fixed) Rate() units.Rate       { return f.rate }
func (f *fixed) BurstSize() units.Bytes { return f.burst }
func (f *fixed) OnAck(_ units.Time, a *cc.Ack) {
	f.episode.OnAck(a)
	if a.Marked && !f.episode.IsActive() {
		f.episode.BeginAt(a)
		f.window = max(f.minWindow, f.window/2)
	}
}
func (f *fixed) OnLoss(_ units.Time, l cc.Loss) {
	if !f.episode.IsActive() || l.Again {
		f.before = f.window
		f.window = max(f.minWindow, f.window/2)
		f.episode.Begin()
	}
	if l.Timeout {
		f.window = f.minWindow
		f.episode.End()
	}
}
func (f *fixed) UndoReduction(units.Time) {
	f.window, f.undone = f.before, f.undone+1
	f.episode.End()
}

// network carries segments between a sender and a receiver, each independently.
type network struct {
	now      units.Time
	sender   Sender
	receiver Receiver
	events   events
	seq      int
	// way returns the delays after which copies of a segment arrive. None means that it
	// is lost.
	way  func(toReceiver bool, g *Segment) []units.Time
	seen func(toReceiver bool, g *Segment)
	got  func(g *Segment) // called when a segment arrives at the receiver
	wake units.Time
	// check is called after each input.
	check func()
}

type event struct {
	at         units.Time
	seq        int
	segment    *Segment // nil means a timer
	toReceiver bool
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (n *network) put(e event) {
	n.seq++
	e.seq = n.seq
	heap.Push(&n.events, e)
}

// start opens the connection.
func (n *network) start(c *Config, control cc.Control, t cc.Traits, size units.Bytes) {
	n.wake = units.Never
	n.sender.Reset(c, control, t, 0xffff_ff00, size) // numbers wrap soon
	n.receiver.Reset(c, 0x7fff_fff0)
	n.sender.Open(n.now)
	n.settle()
}

// settle sends pending segments and arms the timer.
func (n *network) settle() {
	var g Segment
	for n.sender.NextDeparture() <= n.now && n.sender.Next(n.now, &g) {
		n.send(true, g)
	}
	for n.receiver.Next(n.now, &g) {
		n.send(false, g)
	}
	if n.check != nil {
		n.check()
	}
	at := min(n.sender.NextTimer(), n.receiver.NextTimer())
	if ready := n.sender.NextDeparture(); ready > n.now {
		at = min(at, ready)
	}
	if at != units.Never && at < n.wake {
		n.wake = at
		n.put(event{at: at})
	}
}

func (n *network) send(toReceiver bool, g Segment) {
	if n.seen != nil {
		n.seen(toReceiver, &g)
	}
	for _, d := range n.way(toReceiver, &g) {
		k := g
		n.put(event{at: n.now + d, segment: &k, toReceiver: toReceiver})
	}
}

// run runs until end, or until there are no more events.
func (n *network) run(end units.Time) {
	for len(n.events) > 0 && n.events[0].at <= end {
		e := heap.Pop(&n.events).(event)
		n.now = e.at
		switch {
		case e.segment == nil:
			n.wake = units.Never
			n.sender.OnTimer(n.now)
			n.receiver.OnTimer(n.now)
		case e.toReceiver:
			if n.got != nil {
				n.got(e.segment)
			}
			n.receiver.Receive(n.now, e.segment)
		default:
			open := n.sender.Phase() == Opening || n.sender.Phase() == Established
			if open {
				n.sender.Receive(n.now, e.segment)
			}
			if p := n.sender.Phase(); p == Done || p == Failed {
				if a, ok := AnswerUnknown(e.segment); ok {
					n.send(true, a)
				}
			}
		}
		n.settle()
	}
	n.now = max(n.now, end)
}

// always delivers everything after a fixed delay.
func always(d units.Time) func(bool, *Segment) []units.Time {
	return func(bool, *Segment) []units.Time { return []units.Time{d} }
}

// failer is a test of testing or rapid.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkSender compares the sender's counts with its records.
func checkSender(t failer, s *Sender) {
	var inFlight units.Bytes
	waiting, arrived := int32(0), int32(0)
	for k := s.una; k < s.nxt; k++ {
		x := s.recordAt(k).state
		if x.isInFlight() {
			inFlight += s.payloadOf(k)
		}
		if x.awaitsResend() {
			waiting++
			if k < s.again {
				t.Fatalf("segment %d waits, and is before %d", k, s.again)
			}
		}
		if x&sacked != 0 {
			arrived++
		}
	}
	if inFlight != s.inFlight || waiting != s.waiting || arrived != s.arrived {
		t.Fatalf("%d bytes fly, %d wait, %d arrived; the sender says %d, %d, %d", inFlight, waiting, arrived, s.inFlight, s.waiting, s.arrived)
	}
	if s.phase == Established && s.nxt > 0 && s.nxt > s.una && s.rtoAt == units.Never && !s.tail.due {
		t.Fatal("something is under way and no timeout is armed")
	}
}

// random returns a source of random numbers for a test.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
