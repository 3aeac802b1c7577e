package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/wire/roce"
)

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
	random *rand.Rand
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
	fetched  [][]byte // by work request: the result of a READ or atomic, or nil
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

func (s sends) CompleteRequest(c cq.Completion, _ bool) {
	s.sent = append(s.sent, c)
	if s.watch != nil {
		s.watch()
	}
}

func (r recvs) CompleteRequest(c cq.Completion, _ bool) {
	r.received = append(r.received, c)
	if r.peer != nil && r.peer.watch != nil {
		r.peer.watch()
	}
}

// newAgents makes the two hosts of a pair, with some bytes of local memory. The pair has no queue
// pairs yet.
func newAgents(seed uint64, f faults, local int) *pair {
	p := &pair{channel: &channel{random: rand.New(rand.NewPCG(seed, 0)), faults: f}}
	for i := range p.sides {
		s := &agent{name: string(rune('A' + i)), host: newHost(), random: p.channel.random}
		s.local = s.host.bytes(0, local, memory.LocalWrite)
		s.target = s.host.bytes(0, targetSize, open|memory.MWBind)
		s.memory, s.window = s.host.view(uint32(i)), s.host.window()
		s.models = [][]byte{make([]byte, targetSize)}
		p.sides[i] = s
	}
	for i, s := range p.sides {
		s.peer = p.sides[1-i]
	}
	p.channel.idle = p.feed
	return p
}

// connect makes the queue pair of side i. It completes c and a, which hold what pairs differ in.
func (p *pair) connect(t rapid.TB, i int, c Config, d Delays, a Attr) {
	s := p.sides[i]
	c.Service, c.Number, c.Memory, c.SendCQ, c.RecvCQ = roce.RC, uint32(i), s.memory, sends{s}, recvs{s}
	c.MaxSend, c.MaxRecv, c.MaxSGE, c.MaxInline = 5, 40, 3, 64
	a.Access, a.DestQP, a.MinRNRTimer, a.Timeout, a.RetryCount, a.RNRRetry = open, uint32(1-i), 1, 8, 7, infinite
	q, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	q.SetDelays(d)
	for state := qp.Init; state <= qp.RTS; state++ {
		if err := q.Modify(state, a); err != nil {
			t.Fatal(err)
		}
	}
	s.qp, p.channel.ends[i] = q, q
}

// posted is a shared receive queue.
type posted struct{ list []*qp.RecvWR }

func (p *posted) TakeRequest(wr *qp.RecvWR) bool {
	if len(p.list) == 0 {
		return false
	}
	wr.ID, wr.SGL = p.list[0].ID, append(wr.SGL[:0], p.list[0].SGL...)
	p.list = p.list[1:]
	return true
}

// allocBuffer returns n bytes of local memory, with any content.
func (s *agent) allocBuffer(n int) memory.SGE {
	e := memory.SGE{VA: uint64(s.used), Length: uint32(n), LKey: localKey}
	for i := range s.local[s.used:][:n] {
		s.local[int(s.used)+i] = byte(s.random.Uint32())
	}
	s.used += uint32(n)
	return e
}

func (s *agent) bytesOf(list []memory.SGE) []byte {
	b, _ := s.memory.GatherBytes(list, 0, uint32(memory.ListLength(list)), nil)
	return b
}

// addWork appends a work request to the work of s, with its expected results. Room is where the peer
// receives a SEND.
func (s *agent) addWork(wr SendWR, room []memory.SGE) {
	model := slices.Clone(s.models[len(s.work)])
	data := slices.Clone(wr.Inline)
	if len(wr.SGL) > 0 {
		data = s.bytesOf(wr.SGL)
	}
	at := model[wr.RemoteVA:][:len(data)]
	var brings []byte
	switch {
	case wr.Op == Read:
		brings = slices.Clone(at)
	case wr.Op.isAtomic():
		brings = slices.Clone(at)
		old := binary.LittleEndian.Uint64(at)
		if wr.Op == FetchAdd {
			binary.LittleEndian.PutUint64(at, old+wr.Swap)
		} else if old == wr.Compare {
			binary.LittleEndian.PutUint64(at, wr.Swap)
		}
	case wr.Op.isWrite():
		copy(at, data)
	}
	if wr.Op.isSend() || wr.Op == WriteImm {
		message := append([]byte{}, data...)
		if wr.Op == WriteImm {
			message = nil
		}
		s.messages, s.imms = append(s.messages, message), append(s.imms, wr.Imm)
		s.peer.receives = append(s.peer.receives, qp.RecvWR{ID: uint64(len(s.peer.receives)), SGL: room})
	}
	s.work, s.fetched, s.models = append(s.work, wr), append(s.fetched, brings), append(s.models, model)
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
		s.qp.SetTime(p.channel.now)
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
