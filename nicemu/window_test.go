package nicemu

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestWindowSurvivesLoss loses the first packet of a full window: it is sent
// again though the window is full.
func TestWindowSurvivesLoss(t *testing.T) {
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{window: 4096} }))
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	lost := false
	w.touch = func(from int, p *packet.Packet) bool {
		keep := from == 1 || lost
		lost = lost || from == 0
		return keep
	}
	w.write(a, b, x, 20*1024)
	w.run(units.Second)
	if got := a.poll(); len(got) != 1 || got[0].Status != cq.Success {
		t.Errorf("the WRITE completed as %+v", got)
	}
}

// TestWindowAsks: without loss, a window below the distance between packets that
// ask for an acknowledgement holds nothing up until a timeout.
func TestWindowAsks(t *testing.T) {
	for _, window := range []units.Bytes{1, 1024, 3000, 10 * 1024} {
		w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{window: window} }))
		a, b := w.host(0), w.host(1)
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		w.write(a, b, x, 60*1024)
		w.run(60 * 4 * units.Microsecond) // 60 round trips; the local ACK timeout is 17 ms
		if got := a.poll(); len(got) != 1 || got[0].Status != cq.Success {
			t.Errorf("window %v: completed as %+v", window, got)
		}
		if c, _ := x.Counters(); c.Retransmitted != 0 || len(w.departures(0, y.Number())) != 60 {
			t.Errorf("window %v: %d packets left, %d of them again", window, len(w.departures(0, y.Number())), c.Retransmitted)
		}
	}
}

// opens is a rate control whose window is small until some time after the first packet and large
// from then on.
type opens struct {
	cc.NopControl
	after, at units.Time
	open      bool
}

func (c *opens) OnPacketSent(now units.Time, _ units.Bytes) {
	if c.at == 0 {
		c.at = now + c.after
	}
}

func (c *opens) OnTimer(now units.Time) { c.open = c.open || now >= c.NextTimer() }

func (c *opens) NextTimer() units.Time {
	if c.open || c.at == 0 {
		return units.Never
	}
	return c.at
}

func (c *opens) Window() units.Bytes {
	if c.open {
		return units.MB
	}
	return 1024
}

// TestWindowOpensByTime: if a rate control opens its window at a given time, it takes effect then,
// not when the next acknowledgement arrives.
func TestWindowOpensByTime(t *testing.T) {
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &opens{after: 50 * units.Microsecond} }))
	w.delay = units.Millisecond
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 20*1024)
	w.run(units.Millisecond)
	if at := w.departures(0, y.Number()); len(at) != 20 || at[1] != 50*units.Microsecond {
		t.Errorf("packets left at %v", at)
	}
}

// TestWindowLeavesResponses: responses to the peer's READ do not wait for the
// window of requests.
func TestWindowLeavesResponses(t *testing.T) {
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{window: 1024} }))
	w.delay = 100 * units.Microsecond
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, b, x, 20*1024)
	post(t, y, transport.SendWR{Op: transport.Read, SGL: []memory.SGE{b.mr.SGE(0, 20*1024)}, RemoteVA: a.mr.Addr(0), RKey: a.mr.RKey()})
	w.run(300 * units.Microsecond)
	if got := b.poll(); len(got) != 1 || got[0].Status != cq.Success {
		t.Errorf("after a round trip the READ has completed as %+v", got)
	}
}

// breathing is a rate control whose window changes at random: as time passes, and
// with acknowledgements.
type breathing struct {
	cc.NopControl
	rand           *rand.Rand
	sizes          []units.Bytes
	every          units.Time // the longest time between changes; 0 for none by time
	next           units.Time
	window, before units.Bytes // before changed
	changed        units.Time
}

func (c *breathing) change(now units.Time) {
	if now != c.changed {
		c.before = c.window
	}
	c.window, c.changed = c.sizes[c.rand.IntN(len(c.sizes))], now
}

func (c *breathing) OnAck(now units.Time, _ *cc.Ack) { c.change(now) }

func (c *breathing) OnTimer(now units.Time) {
	for c.next <= now {
		c.change(now)
		c.next += 1 + units.Time(c.rand.Int64N(int64(c.every)))
	}
}

func (c *breathing) NextTimer() units.Time {
	if c.every == 0 {
		return units.Never
	}
	return c.next
}

func (c *breathing) Window() units.Bytes { return c.window }

// allows returns the window at now; if it changed at this very time, the larger one. 0 means no
// limit.
func (c *breathing) allows(now units.Time) units.Bytes {
	if now == c.changed && (c.before == 0 || c.window != 0 && c.before > c.window) {
		return c.before
	}
	return c.window
}

