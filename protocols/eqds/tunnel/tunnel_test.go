package tunnel

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// all checks that a sender's packets arrived, each once and in order, and that the sender
// knows.
func (s *source) all(t testing.TB) {
	t.Helper()
	if len(s.delivered) != s.pushed || !inOrder(s.delivered) || len(s.gone) != s.pushed || !s.sender.IsIdle() {
		t.Fatalf("sender %d: of %d packets %d came, in order: %v; it is rid of %d", s.id, s.pushed, len(s.delivered), inOrder(s.delivered), len(s.gone))
	}
	for n, o := range s.gone {
		if !o.Delivered {
			t.Fatalf("sender %d: packet %d is not acknowledged", s.id, n)
		}
	}
}

// TestCarries: both back ends carry any amount, at 0.99 of the line.
func TestCarries(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		for _, n := range []int{1, 9, 10, 11, 5000} {
			w := newWorld(t, testConfig(b), nil, 1)
			s := w.senders[0]
			s.push(n, testMTU)
			w.run(units.Second / 20)
			s.all(t)
			if k := s.sender.Counters(); k.Resent != 0 || k.Timeouts != 0 || b == NDP && n <= 10 && k.Requests != 0 || b == RTS && k.Requests == 0 {
				t.Errorf("%v, %d packets: %+v", b, n, k)
			}
		}
	}
}

// TestGoodput: in the long run the tunnel has the pacer's rate, with packets of any size,
// whatever the first window was and however much a PULL gives.
func TestGoodput(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		for _, credit := range []int{1, 2, 4, 8} {
			w := newCreditWorld(t, creditConfig(b, credit), nil, 1, credit)
			s := w.senders[0]
			s.push(20000, testMTU)
			w.run(2 * units.Millisecond)
			from := s.bytes
			w.run(12 * units.Millisecond)
			got := float64(s.bytes-from) / float64(testMTU)
			if want := float64(10*units.Millisecond) / float64(w.pacer.PullInterval()); got < want-float64(credit) || got > want+float64(credit) {
				t.Errorf("%v, %d MTUs a PULL: %v packets in 10 ms, want %v", b, credit, got, want)
			}
		}
	}
}

// TestSmallPackets: small packets share the credit of an MTU.
func TestSmallPackets(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		w := newWorld(t, testConfig(b), nil, 1)
		s := w.senders[0]
		s.push(10000, 100)
		w.run(units.Second / 10)
		s.all(t)
		if pulls, maxPulls := s.receiver.Receipts().Pulls, uint64(10000*100/testMTU+2); pulls > maxPulls {
			t.Errorf("%v: %d PULLs for 10000 packets of 100 bytes, want at most %d", b, pulls, maxPulls)
		}
	}
}

// TestFirstWindow: NDP sends one window at once and no more, RTS asks; and again after idle
// time, except while the receiver is busy.
func TestFirstWindow(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		w := newWorld(t, testConfig(b), nil, 1)
		s := w.senders[0]
		sent := 0
		w.data = func(_ *source, h *eqds.Data, _ units.Bytes) []trip {
			if !h.IsRTS() {
				sent++
			}
			return []trip{{delay: 5 * us}}
		}
		count := func() (n int) {
			sent = 0
			s.push(10, testMTU)
			w.run(w.now + 13*us) // ten take 12.3 us, and the answer to the first comes after 11.2 us
			n = sent
			w.run(w.now + units.Millisecond)
			return n
		}
		want := map[Backend]int{NDP: 10, RTS: 1}[b]
		for burst := range 3 {
			if got := count(); b == NDP && got != want || b == RTS && got > 3 {
				t.Errorf("%v, burst %d: %d packets are sent in the first round trip", b, burst, got)
			}
		}
		s.all(t)
		s.sender.busy = w.now + units.Second
		sent = 0
		s.push(10, testMTU)
		w.run(w.now + 9*us)
		if k := s.sender.Counters(); sent != 0 && b == RTS || sent > 0 || k.Requests == 0 {
			t.Errorf("%v: %d packets leave while the receiver is busy, and %d requests", b, sent, k.Requests)
		}
		w.run(w.now + units.Millisecond)
		s.all(t)
	}
}

