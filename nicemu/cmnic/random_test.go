package cmnic

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// TestConnections_AgreeOverAnUnreliableChannel connects two CMs by a channel that loses, duplicates
// and reorders, and whose delays are within the packet lifetime, with consumers that take their
// time and change their minds. Then the channel becomes reliable.
//
//   - Private data arrives as it was sent, and each request and reply once.
//   - Either both are connected, with the same parameters, or neither is.
//   - Services of datagrams are resolved to the right queue pair, or the consumer
//     learns that there is no answer.
//   - When all are closed and TimeWait is over, nothing is left.
func TestConnections_AgreeOverAnUnreliableChannel(t *testing.T) {
	all := outcomes{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for i := range rapid.IntRange(1, 5).Draw(t, "connections") {
			w.after(w.random(2*units.Second), func() { w.connect(i) })
			w.after(w.random(2*units.Second), func() { w.resolve(i) })
		}
		w.run(rapid.SampledFrom([]units.Time{units.Second, 5 * units.Second, 20 * units.Second}).Draw(t, "unsound"))
		w.loss, w.twice = 0, 0
		w.run(w.now + 30*units.Second)
		all.add(w.judge())
		w.close()
	})
	t.Logf("%+v", all)
}

// TestConnections_EndAsTheChannelAndTheConsumersWill: consumers that want to be connected are, over
// a channel without loss, until one hangs up; over a channel that loses everything they are not.
func TestConnections_EndAsTheChannelAndTheConsumersWill(t *testing.T) {
	for name, c := range map[string]struct {
		loss   float64
		hangUp bool
		want   outcomes
	}{
		"no loss":           {want: outcomes{connected: 3, resolved: 3}},
		"one side hangs up": {hangUp: true, want: outcomes{ended: 3, resolved: 3}},
		"dead channel":      {loss: 1, want: outcomes{failed: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, [2]Config{DefaultConfig(1), DefaultConfig(2)}, 10)
			w.steady, w.loss, w.delay = true, c.loss, units.Millisecond
			for i := range 3 {
				w.connect(i)
				w.resolve(i)
			}
			w.run(units.Minute)
			for _, s := range w.sides {
				if c.hangUp && s.up() {
					w.disconnect(s)
					w.run(w.now + units.Second)
				}
			}
			if got := w.judge(); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			w.close()
		})
	}
}

// outcomes counts what connections and resolutions have come to.
type outcomes struct{ connected, ended, failed, resolved int }

func (o *outcomes) add(more outcomes) {
	o.connected += more.connected
	o.ended += more.ended
	o.failed += more.failed
	o.resolved += more.resolved
}

// world holds the two CMs, their channel and their consumers.
type world struct {
	t           rapid.TB
	rand        *rand.Rand
	steady      bool // consumers accept everything and do not change their minds
	now         units.Time
	a, b        *end
	loss, twice float64
	delay       units.Time
	closing     bool
	tasks       tasks
	seq         int
	sides       []*side          // of all connections, in order of creation
	byID        map[string]*side // by end and ID
	seen        map[string]bool  // requests and replies by private data
	qpn         uint32
	resolved    int
	asked       map[string]uint32 // the right queue pairs of resolutions, by end and ID
}

// side is a connection as a consumer sees it.
type side struct {
	end        *end
	id         msg.CommID
	name       string
	other      *side
	active     bool
	attributes Attributes
	qpn, psn   uint32
	live       bool // the queue pair takes packets
	ready      bool // the consumer considers it connected
	was        bool // it was
	over       bool
	missed     int // unacknowledged packets in a row
}

func (s *side) up() bool { return s != nil && s.ready && !s.over }