// windowed is one side of TestWindowModel.
type windowed struct {
	*host
	qp      *QP
	control *breathing
	peer    *windowed

	ids      uint64
	posted   []transport.SendWR
	wants    [][]byte // data that each delivers to its destination: nil for READs and atomics
	added    uint64   // by FETCH ADDs and COMPARE SWAPs to the peer's counter
	receives []units.Bytes
	got      []cq.Completion

	highest uint32 // after the newest PSN seen
	sizes   map[uint32]units.Bytes
	lost    map[uint32]int // by PSN: how often its packet, or the answer to it, was lost
	row     int            // answers lost since the last that was not
}

const (
	windowMTU  = 256
	windowArea = 1 << 15 // the first half of a region is the side's own, the second its peer's
)

// TestWindowModel: whatever window a rate control sets, and however it changes, every message of a
// reliable connection completes once and is correct, over channels with and without loss, however
// rarely an acknowledgement is requested. Without loss there is no timeout. Nothing new is sent
// beyond the window except for a single packet.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		sizes := rapid.SliceOfN(rapid.SampledFrom([]units.Bytes{
			1, 100, windowMTU - 1, windowMTU, windowMTU + 1, 2 * windowMTU, 3*windowMTU + 7, 20 * windowMTU, 100 * windowMTU, units.MB, 0,
		}), 1, 4).Draw(t, "windows")
		every := rapid.SampledFrom([]units.Time{0, units.Microsecond, 20 * units.Microsecond, 500 * units.Microsecond}).Draw(t, "change every")
		ask := rapid.SampledFrom([]int{0, 1, 2, 5, 64, 100_000}).Draw(t, "ask every")
		ack := rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "ack every")
		loss := [2]float64{}
		for i := range loss {
			loss[i] = rapid.SampledFrom([]float64{0, 0, 0.02, 0.2, 0.6}).Draw(t, "loss")
		}
		lossless := loss == [2]float64{}
		var controls []*breathing
		w := newWorld(t, 2, withControl(func(units.Rate) cc.Control {
			c := &breathing{rand: random, sizes: sizes, every: every}
			c.change(0)
			controls = append(controls, c)
			return c
		}), func(s *Settings, _ *Env) {
			s.MTU, s.AskEvery, s.AckEvery, s.Timeout = qp.MTU256, ask, ack, 8
			if lossless {
				s.Timeout = 0 // for ever
			}
		})
		w.delay = rapid.SampledFrom([]units.Time{0, units.Microsecond, 50 * units.Microsecond}).Draw(t, "delay")
		var sides [2]*windowed
		for i := range sides {
			h := w.host(i)
			sides[i] = &windowed{host: h, qp: h.qp(qp.RC), sizes: map[uint32]units.Bytes{}, lost: map[uint32]int{}}
		}
		sides[0].peer, sides[1].peer = sides[1], sides[0]
		join(t, sides[0].qp, sides[1].qp, qp.MTU256, false)
		for i, s := range sides {
			s.control = controls[i]
		}
		w.touch = func(from int, p *packet.Packet) bool {
			s := sides[from]
			s.check(t, w.engine.Now(), p)
			return !s.loses(random, loss[from], p)
		}
		for _, s := range sides {
			s.program(t)
		}
		for range 2000 {
			w.run(w.engine.Now() + units.Millisecond)
			if done := sides[0].done(); sides[1].done() && done {
				break
			}
		}
		for i, s := range sides {
			s.finish(t, i)
			if c, _ := s.qp.Counters(); lossless && c.LocalAckTimeoutErr != 0 {
				t.Errorf("side %d: %d timeouts without a loss", i, c.LocalAckTimeoutErr)
			}
		}
	})
}

// isRequest reports whether a packet comes from a requester.
func isRequest(b *roce.BTH) bool {
	op := b.Opcode.Operation()
	return op < roce.ReadFirst || op > roce.AtomicAck
}

// check checks new packets on the wire against the window.
func (s *windowed) check(t *rapid.T, now units.Time, p *packet.Packet) {
	b := &p.RoCE.BTH
	if !isRequest(b) || b.PSN < s.highest {
		return
	}
	s.highest = b.PSN + 1
	n := units.Bytes(p.RoCE.Length)
	if n == 0 {
		return
	}
	s.sizes[b.PSN] = n
	w, _ := s.qp.engine.Outstanding()
	inFlight := units.Bytes(0)
	for psn := uint32(w.Una); psn <= b.PSN; psn++ {
		inFlight += s.sizes[psn]
	}
	if maxWindow := s.control.allows(now); maxWindow > 0 && inFlight > max(maxWindow, n) {
		t.Fatalf("%v are under way, the window is %v", inFlight, maxWindow)
	}
}

