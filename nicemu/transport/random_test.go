package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// TestExactlyOnceInOrder joins two queue pairs by a channel with some loss, copies, delays and
// reordering: everything completes, and memory, READ results and received messages are those of a
// sequential machine.
func TestExactlyOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pair := newPair(t, faults{
			drop: 0.05, copies: 0.05, budget: 5, // each may cost one of seven retries
			late: rapid.SampledFrom([]float64{0, 0.05, 0.5}).Draw(t, "late"),
		})
		if !pair.channel.run(units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			s.checkWhole(t)
		}
	})
}

// TestRightOrFailed does the same over a channel that may lose so much that the queue pairs give
// up: their completions are then still true.
func TestRightOrFailed(t *testing.T) {
	failed := 0
	check := func(t *rapid.T) {
		loss := rapid.SampledFrom([]float64{0.02, 0.2, 0.5}).Draw(t, "loss")
		pair := newPair(t, faults{drop: loss, copies: 0.1, late: 0.3, budget: -1})
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			if s.qp.State() == qp.Err {
				failed++
				s.checkFailed(t, cq.RetryExcErr)
			} else {
				s.checkWhole(t)
			}
		}
	}
	// Queue pairs with few requests rarely give up: draw more until some have.
	for try := 0; try < 20 && failed == 0 && !t.Failed(); try++ {
		rapid.Check(t, check)
	}
	if failed == 0 {
		t.Error("no queue pair ever gave up: the channel is too good to show it")
	}
}

// TestRightStatus makes one work request fail, over a channel without loss: it has the right
// status, and only earlier requests have been executed.
func TestRightStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := faults{copies: 0.1, budget: 3, late: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "late")}
		pair := newPair(t, f)
		s := pair.sides[0]
		bad := s.work[min(rapid.IntRange(0, 20).Draw(t, "bad"), len(s.work)):]
		want := []cq.Status{s.spoil(t, bad)}
		if f.late > 0 {
			// The NAK may overtake READ responses, which are then never repeated.
			want = append(want, cq.RetryExcErr)
		}
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		if want[0] == cq.Success {
			s.checkWhole(t)
			return
		}
		s.checkFailed(t, want...)
		if peer := s.peer; peer.failed() {
			peer.checkFailed(t, cq.RetryExcErr, cq.WRFlushErr)
		} else {
			peer.checkWhole(t)
		}
	})
}

// spoil makes the first work request that can fail do so and returns its expected status; Success
// if none can.
func (s *agent) spoil(t *rapid.T, work []SendWR) cq.Status {
	for i := range work {
		wr := &work[i]
		n := len(wr.Inline) + int(memory.ListLength(wr.SGL))
		switch {
		case rapid.Bool().Draw(t, "local") && len(wr.SGL) > 0 && n > 0:
			for j := range wr.SGL {
				wr.SGL[j].LKey = 99
			}
			return cq.LocProtErr
		case wr.Op == BindWindow:
			wr.Bind.Length = 1 << 40
			return cq.MWBindErr
		case wr.Op == LocalInvalidate:
			wr.RKey = targetKey
			return cq.LocQPOpErr
		case wr.Op.send():
			wr.Inline, wr.SGL = nil, append([]memory.SGE{}, s.take(t, n+50)...)
			s.peerFails = cq.LocLenErr
			return cq.RemInvReqErr
		case n > 0 && rapid.Bool().Draw(t, "bounds"):
			wr.RemoteVA += targetSize
			return cq.RemAccessErr
		case n > 0:
			wr.RKey++
			return cq.RemAccessErr
		}
	}
	return cq.Success
}

// Memory of a side: its peer works on the target; the rest are its own buffers, each used once.
const (
	targetSize = 4096
	localSize  = 1 << 18
)

// pair is two queue pairs with their programs.
type pair struct {
	channel *channel
	sides   [2]*agent
}

// agent is a queue pair with its program and the model of it.
type agent struct {
	name   string
	peer   *agent
	qp     *QP
	host   *host
	memory memory.View
	target []byte // what the peer works on
	local  []byte
	used   uint32 // of local
	window uint32 // its future key
	bound  bool   // it will be

	work     []SendWR
	models   [][]byte // the peer's target: before any work, after each
	brought  [][]byte // by work request: the result of a READ or atomic, or nil
	messages [][]byte // messages its SENDs deliver to the peer; nil for WRITEs with immediate data
	imms     []uint32
	receives []qp.RecvWR // posted and to be posted
	posted   int         // of work
	ready    int         // of receives

	sent, received []cq.Completion
	shared         *posted   // nil if its queue pair has its own receives
	watch          func()    // called after each completion of its work; may be nil
	peerFails      cq.Status // possible status of a receive request of the peer
}

// halves of a CQ
type sends struct{ *agent }
type recvs struct{ *agent }

func (s sends) Complete(c cq.Completion, _ bool) {
	s.sent = append(s.sent, c)
	if s.watch != nil {
		s.watch()
	}
}

func (r recvs) Complete(c cq.Completion, _ bool) {
	r.received = append(r.received, c)
	if r.peer != nil && r.peer.watch != nil {
		r.peer.watch()
	}
}