// newWorld makes two CMs whose services have a backlog, joined by a channel without faults.
func newWorld(t rapid.TB, seed uint64, configs [2]Config, backlog int) *world {
	w := &world{t: t, byID: map[string]*side{}, seen: map[string]bool{}, qpn: 100, asked: map[string]uint32{}}
	w.rand = rand.New(rand.NewPCG(seed, 0))
	var ends [2]*end
	for i, config := range configs {
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = &end{c, string(rune('a' + i)), netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}
		for _, datagram := range []bool{false, true} {
			if _, err := c.Listen(Listen{Service: service7, Datagram: datagram, Backlog: backlog}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.a, w.b = ends[0], ends[1]
	return w
}

// drawWorld draws a world with faults.
func drawWorld(t *rapid.T) *world {
	var configs [2]Config
	for i := range configs {
		configs[i] = Config{
			CAGUID: uint64(i + 1), FirstID: 1, ResponseTimeout: msg.Timeout(rapid.IntRange(8, 14).Draw(t, "response timeout")), // 1 to 67 ms
			MaxRetries: uint8(rapid.IntRange(0, 15).Draw(t, "retries")), PacketLifetime: 10, ACKDelay: 5,
		}
	}
	w := newWorld(t, rapid.Uint64().Draw(t, "seed"), configs, rapid.IntRange(0, 2).Draw(t, "backlog"))
	w.loss = rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.8, 1}).Draw(t, "loss")
	w.twice = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "twice")
	w.delay = msg.Timeout(rapid.IntRange(0, 10).Draw(t, "delay")).Time()
	return w
}

const service7 = msg.ServiceID(0x1060007)

// whim reports whether a consumer changes its mind, once in n times.
func (w *world) whim(n int) bool { return !w.steady && w.rand.IntN(n) == 0 }

func (w *world) random(span units.Time) units.Time { return units.Time(w.rand.Int64N(int64(span))) }

// think returns the time that a consumer takes, usually short.
func (w *world) think() units.Time {
	return w.random([]units.Time{10 * units.Microsecond, 10 * units.Millisecond, 2 * units.Second}[w.rand.IntN(3)])
}

func (w *world) after(d units.Time, do func()) {
	w.seq++
	heap.Push(&w.tasks, task{w.now + d, w.seq, do})
}

func (w *world) run(until units.Time) {
	for {
		next := min(w.a.NextWork(), w.b.NextWork())
		if len(w.tasks) > 0 {
			next = min(next, w.tasks[0].at)
		}
		if next >= until {
			if until != units.Never {
				w.now = until
			}
			return
		}
		w.now = next
		for _, e := range []*end{w.a, w.b} {
			e.DoDueWork(w.now)
			w.take(e)
		}
		if len(w.tasks) > 0 && w.tasks[0].at <= w.now {
			heap.Pop(&w.tasks).(task).do()
			w.take(w.a)
			w.take(w.b)
		}
	}
}

// carry calls do at the other end of the channel once, twice or not at all.
func (w *world) carry(do func()) {
	for range 2 {
		if w.rand.Float64() >= w.loss {
			w.after(w.random(w.delay), do)
		}
		if w.rand.Float64() >= w.twice {
			return
		}
	}
}

func (w *world) take(e *end) {
	sends, events := e.TakeOutput()
	for _, s := range sends {
		b := make([]byte, msg.MADLen)
		s.EncodeTo(b)
		w.carry(func() {
			to := w.a
			if w.b.addr == s.To {
				to = w.b
			}
			to.Receive(w.now, s.From, s.To, b)
		})
	}
	for _, x := range events {
		w.event(e, x)
	}
}

func key(e *end, id msg.CommID) string { return fmt.Sprint(e.name, id) }

func (w *world) add(s *side) *side {
	s.psn = uint32(w.rand.IntN(1 << 24))
	s.qpn = w.qpn
	w.qpn++
	w.sides = append(w.sides, s)
	return s
}