// loses reports whether a packet is lost: of requests only the first of a PSN, of answers few in a
// row, as each may cost one of seven retries.
func (s *windowed) loses(random *rand.Rand, share float64, p *packet.Packet) bool {
	b := &p.RoCE.BTH
	maxFlows, of := 1, s
	if !isRequest(b) {
		maxFlows, of = 2, s.peer
	}
	if s.row >= 2 || of.lost[b.PSN] >= maxFlows || random.Float64() >= share {
		s.row = 0
		return false
	}
	if !isRequest(b) {
		s.row++
	}
	of.lost[b.PSN]++
	return true
}

// program posts work.
func (s *windowed) program(t *rapid.T) {
	place := units.Bytes(0)
	for range rapid.IntRange(0, 12).Draw(t, "messages") {
		op := rapid.SampledFrom([]transport.Op{transport.Write, transport.Write, transport.Send, transport.Read, transport.FetchAdd, transport.CompareSwap}).Draw(t, "op")
		n := units.Bytes(rapid.SampledFrom([]int{0, 1, 100, windowMTU, windowMTU + 1, 5 * windowMTU, 9*windowMTU - 1}).Draw(t, "length"))
		if op == transport.FetchAdd || op == transport.CompareSwap {
			n = 8
		}
		wr := transport.SendWR{ID: s.ids, Op: op, SGL: []memory.SGE{s.mr.SGE(windowArea+place, n)}}
		s.ids++
		far := s.peer
		wr.RKey, wr.RemoteVA = far.mr.RKey(), far.mr.Addr(8+place)
		var want []byte
		switch op {
		case transport.Write, transport.Send:
			want = s.buf[windowArea+place:][:n]
			for i := range want {
				want[i] = byte(s.ids) + byte(i)
			}
			if op == transport.Send {
				recv(t, far.qp, uint64(len(far.receives)), far.mr.SGE(8+place, n))
				far.receives = append(far.receives, n)
			}
		case transport.Read:
			for i := range far.buf[8+place:][:n] {
				far.buf[int(8+place)+i] = byte(s.ids) ^ byte(i)
			}
			want = far.buf[8+place:][:n]
		case transport.FetchAdd:
			wr.RemoteVA, wr.Swap = far.mr.Addr(0), 3
			s.added += 3
		case transport.CompareSwap: // it misses
			wr.RemoteVA, wr.Compare, wr.Swap = far.mr.Addr(0), 1, 7
		}
		place += n
		post(t, s.qp, wr)
		s.posted, s.wants = append(s.posted, wr), append(s.wants, want)
	}
}

// done reports whether everything has completed.
func (s *windowed) done() bool {
	s.got = append(s.got, s.poll()...)
	return len(s.got) >= len(s.posted)+len(s.receives) || s.qp.State() == qp.Err
}

// finish checks the final results.
func (s *windowed) finish(t *rapid.T, side int) {
	sends, recvs := 0, 0
	for _, c := range s.got {
		switch {
		case c.Status != cq.Success:
			t.Fatalf("side %d: %+v", side, c)
		case c.Opcode&cq.Recv != 0:
			if c.ID != uint64(recvs) || units.Bytes(c.ByteLen) != s.receives[recvs] {
				t.Errorf("side %d: receive %d completed as %+v", side, recvs, c)
			}
			recvs++
		default:
			if c.ID != uint64(sends) {
				t.Errorf("side %d: request %d completed as %+v", side, sends, c)
			}
			sends++
		}
	}
	if sends != len(s.posted) || recvs != len(s.receives) {
		t.Fatalf("side %d: %d of %d requests and %d of %d receives have completed", side, sends, len(s.posted), recvs, len(s.receives))
	}
	place := units.Bytes(0)
	for i, wr := range s.posted {
		n := units.Bytes(wr.SGL[0].Length)
		if s.wants[i] != nil && !bytes.Equal(s.buf[windowArea+place:][:n], s.peer.buf[8+place:][:n]) {
			t.Errorf("side %d: request %d, %v, brought other bytes", side, i, wr.Op)
		}
		place += n
	}
	if got := binary.NativeEndian.Uint64(s.peer.buf); got != s.added {
		t.Errorf("side %d has added %d to its peer's counter, want %d", side, got, s.added)
	}
}