// TestTrimmed: packets whose payload is cut off are sent again, before new ones, and no
// timeout is needed.
func TestTrimmed(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	s := w.senders[0]
	n := 0
	w.data = func(*source, *eqds.Data, units.Bytes) []trip {
		n++
		return []trip{{delay: 5 * us, trim: n%3 == 0}}
	}
	s.push(1000, testMTU)
	w.run(units.Second / 10)
	s.all(t)
	if k := s.sender.Counters(); k.Timeouts != 0 || k.Trimmed != k.Resent || k.Trimmed == 0 {
		t.Errorf("%+v", k)
	}
	trimmed := uint32(0)
	for _, p := range s.sender.Paths() {
		trimmed += p.Trimmed
	}
	if uint64(trimmed) != s.sender.Counters().Trimmed {
		t.Errorf("%d are trimmed on all paths, of %d", trimmed, s.sender.Counters().Trimmed)
	}
}

// bottleneck is a switch port towards the host: a queue of packets, which trims those that do
// not fit and sends headers first. It decides the fate of packets.
type bottleneck struct {
	*world
	limit, maxWaiting, waiting int
	free                       units.Time
}

func (b *bottleneck) data(_ *source, h *eqds.Data, size units.Bytes) []trip {
	now := b.now + 4*us
	if h.IsRTS() || b.waiting == b.limit {
		return []trip{{delay: 5 * us, trim: true}} // headers are few, and take no time here
	}
	b.waiting++
	b.maxWaiting = max(b.maxWaiting, b.waiting)
	b.free = max(b.free, now) + testLine.TimeOf(packet.OnWire(size))
	b.at(b.free, func() { b.waiting-- })
	return []trip{{delay: b.free - b.now}}
}

// TestIncast: many senders share a receiver's link evenly over a queue of 15 packets, and no
// PULL is lost on any of them. The packets of a PULL arrive as fast as the link takes them, so
// that PULLs of several MTUs keep the queue as short.
func TestIncast(t *testing.T) {
	for _, credit := range []int{1, 8} {
		for _, b := range []Backend{NDP, RTS} {
			incast(t, b, credit)
		}
	}
}

// incast makes 100 senders send to a host.
func incast(t *testing.T, b Backend, credit int) {
	w := newCreditWorld(t, creditConfig(b, credit), nil, 100, credit)
	q := &bottleneck{world: w, limit: 15}
	w.data = q.data
	for _, s := range w.senders {
		s.push(400, testMTU)
	}
	w.run(5 * units.Millisecond)
	before := make([]units.Bytes, len(w.senders))
	for i, s := range w.senders {
		before[i] = s.bytes
	}
	q.maxWaiting = 0
	w.run(25 * units.Millisecond)
	low, high, sum := units.Bytes(1<<60), units.Bytes(0), units.Bytes(0)
	for i, s := range w.senders {
		got := s.bytes - before[i]
		low, high, sum = min(low, got), max(high, got), sum+got
	}
	if goodput := float64(sum*8) / 0.02; goodput < 0.96*float64(testLine) {
		t.Errorf("%v: %.3g b/s come", b, goodput)
	}
	if high-low > units.Bytes(4+credit)*testMTU {
		t.Errorf("%v: some get %v, others %v", b, low, high)
	}
	t.Logf("%v, %d MTUs a PULL: %.3g b/s, %d packets in the queue, %v to %v for each", b, credit, float64(sum*8)/0.02, q.maxWaiting, low, high)
	if q.maxWaiting > 15 {
		t.Errorf("%v: %d packets in the queue", b, q.maxWaiting)
	}
	w.run(units.Second)
	for _, s := range w.senders {
		s.all(t)
	}
}