func newPair(t *rapid.T, f faults) *pair { return newPairWith(t, f, nil) }

// newPairWith makes a pair with a loss recovery, or with go-back-N if settings is nil.
func newPairWith(t *rapid.T, f faults, settings RecoverySettings) *pair {
	p := &pair{channel: &channel{random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), faults: f}}
	mtu := rapid.SampledFrom([]units.Bytes{256, 512, 1024}).Draw(t, "mtu")
	rd := rapid.Uint8Range(1, 4).Draw(t, "rd")
	ask, every := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "ask"), rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "every")
	psn := rapid.Custom(func(t *rapid.T) PSN {
		if rapid.Bool().Draw(t, "wraps") {
			return PSN(roce.PSNMask - rapid.Uint32Range(0, 50).Draw(t, "before"))
		}
		return PSN(rapid.Uint32Range(0, roce.PSNMask).Draw(t, "psn"))
	})
	psns := [2]PSN{psn.Draw(t, "psn"), psn.Draw(t, "psn")}
	for i := range p.sides {
		s := &agent{name: string(rune('A' + i)), host: newHost()}
		s.local = s.host.bytes(0, localSize, memory.LocalWrite)
		s.target = s.host.bytes(0, targetSize, open|memory.MWBind)
		s.memory, s.window = s.host.view(uint32(i)), s.host.window()
		for j := range s.local {
			s.local[j] = byte(p.channel.random.Uint32())
		}
		p.sides[i], s.qp = s, newRC(t, s, i, mtu, rd, ask, every, psns, settings)
		p.channel.ends[i] = s.qp
	}
	for i, s := range p.sides {
		s.peer = p.sides[1-i]
	}
	for _, s := range p.sides {
		s.program(t, s.peer, int(mtu))
	}
	p.channel.idle = p.feed
	return p
}

