package tunnel

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

const (
	testLine = 10 * units.Gbps
	testMTU  = units.Bytes(1514)
	us       = units.Microsecond
)

// testConfig returns the settings for a network whose windows are ten packets.
func testConfig(b Backend) Config { return creditConfig(b, 1) }

// creditConfig returns those with PULLs that give credit MTUs, which takes a larger window.
func creditConfig(b Backend, credit int) Config {
	c := Default(testLine, testMTU, 10*us, credit)
	c.Backend, c.Paths, c.Window = b, 16, units.Bytes(8+2*credit)*testMTU
	return c
}

// event is something that happens at a time.
type event struct {
	at    units.Time
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any     { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

// trip is what a network does to one packet.
type trip struct {
	delay units.Time
	trim  bool
}

// load is a packet of the tests: its sender and its number.
type load struct{ sender, number int }

// world has senders, one receiving host, and a network between them.
type world struct {
	t       rapid.TB
	config  Config
	clock   pull.Config
	pacer   *pull.Pacer[*Receiver[load]]
	now     units.Time
	queue   events
	order   int
	senders []*source
	// data decides the fate of a sender's packet, control that of a receiver's: the trips of
	// its copies, none, one or several.
	data    func(s *source, h *eqds.Data, size units.Bytes) []trip
	control func(s *source, c *eqds.Control) []trip
	seen    func(s *source, what string) // for transcripts; may be nil
	pulling bool
}

// source is a sender and its receiver at the host.
type source struct {
	*world
	id        int
	sender    *Sender[load]
	receiver  *Receiver[load]
	delivered []int
	gone      map[int]Outcome
	pushed    int
	bytes     units.Bytes // that arrived
	free      units.Time  // when its line has sent the current packet
	armed     bool
	wakes     units.Time // next events of the sender's and the receiver's timer
	ticks     units.Time
	windows   int         // unasked, in this incarnation
	asked     units.Bytes // sent in this incarnation
	created   uint64
	pull      uint16      // last one seen
	pulls     units.Bytes // in MTUs, in this incarnation
}

func newWorld(t rapid.TB, config Config, policy pull.Policy, n int) *world {
	return newCreditWorld(t, config, policy, n, 1)
}

// newCreditWorld returns a world whose PULLs give up to credit MTUs.
func newCreditWorld(t rapid.TB, config Config, policy pull.Policy, n, credit int) *world {
	w := &world{t: t, config: config}
	w.clock = pull.Config{Line: testLine, MTU: config.MTU, Share: pull.DefaultShare, Credit: credit, Policy: policy}
	if err := w.clock.Check(); err != nil {
		t.Fatal(err)
	}
	if err := w.config.Check(); err != nil {
		t.Fatal(err)
	}
	w.pacer = pull.New[*Receiver[load]](&w.clock)
	w.data = func(*source, *eqds.Data, units.Bytes) []trip { return []trip{{delay: 5 * us}} }
	w.control = func(*source, *eqds.Control) []trip { return []trip{{delay: 5 * us}} }
	for i := range n {
		w.add(i)
	}
	return w
}

func (w *world) add(i int) *source {
	s := &source{world: w, id: i, gone: map[int]Outcome{}, wakes: units.Never, ticks: units.Never}
	s.sender = NewSender(&w.config, uint8(i), rand.New(rand.NewPCG(7, uint64(i))), func(p load, o Outcome) {
		if _, twice := s.gone[p.number]; twice || p.sender != s.id || p.number >= s.pushed {
			w.t.Fatalf("%v: the sender has no packet %v, or is rid of it", w.now, p)
		}
		s.gone[p.number] = o
	})
	s.receiver = NewReceiver(&w.config, w.pacer, uint8(i), 0, func(p load) {
		if p.sender != i {
			w.t.Fatalf("a packet of %d comes out of the tunnel of %d", p.sender, i)
		}
		s.delivered = append(s.delivered, p.number)
	})
	w.senders = append(w.senders, s)
	return s
}

func (w *world) at(at units.Time, do func()) {
	w.order++
	heap.Push(&w.queue, event{max(at, w.now), w.order, do})
}

// push gives a sender n packets of a size.
func (s *source) push(n int, size units.Bytes) {
	for range n {
		p := load{s.id, s.pushed}
		s.pushed++
		if x := s.sender; x.IsIdle() && x.phase != Closed && x.config.Backend == NDP && s.now >= x.busy {
			s.windows++
		}
		if !s.sender.Push(s.now, p, size) {
			s.t.Fatalf("a packet of %v is refused", size)
		}
	}
	s.send()
}

// send sends what the line can take.
func (s *source) send() {
	s.check()
	if size := s.sender.NextSize(); size > 0 && !s.armed {
		s.armed = true
		s.at(s.free, func() {
			s.armed = false
			h, p, carry, ok := s.sender.Next(s.now)
			if !ok {
				s.send()
				return
			}
			size := RequestLen
			if carry {
				size = s.sender.sizeOf(h.Seq)
				s.account(size)
			}
			s.free = s.now + testLine.TimeOf(packet.OnWire(size))
			s.fly(h, p, size)
			s.send()
		})
	}
	if timer := s.sender.NextTimer(); timer < s.wakes {
		s.wakes = timer
		s.at(timer, func() {
			if s.wakes == timer {
				s.wakes = units.Never
			}
			if s.sender.NextTimer() <= s.now {
				s.sender.OnTimer(s.now)
			}
			s.send()
		})
	}
}

// account checks that no more is sent than the credit that was asked for, and a window.
func (s *source) account(size units.Bytes) {
	x := s.sender
	if s.created != x.counted.Opened {
		s.created, s.asked, s.windows, s.pulls, s.pull = x.counted.Opened, 0, 1, 0, 0
	}
	s.pulls += units.Bytes(x.pull - s.pull)
	s.pull = x.pull
	s.asked += size
	if maxAsked := units.Bytes(s.windows)*s.config.Window + s.pulls*s.config.MTU; s.asked > maxAsked {
		s.t.Fatalf("%v: %v are sent, with %d windows and %d PULLs", s.now, s.asked, s.windows, s.pulls)
	}
}

// sizeOf returns the size of a packet in flight, for the tests.
func (s *Sender[P]) sizeOf(seq uint16) units.Bytes {
	return units.Bytes(s.sent.At(int(seq - s.una)).size)
}

// fly sends a data packet over the network, as bytes.
func (s *source) fly(h eqds.Data, p load, size units.Bytes) {
	var b [eqds.HeaderLen]byte
	h.EncodeTo(b[:])
	what := fmt.Sprintf("> %-8v %d:%-3d target %d", h.Flags, eqds.EpochOf(h.Seq), h.Seq%eqds.Span, h.Target)
	trips := s.data(s, &h, size)
	if s.seen != nil {
		for _, x := range trips {
			if x.trim {
				what += " trimmed"
			}
		}
		if len(trips) != 1 {
			what += fmt.Sprintf(" x%d", len(trips))
		}
		s.seen(s, what)
	}
	for _, x := range trips {
		s.at(s.now+x.delay, func() {
			var h eqds.Data
			if err := h.Decode(b[:]); err != nil {
				s.t.Fatal(err)
			}
			s.arrive(&h, p, size, x.trim && !h.IsRTS())
		})
	}
}

// arrive gives a data packet to the receiver.
func (s *source) arrive(h *eqds.Data, p load, size units.Bytes, trimmed bool) {
	before := len(s.delivered)
	kept := s.receiver.count
	a := s.receiver.ReceiveData(s.now, h, p, size, trimmed)
	if !trimmed && !h.IsRTS() {
		s.bytes += size
	}
	if came := len(s.delivered) - before + s.receiver.count - kept; h.Flags&^eqds.FlagSYN == 0 && s.receiver.counted.Opened == 1 && a.Kept != (came == 1) {
		s.t.Fatalf("kept %v, and has %d more", a.Kept, came)
	}
	if a.Kept && (trimmed || h.IsRTS()) {
		s.t.Fatal("nothing is kept")
	}
	if a.Send {
		s.reply(a.Control)
	}
	s.settleHost()
}

// reply sends a control packet back.
func (s *source) reply(c eqds.Control) {
	var b [eqds.HeaderLen]byte
	c.EncodeTo(b[:])
	trips := s.control(s, &c)
	if s.seen != nil {
		what := fmt.Sprintf("< %-8v %d:%-3d pull %d", c.Flags, eqds.EpochOf(c.Ack), c.Ack%eqds.Span, c.Pull)
		if c.Busy > 0 {
			what += fmt.Sprintf(" busy %d", c.Busy)
		}
		if len(trips) != 1 {
			what += fmt.Sprintf(" x%d", len(trips))
		}
		s.seen(s, what)
	}
	for _, x := range trips {
		s.at(s.now+x.delay, func() {
			var c eqds.Control
			if err := c.Decode(b[:]); err != nil {
				s.t.Fatal(err)
			}
			s.sender.ReceiveControl(s.now, &c)
			s.send()
		})
	}
}

// settleHost runs the host's timers.
func (w *world) settleHost() {
	if due := w.pacer.NextPull(); due != units.Never && !w.pulling {
		w.pulling = true
		w.at(due, func() {
			w.pulling = false
			if e := w.pacer.Next(w.now); e != nil {
				w.senders[e.Owner.id].reply(e.Owner.TakePull(w.now))
			}
			w.settleHost()
		})
	}
	for _, s := range w.senders {
		if timer := s.receiver.NextTimer(); timer < s.ticks {
			s.ticks = timer
			w.at(timer, func() {
				if s.ticks == timer {
					s.ticks = units.Never
				}
				if s.receiver.NextTimer() <= w.now {
					s.receiver.OnTimer(w.now)
					if c, ok := s.receiver.TakeDelayedAck(w.now); ok {
						s.reply(c)
					}
				}
				w.settleHost()
			})
		}
	}
}

// run runs events until a time, or until there are no more.
func (w *world) run(until units.Time) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = max(w.now, until)
}

// check fails if a sender is in an impossible state.
func (s *source) check() {
	x := s.sender
	wanted := units.Bytes(x.told-x.pull) * s.config.MTU
	if x.credit < 0 || int16(x.told-x.pull) < 0 || x.credit+wanted > s.config.Window {
		s.t.Fatalf("%v: %v of credit and %v asked for are more than a window of %v", s.now, x.credit, wanted, s.config.Window)
	}
	var span, again units.Bytes
	lost, numInFlight := 0, 0
	for i := range x.sent.Len() {
		r := x.sent.At(i)
		span += units.Bytes(r.size)
		switch r.fate {
		case missing:
			if i < x.lostAt {
				s.t.Fatalf("%d is missing before %d", i, x.lostAt)
			}
			lost++
			again += units.Bytes(r.size)
		case inFlight:
			numInFlight++
		}
	}
	queued := x.queued
	if x.queue.Len() < 100 { // summing long ones would take too long
		queued = 0
		for i := range x.queue.Len() {
			queued += units.Bytes(x.queue.At(i).size)
		}
	}
	if span != x.span || again != x.again || lost != x.lost || numInFlight != x.inFlight || queued != x.queued || int(x.nxt-x.una) != x.sent.Len() || span > s.config.Window && x.sent.Len() > 1 {
		s.t.Fatalf("%v: the sender's sums are wrong: %+v", s.now, x)
	}
	if !x.IsIdle() && x.NextSize() == 0 && x.NextTimer() == units.Never {
		s.t.Fatalf("%v: the sender waits for nothing: %+v", s.now, x)
	}
	if x.IsIdle() && (x.NextSize() != 0 || x.NextTimer() != units.Never) {
		s.t.Fatalf("%v: the sender has nothing to do, and does it", s.now)
	}
}

// inOrder reports whether numbers only grow.
func inOrder(numbers []int) bool { return slices.IsSorted(numbers) }