// TestLost: without trimming, timeouts recover what is lost, in both directions.
func TestLost(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		w := newWorld(t, testConfig(b), nil, 3)
		n := 0
		lossy := func() []trip {
			if n++; n%17 == 0 || n%23 == 0 {
				return nil
			}
			return []trip{{delay: 5 * us}}
		}
		w.data = func(*source, *eqds.Data, units.Bytes) []trip { return lossy() }
		w.control = func(*source, *eqds.Control) []trip { return lossy() }
		for _, s := range w.senders {
			s.push(2000, testMTU)
		}
		w.run(10 * units.Second)
		for _, s := range w.senders {
			s.all(t)
			if s.sender.Counters().Reopened != 0 {
				t.Errorf("%v: %+v", b, s.sender.Counters())
			}
		}
	}
}

// TestSpraying: paths of different lengths reorder packets, and the receiver restores the
// order; the sender knows the latency of each path.
func TestSpraying(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	w.config.AckDelay = 0 // it is part of what the sender measures
	s := w.senders[0]
	w.data = func(_ *source, h *eqds.Data, _ units.Bytes) []trip {
		return []trip{{delay: units.Time(5+h.Path%4) * us}}
	}
	s.push(3000, testMTU)
	w.run(units.Second / 10)
	s.all(t)
	if s.receiver.Receipts().Overtaken == 0 || s.sender.Counters().Resent != 0 {
		t.Errorf("%+v, %+v", s.receiver.Receipts(), s.sender.Counters())
	}
	for id, p := range s.sender.Paths() {
		if want := units.Time(10+id%4) * us; p.Latency != want || p.Sent < 3000/16-1 || p.Lost+p.Trimmed != 0 {
			t.Errorf("path %d: %+v, want a latency of %v", id, p, want)
		}
	}
}

// TestReorderQueue: the receiver skips a packet that does not arrive, a new incarnation
// releases packets that wait, and packets that do not fit into a window are refused.
func TestReorderQueue(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	s := w.senders[0]
	s.pushed = 100
	data := func(e eqds.Epoch, number int, size units.Bytes) Answer {
		h := eqds.Data{Flags: eqds.FlagSYN, Next: eqds.NextIPv4, Seq: e.First() + uint16(number)}
		return s.receiver.ReceiveData(w.now, &h, load{0, number}, size, false)
	}
	came := func(want ...int) {
		t.Helper()
		if !slices.Equal(s.delivered, want) {
			t.Fatalf("%v came, want %v", s.delivered, want)
		}
	}
	for _, n := range []int{0, 2, 3, 6} {
		if a := data(1, n, testMTU); !a.Kept || !a.Send || a.Control.Flags.Has(eqds.FlagACK) != (n == 0) {
			t.Errorf("packet %d: %+v", n, a)
		}
	}
	came(0)
	if a := data(1, 3, testMTU); a.Kept || !a.Control.Flags.Has(eqds.FlagSACK) {
		t.Errorf("a copy of one that waits: %+v", a)
	}
	w.now = s.receiver.NextTimer()
	s.receiver.OnTimer(w.now)
	came(0, 2, 3)
	if w.now != w.config.Reorder || s.receiver.NextTimer() != 2*w.config.Reorder {
		t.Errorf("a hole is skipped at %v, the next at %v", w.now, s.receiver.NextTimer())
	}
	if a := data(1, 1, testMTU); a.Kept || !a.Control.Flags.Has(eqds.FlagACK) {
		t.Errorf("one that was given up: %+v", a)
	}
	for n := 8; n < 17; n++ {
		if a := data(1, n, testMTU); !a.Kept {
			t.Fatalf("packet %d does not fit: %+v", n, a)
		}
	}
	if a := data(1, 17, testMTU); a.Kept || !a.Control.Flags.Has(eqds.FlagNACK) {
		t.Errorf("one beyond the window: %+v", a)
	}
	if packets, bytes := s.receiver.ReorderQueue(); packets != 10 || bytes != w.config.Window {
		t.Errorf("%d packets wait, %v", packets, bytes)
	}
	data(2, 0, testMTU)
	came(0, 2, 3, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0)
	if s.receiver.NextTimer() != units.Never || s.receiver.Receipts().Holes != 1 {
		t.Errorf("%+v", s.receiver.Receipts())
	}
}