func newRC(t *rapid.T, s *agent, i int, mtu units.Bytes, rd uint8, ask, every int, psns [2]PSN, settings RecoverySettings) *QP {
	var recovery func() Recovery
	if settings != nil {
		recovery = settings.New
	} else if limit := rapid.SampledFrom([]uint32{0, 1, 7}).Draw(t, "limit"); limit > 0 {
		recovery = func() Recovery { return &capped{limit: limit} }
	}
	var shared Receives
	if settings != nil && rapid.Bool().Draw(t, "shared") {
		s.shared = &posted{}
		shared = s.shared
	}
	q, err := New(Config{
		Recovery: recovery, Shared: shared,
		Service: roce.RC, Number: uint32(i), Memory: s.memory, SendCQ: sends{s}, RecvCQ: recvs{s},
		MaxSend: 5, MaxRecv: 40, MaxSGE: 3, MaxInline: 64, AckEvery: every, AskEvery: ask,
		ChunkSize: rapid.SampledFrom([]units.Bytes{0, 0, 300, 1000, 64 << 10}).Draw(t, "chunk"),
	})
	if err != nil {
		t.Fatal(err)
	}
	q.Delay(Delays{
		Doorbell: rapid.SampledFrom([]units.Time{0, 0, units.Microsecond, 9 * units.Microsecond}).Draw(t, "doorbell"),
		Fetch:    rapid.SampledFrom([]units.Time{0, 0, units.Microsecond, 30 * units.Microsecond}).Draw(t, "fetch"),
	})
	for state := qp.Init; state <= qp.RTS; state++ {
		if err := q.Modify(state, Attr{
			Access: open, DestQP: uint32(1 - i), PathMTU: mtu,
			RQPSN: psns[1-i], SQPSN: psns[i], MaxRdAtomic: rd, MaxDestRdAtomic: rd,
			MinRNRTimer: 1, Timeout: 8, RetryCount: 7, RNRRetry: infinite,
		}); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// posted is a shared receive queue.
type posted struct{ list []*qp.RecvWR }

func (p *posted) Take(wr *qp.RecvWR) bool {
	if len(p.list) == 0 {
		return false
	}
	wr.ID, wr.SGL = p.list[0].ID, append(wr.SGL[:0], p.list[0].SGL...)
	p.list = p.list[1:]
	return true
}

// take returns n bytes of local memory as a list of some elements.
func (s *agent) take(t *rapid.T, n int) []memory.SGE {
	var list []memory.SGE
	for parts := rapid.IntRange(1, 3).Draw(t, "parts"); n > 0; parts-- {
		take := n
		if parts > 1 {
			take = rapid.IntRange(0, n).Draw(t, "part")
		}
		list = append(list, memory.SGE{VA: uint64(s.used), Length: uint32(take), LKey: localKey})
		s.used += uint32(take)
		n -= take
	}
	return list
}

func (s *agent) bytesOf(list []memory.SGE) []byte {
	b, _ := s.memory.Gather(list, 0, uint32(memory.ListLength(list)), nil)
	return b
}

// program draws the work of s on its peer, and the expected results.
func (s *agent) program(t *rapid.T, peer *agent, mtu int) {
	model := make([]byte, targetSize)
	s.models = append(s.models, slices.Clone(model))
	type piece struct{ from, to uint64 }
	var read []piece // since the last fence
	for i := range rapid.IntRange(0, 20).Draw(t, "work") {
		wr := SendWR{ID: uint64(i), Op: Op(rapid.IntRange(0, int(LocalInvalidate)).Draw(t, "op")), RKey: targetKey, Imm: uint32(i)}
		if wr.Op == SendInvalidate {
			wr.Op = Send
		}
		if wr.Op.local() {
			s.turnWindow(&wr)
		}
		if rapid.IntRange(0, 3).Draw(t, "signaled") > 0 || wr.Op.fetches() {
			wr.Flags |= Signaled
		}
		n := rapid.IntRange(0, min(5*mtu, targetSize)).Draw(t, "length")
		switch {
		case wr.Op.local():
			n = 0
		case rapid.IntRange(0, 2).Draw(t, "small") == 0:
			n = min(n, 40)
		}
		wr.RemoteVA = uint64(rapid.IntRange(0, targetSize-n).Draw(t, "va"))
		if wr.Op.atomic() {
			n, wr.RemoteVA = 8, wr.RemoteVA&^7
			if wr.RemoteVA+8 > targetSize {
				wr.RemoteVA -= 8
			}
			wr.Swap = uint64(rapid.IntRange(1, 3).Draw(t, "swap"))
			wr.Compare = binary.LittleEndian.Uint64(model[wr.RemoteVA:])
			if rapid.Bool().Draw(t, "differs") {
				wr.Compare++
			}
		}
		if !wr.Op.local() {
			wr.SGL = s.take(t, n)
		}
		data := s.bytesOf(wr.SGL)
		if len(data) > 0 && len(data) <= 64 && !wr.Op.fetches() && rapid.Bool().Draw(t, "inline") {
			wr.SGL, wr.Inline = nil, slices.Clone(data)
		}

		// A change of memory that an earlier READ still reads needs a fence: otherwise the order is
		// open (§10.8.3).
		at := model[wr.RemoteVA : wr.RemoteVA+uint64(n)]
		changes := wr.Op.write() || wr.Op.atomic()
		overlaps := slices.ContainsFunc(read, func(p piece) bool {
			return wr.RemoteVA < p.to && p.from < wr.RemoteVA+uint64(n)
		})
		if changes && overlaps || rapid.IntRange(0, 5).Draw(t, "fence") == 0 {
			wr.Flags |= Fence
			read = nil
		}
		var brings []byte
		switch {
		case wr.Op == Read:
			brings = slices.Clone(at)
			read = append(read, piece{wr.RemoteVA, wr.RemoteVA + uint64(n)})
		case wr.Op.atomic():
			brings = slices.Clone(at)
			old := binary.LittleEndian.Uint64(at)
			if wr.Op == FetchAdd {
				binary.LittleEndian.PutUint64(at, old+wr.Swap)
			} else if old == wr.Compare {
				binary.LittleEndian.PutUint64(at, wr.Swap)
			}
		case wr.Op.write():
			copy(at, data)
		}
		if wr.Op.send() {
			peer.receives = append(peer.receives, qp.RecvWR{ID: uint64(len(peer.receives)), SGL: peer.take(t, n+rapid.IntRange(0, 9).Draw(t, "spare"))})
			s.messages = append(s.messages, append([]byte{}, data...))
			s.imms = append(s.imms, wr.Imm)
		} else if wr.Op == WriteImm {
			peer.receives = append(peer.receives, qp.RecvWR{ID: uint64(len(peer.receives))})
			s.messages = append(s.messages, nil)
			s.imms = append(s.imms, wr.Imm)
		}
		s.work = append(s.work, wr)
		s.brought = append(s.brought, brings)
		s.models = append(s.models, slices.Clone(model))
	}
}

// turnWindow makes wr bind the window of s, or invalidate it if it is bound. Doing either twice is
// an error.
func (s *agent) turnWindow(wr *SendWR) {
	if s.bound = !s.bound; s.bound {
		wr.Op, wr.Bind = BindWindow, memory.Binding{Window: s.window, Tag: uint8(s.window + 1), Region: targetKey, Length: 8, Access: open}
		s.window = s.window&^0xff | uint32(wr.Bind.Tag)
		return
	}
	wr.Op, wr.RKey = LocalInvalidate, s.window
}

// feed posts work as far as there is room, and receives now and then, often too late. It reports
// whether some are left.
func (p *pair) feed() bool {
	left := false
	for _, s := range p.sides {
		s.qp.Clock(p.channel.now)
		for s.posted < len(s.work) && s.qp.PostSend(&s.work[s.posted]) == nil {
			s.posted++
		}
		if s.ready < len(s.receives) && p.channel.random.IntN(20) == 0 {
			if s.shared != nil {
				s.shared.list = append(s.shared.list, &s.receives[s.ready])
				s.ready++
			} else if s.qp.PostRecv(&s.receives[s.ready]) == nil {
				s.ready++
			}
		}
		left = left || s.posted < len(s.work) || s.ready < len(s.receives)
	}
	return left
}