func (w *world) connect(i int) {
	from, to := w.a, w.b
	if w.rand.IntN(2) == 0 {
		from, to = to, from
	}
	s := w.add(&side{end: from, active: true, name: fmt.Sprint("connection ", i)})
	id, err := from.Connect(w.now, Connect{
		Service: service7, Local: netip.AddrPortFrom(from.addr, uint16(1000+i)), Peer: to.addr, QP: QP{Number: s.qpn, StartPSN: s.psn}, PathMTU: msg.MTU2048,
		RetryCount: 3, RNRRetryCount: 4, ResponderResources: uint8(w.rand.IntN(17)), InitiatorDepth: uint8(w.rand.IntN(17)), HopLimit: 64, PrivateData: []byte(s.name),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s.id = id
	w.byID[key(from, id)] = s
	if w.whim(10) {
		w.after(w.think(), func() { w.destroy(s) })
	}
}

// resolve asks a for the queue pair of a service of b's.
func (w *world) resolve(i int) {
	id, err := w.a.Resolve(w.now, Resolve{Service: service7, Local: netip.AddrPortFrom(w.a.addr, uint16(1000+i)), Peer: w.b.addr, PrivateData: []byte{1, byte(i)}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.asked[key(w.a, id)] = 500 + uint32(i)
}

// resolution handles an event of a service of datagrams.
func (w *world) resolution(e *end, x Event) {
	if x.Kind == ResolveRequested {
		i := x.PrivateData[1]
		w.after(w.think(), func() {
			if err := e.AnswerResolution(w.now, x.ID, Answer{QPN: 500 + uint32(i), QKey: 9, PrivateData: []byte{2, i}}); err != nil {
				w.t.Fatal(err)
			}
		})
		return
	}
	qpn, ok := w.asked[key(e, x.ID)]
	if !ok || x.Kind == Resolved && (x.Status != msg.SIDRValid || x.QPN != qpn || x.QKey != 9 || x.PrivateData[1] != byte(qpn-500)) {
		w.t.Fatalf("%s gets %s, the queue pair is %d", e.name, describeEvent(&x), qpn)
	}
	delete(w.asked, key(e, x.ID))
	if x.Kind == Resolved {
		w.resolved++
	}
}

func (w *world) destroy(s *side) {
	if s.over {
		return
	}
	if err := s.end.Destroy(w.now, s.id); err != nil {
		w.t.Fatal(err)
	}
	s.over, s.live, s.ready = true, false, false
}

func (w *world) disconnect(s *side) {
	if s.over {
		return
	}
	if err := s.end.Disconnect(w.now, s.id, nil); err != nil {
		w.t.Fatal(err)
	}
	s.live, s.ready = false, false
	if s.end.State(s.id) == TimeWait {
		s.over = true
	}
}

// text returns private data as it was given; the rest must be zero.
func (w *world) text(b []byte) string {
	s := bytes.TrimRight(b, "\x00")
	return string(s)
}

// once checks that private data arrives once.
func (w *world) once(s string) {
	if w.seen[s] {
		w.t.Fatalf("%s has come twice", s)
	}
	w.seen[s] = true
}

func (w *world) event(e *end, x Event) {
	s := w.byID[key(e, x.ID)]
	if _, asked := w.asked[key(e, x.ID)]; asked || x.Kind == ResolveRequested {
		w.resolution(e, x)
		return
	}
	if x.Kind == Requested {
		name := w.text(x.PrivateData)
		w.once("the request of " + name)
		s = w.add(&side{end: e, id: x.ID, name: name})
		w.byID[key(e, x.ID)] = s
		for _, o := range w.sides {
			if o.active && o.name == name {
				s.other, o.other = o, s
			}
		}
		if s.other == nil {
			w.t.Fatalf("a request of %q, which nobody has sent", name)
		}
		s.attributes = x.Attributes
		w.after(w.think(), func() { w.decide(s) })
		return
	}
	if s == nil || s.over && x.Kind != TimeWaitExit {
		w.t.Fatalf("%s gets %s", e.name, describeEvent(&x))
	}
	switch x.Kind {
	case Replied:
		if got, want := w.text(x.PrivateData), "reply to "+s.name; got != want {
			w.t.Fatalf("the private data of a reply is %q, not %q", got, want)
		}
		w.once("the reply to " + s.name)
		s.attributes, s.live = x.Attributes, true
		w.after(w.think(), func() { w.decide(s) })
	case Connected:
		w.connected(s)
	case Rejected, Unreachable, Disconnected:
		s.over, s.live, s.ready = true, false, false
	case DisconnectRequested:
		s.live, s.ready = false, false
		w.after(w.think(), func() { w.disconnect(s) })
	}
}

// decide makes a consumer's answer to a request or a reply.
func (w *world) decide(s *side) {
	state := s.end.State(s.id)
	if s.over || state == DREQRcvd {
		return
	}
	var err error
	switch {
	case w.whim(20):
		w.destroy(s)
	case w.whim(20):
		err = s.end.Reject(w.now, s.id, Reject{})
		s.over, s.live = true, false
	case w.whim(5):
		err = s.end.ProlongTimeout(s.id, msg.Timeout(w.rand.IntN(20)), nil)
		w.after(w.think(), func() { w.decide(s) })
	case s.active:
		err = s.end.Confirm(s.id, nil)
		w.connected(s)
	default:
		s.attributes, err = s.end.Accept(w.now, s.id, Accept{
			QP: QP{Number: s.qpn, StartPSN: s.psn}, ResponderResources: uint8(w.rand.IntN(17)), InitiatorDepth: uint8(w.rand.IntN(17)),
			RNRRetryCount: 2, PrivateData: []byte("reply to " + s.name),
		})
		s.live = true
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) connected(s *side) {
	s.ready, s.was = true, true
	w.ping(s)
	if !w.closing && w.whim(4) {
		w.after(5*w.think(), func() {
			if s.up() {
				w.disconnect(s)
			}
		})
	}
}

// ping sends traffic on the queue pair. It establishes the passive side, and after several failures
// the queue pair is in error, and the consumer disconnects.
func (w *world) ping(s *side) {
	if !s.up() || w.closing {
		return
	}
	if s.missed == 8 {
		w.disconnect(s)
		return
	}
	s.missed++
	w.carry(func() {
		o := s.other
		if !o.live {
			return
		}
		if !o.active && o.end.State(o.id) != Established {
			if err := o.end.Established(o.id); err != nil {
				w.t.Fatal(err)
			}
			w.take(o.end)
		}
		w.carry(func() { s.missed = 0 })
	})
	w.after(100*units.Millisecond, func() { w.ping(s) })
}

// judge checks connections when everything is idle.
func (w *world) judge() (all outcomes) {
	all.resolved = w.resolved
	for _, s := range w.sides {
		if !s.active {
			continue
		}
		o := s.other
		if s.up() != o.up() {
			w.t.Fatalf("%s: the active side is connected: %v, the passive one: %v", s.name, s.up(), o.up())
		}
		switch {
		case s.up():
			all.connected++
			w.agree(s, o)
		case s.was:
			all.ended++
		default:
			all.failed++
		}
	}
	return all
}

// close ends all connections and checks that nothing is left.
func (w *world) close() {
	w.closing = true
	for _, s := range w.sides {
		if s.up() {
			w.disconnect(s)
		}
	}
	w.run(units.Never)
	for _, e := range []*end{w.a, w.b} {
		if e.Len() != 0 || len(e.peers) != 0 || len(e.queues) != 0 || len(e.resolving) != 0 || len(e.timers) != 0 {
			w.t.Fatalf("%s: there are left %d connections, %d peers, %d queue pairs, %d resolutions, %d timers", e.name, e.Len(), len(e.peers), len(e.queues), len(e.resolving), len(e.timers))
		}
		for _, l := range e.listeners {
			if l.waiting != 0 {
				w.t.Fatalf("%s: the backlog has %d requests left", e.name, l.waiting)
			}
		}
	}
	if len(w.asked) != 0 {
		w.t.Fatalf("%d resolutions have not ended", len(w.asked))
	}
	for _, s := range w.sides {
		if !s.over {
			w.t.Fatalf("%v of %s has not learnt of its end", s.name, s.end.name)
		}
	}
}

// agree checks that both sides have the same parameters.
func (w *world) agree(s, o *side) {
	a, b := s.attributes, o.attributes
	if a.PeerQPN != o.qpn || b.PeerQPN != s.qpn || a.RQPSN != s.psn || b.RQPSN != o.psn || a.SQPSN != o.psn || b.SQPSN != s.psn ||
		a.PathMTU != b.PathMTU || a.MaxRDAtomic != b.MaxDestRDAtomic || b.MaxRDAtomic != a.MaxDestRDAtomic || a.FlowLabel != b.FlowLabel ||
		a.RetryCount != 3 || b.RetryCount != 3 || a.RNRRetryCount != 2 || b.RNRRetryCount != 4 || a.Local != b.Peer || a.Peer != b.Local || a.Transport != b.Transport {
		w.t.Fatalf("%s: %+v and %+v", s.name, a, b)
	}
}

// task is a call at a certain time; tasks is a heap of them.
type task struct {
	at  units.Time
	seq int
	do  func()
}

type tasks []task

func (t tasks) Len() int { return len(t) }
func (t tasks) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}
func (t tasks) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *tasks) Push(x any)   { *t = append(*t, x.(task)) }
func (t *tasks) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}