// TestSilentPeer: packets that wait for an absent receiver are dropped, and the next packet
// tries again.
func TestSilentPeer(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		w := newWorld(t, testConfig(b), nil, 1)
		s := w.senders[0]
		works := w.data
		w.data = func(*source, *eqds.Data, units.Bytes) []trip { return nil }
		s.push(100, testMTU)
		w.run(3 * units.Second)
		if len(s.gone) != 100 || s.sender.Phase() != Closed || s.sender.Counters().GivenUp != 100 || len(w.queue) != 0 {
			t.Errorf("%v: %d packets dropped, %v, %d events to come, %+v", b, len(s.gone), s.sender.Phase(), len(w.queue), s.sender.Counters())
		}
		if k := s.sender.Counters(); k.Packets+k.Requests > 300 {
			t.Errorf("%v: into the void: %+v", b, k)
		}
		w.data = works
		s.push(100, testMTU)
		w.run(4 * units.Second)
		if len(s.delivered) != 100 || !s.sender.IsIdle() {
			t.Errorf("%v: %d packets come later", b, len(s.delivered))
		}
	}
}

// TestClose: an idle sender tells the receiver that it closes, and both start over.
func TestClose(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	s := w.senders[0]
	if _, ok := s.sender.Close(); ok {
		t.Error("a closed sender is closed")
	}
	s.push(5, testMTU)
	if _, ok := s.sender.Close(); ok {
		t.Error("a sender is closed over its packets")
	}
	w.run(units.Millisecond)
	epoch := s.sender.Epoch()
	h, ok := s.sender.Close()
	if !ok || s.sender.Phase() != Closed {
		t.Fatal("an idle sender is not closed")
	}
	s.fly(h, load{}, RequestLen)
	w.run(2 * units.Millisecond)
	if s.receiver.Open() {
		t.Error("the receiver is open still")
	}
	s.push(5, testMTU)
	w.run(3 * units.Millisecond)
	s.all(t)
	if s.sender.Epoch() != epoch.Next() {
		t.Errorf("after epoch %d comes %d", epoch, s.sender.Epoch())
	}
	c, ok := s.receiver.Close()
	if !ok || s.receiver.Open() {
		t.Fatal("an open receiver is not closed")
	}
	s.reply(c)
	w.run(4 * units.Millisecond)
	if s.sender.Phase() != Closed {
		t.Errorf("an idle sender whose receiver has closed is %v", s.sender.Phase())
	}
}

// TestRefuses: packets that no credit could pay for are refused.
func TestRefuses(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	for _, size := range []units.Bytes{testMTU + 1, 0, -1} {
		if w.senders[0].sender.Push(0, load{}, size) {
			t.Errorf("a packet of %v bytes is taken", size)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, line := range []units.Rate{0, 10 * units.Mbps, 10 * units.Gbps, 400 * units.Gbps} {
		c := Default(line, testMTU, 10*us, 1)
		if err := c.Check(); err != nil {
			t.Errorf("%v: %v", line, err)
		}
	}
	for name, change := range map[string]func(c *Config){
		"mtu": func(c *Config) { c.MTU = 20 }, "window": func(c *Config) { c.Window = c.MTU }, "wide": func(c *Config) { c.Window = 513 * c.MTU },
		"paths": func(c *Config) { c.Paths = 3 }, "many": func(c *Config) { c.Paths = 512 }, "rto": func(c *Config) { c.RTO = 0 },
		"max": func(c *Config) { c.MaxRTO = c.RTO - 1 }, "timeouts": func(c *Config) { c.Timeouts = 0 }, "give-up": func(c *Config) { c.GiveUp = 0 },
		"reorder": func(c *Config) { c.Reorder = 0 },
	} {
		c := testConfig(NDP)
		change(&c)
		if c.Check() == nil {
			t.Errorf("%s: it passes", name)
		}
	}
}

// TestAcksGoWithPulls: while a sender is pulled, the receiver's acknowledgements go with the
// PULLs; those that no PULL followed go alone, and trimmed packets are reported at once. With
// PULLs of several MTUs there are as many times fewer control packets.
func TestAcksGoWithPulls(t *testing.T) {
	packets := func(credit int, merge bool) (controls int) {
		w := newCreditWorld(t, creditConfig(NDP, credit), nil, 1, credit)
		if !merge {
			w.config.AckDelay = 0
		}
		s := w.senders[0]
		s.push(1000, testMTU)
		plain := w.control
		w.control = func(x *source, c *eqds.Control) []trip {
			controls++
			return plain(x, c)
		}
		w.run(units.Second)
		s.all(t)
		return controls
	}
	for _, c := range []struct {
		credit    int
		merge     bool
		low, high int
	}{{1, true, 950, 1050}, {1, false, 1900, 2000}, {4, true, 250, 280}, {8, true, 125, 145}, {8, false, 1100, 1200}} {
		if n := packets(c.credit, c.merge); n < c.low || n > c.high {
			t.Errorf("%d MTUs a PULL, merged %v: %d control packets for 1000 of data, want %d to %d", c.credit, c.merge, n, c.low, c.high)
		}
	}
}

// TestAcksGather: with PULLs of several MTUs, packets that arrive in order and for which no
// PULL follows are acknowledged together, at the latest after AckDelay; a copy is answered at
// once. The sender takes its RTT sample from the last of them.
func TestAcksGather(t *testing.T) {
	w := newCreditWorld(t, creditConfig(NDP, 4), nil, 1, 4)
	s := w.senders[0]
	s.push(1, testMTU)
	w.run(100 * us)
	type ack struct {
		at     units.Time
		number uint16
	}
	var acks []ack
	plain := w.control
	w.control = func(x *source, c *eqds.Control) []trip {
		if !c.Flags.Has(eqds.FlagACK) {
			t.Errorf("%v", c.Flags)
		}
		acks = append(acks, ack{w.now - 100*us, c.Ack - s.sender.Epoch().First()})
		return plain(x, c)
	}
	took := testLine.TimeOf(packet.OnWire(testMTU))
	s.push(6, testMTU)
	w.run(200 * us)
	want := []ack{{5*us + 3*took, 4}, {5*us + 4*took + w.config.AckDelay, 6}}
	if !slices.Equal(acks, want) {
		t.Errorf("acknowledged are %v, want %v", acks, want)
	}
	for n, o := range s.gone {
		if last := n == 4 || n == 6; (o.RTT > 0) != (last || n == 0) || n == 4 && o.RTT != 10*us {
			t.Errorf("packet %d: %+v", n, o)
		}
	}
	acks = nil
	again := eqds.Data{Next: eqds.NextIPv4, Seq: s.sender.Epoch().First() + 6}
	s.fly(again, load{0, 6}, testMTU)
	w.run(300 * us)
	if want := []ack{{105 * us, 6}}; !slices.Equal(acks, want) {
		t.Errorf("a copy is acknowledged at %v, want %v", acks, want)
	}
	s.all(t)
}

// TestHolesWithCredit: an acknowledgement of everything so far makes a waiting SACK unnecessary
// if PULLs give several MTUs.
func TestHolesWithCredit(t *testing.T) {
	for _, credit := range []int{1, 4} {
		w := newCreditWorld(t, creditConfig(NDP, credit), nil, 1, credit)
		s := w.senders[0]
		n, sacks := 0, 0
		w.data = func(*source, *eqds.Data, units.Bytes) []trip {
			if n++; n%10 == 0 {
				return []trip{{delay: 7 * us}}
			}
			return []trip{{delay: 5 * us}}
		}
		plain := w.control
		w.control = func(x *source, c *eqds.Control) []trip {
			if c.Flags.Has(eqds.FlagSACK) {
				sacks++
			}
			return plain(x, c)
		}
		s.push(1000, testMTU)
		w.run(units.Second / 10)
		s.all(t)
		overtaken := int(s.receiver.Receipts().Overtaken)
		if s.sender.Counters().Resent != 0 || overtaken < 90 || credit == 1 && sacks < overtaken-5 || credit > 1 && sacks > overtaken*2/3 {
			t.Errorf("%d MTUs a PULL: %d packets were overtaken, %d SACKs, %+v", credit, overtaken, sacks, s.sender.Counters())
		}
	}
}
