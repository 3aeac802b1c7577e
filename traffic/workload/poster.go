package workload

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// End is one end of a transfer.
type End struct {
	Engine  *sim.Engine
	Device  *nicemu.Device
	Address netip.Addr
}

// Poster carries out a transfer: it creates and connects the queue pairs of
// both ends, posts the messages and keeps the record.
type Poster struct {
	transfer Transfer
	record   *TransferRecord
	posting  *end
	taking   *end
	streams  []stream
	broken   int        // broken streams
	mr, far  *nicemu.MR // of the data at the two ends
	handle   *nicemu.AH // of datagrams
	wr       transport.SendWR
	list     [1]memory.SGE
}

// end is the state of a transfer at one of its NICs.
type end struct {
	End
	sends, receives int // most that each queue pair has posted
	pd              *nicemu.PD
	cq              *nicemu.CQ
	qps             []*nicemu.QP
	timer           sim.Timer
	events          nicemu.Channel
	batch           []cq.Completion // room to poll into
	work            func(now units.Time)
}

// maxBatch is how many completions an end polls at a time.
const maxBatch = 16

// Fire does the pending work.
func (e *end) Fire(now units.Time) { e.work(now) }

// stream is the messages of one queue pair.
type stream struct {
	posted int
	ended  int          // completed or failed
	at     []units.Time // when the messages under way were due to be posted, a ring
	broken bool         // no more is posted
}

// NewPoster sets up a transfer; the first message is posted at Transfer.At. It
// fails if a NIC has no room for it.
func NewPoster(t Transfer, from, to End, r *TransferRecord) (*Poster, error) {
	p := &Poster{transfer: t, record: r, streams: make([]stream, t.QPs)}
	p.posting, p.taking = &end{End: from}, &end{End: to}
	p.posting.work, p.taking.work = p.postMessages, p.postReceives
	p.posting.sends = t.Depth
	if t.Verb == Send {
		p.taking.receives = min(2*t.Depth, to.Device.Limits().QPWR)
	}
	for _, e := range []*end{p.posting, p.taking} {
		if err := e.createObjects(t); err != nil {
			return nil, fmt.Errorf("transfer %s: %s: %w", t.Name, e.Device.Name(), err)
		}
	}
	if err := p.connectPairs(); err != nil {
		return nil, fmt.Errorf("transfer %s: %w", t.Name, err)
	}
	for i := range p.streams {
		p.streams[i].at = make([]units.Time, t.Depth)
	}
	p.posting.timer.Arm(t.At)
	return p, nil
}

// Name returns the name of the transfer.
func (p *Poster) Name() string { return p.transfer.Name }

// QPs returns the queue pairs of both ends.
func (p *Poster) QPs() []*nicemu.QP { return slices.Concat(p.posting.qps, p.taking.qps) }

// createObjects creates the objects of one end.
func (e *end) createObjects(t Transfer) (err error) {
	e.timer = e.Engine.NewTimer(e)
	e.events.Notify = func() { e.timer.Arm(e.Engine.Now()) }
	if e.pd, err = e.Device.AllocPD(); err != nil {
		return err
	}
	entries := max(1, t.QPs*(e.sends+e.receives))
	if e.cq, err = e.Device.CreateCQ(entries, &e.events); err != nil {
		return err
	}
	e.batch = make([]cq.Completion, min(entries, maxBatch))
	for range t.QPs {
		q, err := e.pd.CreateQP(nicemu.QPConfig{
			Type: typeOf(t.Service), SendCQ: e.cq, RecvCQ: e.cq, SignalAll: true,
			Cap: qp.Cap{MaxSendWR: e.sends, MaxRecvWR: e.receives, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return err
		}
		e.qps = append(e.qps, q)
	}
	e.cq.Arm(false)
	return nil
}

func typeOf(s roce.Service) qp.Type {
	switch s {
	case roce.RC:
		return qp.RC
	case roce.UC:
		return qp.UC
	}
	return qp.UD
}

// rdAtomic is the most READs that a queue pair may have outstanding.
const rdAtomic = 16

// connectPairs connects the queue pairs of both ends, with the regions that data goes
// from and to.
func (p *Poster) connectPairs() (err error) {
	t := &p.transfer
	room := max(t.Size, 1)
	if t.Service == roce.UD {
		room += transport.GRHLen
	}
	access := memory.LocalWrite | memory.RemoteWrite | memory.RemoteRead
	if p.mr, err = p.posting.pd.RegisterSize(room, access); err != nil {
		return err
	}
	if p.far, err = p.taking.pd.RegisterSize(room, access); err != nil {
		return err
	}
	for i, a := range p.posting.qps {
		b := p.taking.qps[i]
		if err := p.joinPairs(a, b, p.posting, p.taking); err != nil {
			return err
		}
		if err := p.joinPairs(b, a, p.taking, p.posting); err != nil {
			return err
		}
		for range p.taking.receives {
			if err := p.postReceive(i); err != nil {
				return err
			}
		}
	}
	if t.Service == roce.UD {
		return p.createAddress()
	}
	return nil
}

func (p *Poster) joinPairs(a, b *nicemu.QP, here, there *end) error {
	t := &p.transfer
	j := nicemu.Join{
		Local: here.Address, Remote: there.Address, RemoteQPN: b.Number(), DSCP: t.DSCP, ClassSet: true, MTU: mtuOf(t.MTU), QKey: transferQKey,
		RdAtomic: uint8(min(t.Depth, rdAtomic)),
	}
	switch t.Service {
	case roce.RC:
		j.Access = memory.RemoteWrite | memory.RemoteRead
	case roce.UC:
		j.Access = memory.RemoteWrite
	}
	return a.Join(j)
}

// transferQKey is the Q_Key of the queue pairs of transfers over UD.
const transferQKey = 0x11111111

func mtuOf(n units.Bytes) qp.MTU {
	for m := qp.MTU256; m <= qp.MTU4096; m++ {
		if units.Bytes(m.Bytes()) == n {
			return m
		}
	}
	return 0
}

// createAddress creates the address handle for datagrams.
func (p *Poster) createAddress() error {
	e := p.posting
	index, err := e.Device.GIDIndex(e.Address)
	if err != nil {
		return err
	}
	p.handle, err = e.pd.CreateAH(qp.AV{
		Global: true, Port: 1, DGID: nicemu.GID(p.taking.Address), SGIDIndex: index, TrafficClass: p.transfer.DSCP << 2, ClassSet: true,
	})
	return err
}

// postMessages records completions and posts the messages that may be posted.
func (p *Poster) postMessages(now units.Time) {
	p.posting.drainCompletions(p.recordEnd)
	t := &p.transfer
	if t.For > 0 && now > t.At+t.For {
		return
	}
	due := p.messagesDue(now)
	for i := range p.streams {
		p.fillQueue(now, i, due)
	}
	// Messages that completed while they were posted have armed the timer for now.
	if next := t.At + units.Time(due)*t.Every; t.Every > 0 && p.broken < len(p.streams) && p.messagesDue(next) > due && p.posting.events.Len() == 0 {
		p.posting.timer.Arm(next)
	}
}

// messagesDue returns the most messages of each queue pair that are to be posted by a time.
func (p *Poster) messagesDue(now units.Time) int {
	t := &p.transfer
	n := math.MaxInt
	if t.Count > 0 {
		n = t.Count
	}
	if t.For > 0 {
		now = min(now, t.At+t.For)
	}
	if t.Every > 0 {
		n = min(n, int((now-t.At)/t.Every)+1)
	}
	return n
}

// fillQueue posts messages of a queue pair while there is room.
func (p *Poster) fillQueue(now units.Time, i, due int) {
	t, s := &p.transfer, &p.streams[i]
	for !s.broken && s.posted < due && s.posted-s.ended < t.Depth {
		arrived := now
		if t.Every > 0 {
			arrived = t.At + units.Time(s.posted)*t.Every
		}
		s.at[s.posted%t.Depth] = arrived
		s.posted++
		p.record.CountPosted(arrived)
		if t.FlowPerMessage {
			_ = p.posting.qps[i].RenewFlow() // with a depth of 1 nothing is under way
		}
		if err := p.posting.qps[i].PostSend(p.makeRequest(i)); err != nil {
			// The queue has room, so the queue pair has failed since: its
			// completions say why.
			s.posted--
			p.endStream(s)
			p.record.RecordFailure(now, cq.WRFlushErr.String())
		}
	}
}

// makeRequest returns the work request of a message.
func (p *Poster) makeRequest(i int) *transport.SendWR {
	t := &p.transfer
	p.list[0] = p.mr.SGE(0, t.Size)
	p.wr = transport.SendWR{ID: uint64(i), SGL: p.list[:], RemoteVA: p.far.Addr(0), RKey: p.far.RKey()}
	switch t.Verb {
	case Write:
		p.wr.Op = transport.Write
	case Read:
		p.wr.Op = transport.Read
	}
	if p.handle != nil {
		p.wr.Path, p.wr.DestQP, p.wr.QKey = p.handle.Path(), p.taking.qps[i].Number(), transferQKey
	}
	return &p.wr
}

// recordEnd records the completion of a message.
func (p *Poster) recordEnd(now units.Time, c *cq.Completion) {
	s := &p.streams[c.ID]
	posted := s.at[s.ended%p.transfer.Depth]
	s.ended++
	if c.Status == cq.Success {
		p.record.RecordCompletion(now, posted)
		return
	}
	p.endStream(s)
	p.record.RecordFailure(now, c.Status.String())
}

// endStream ends a stream.
func (p *Poster) endStream(s *stream) {
	if !s.broken {
		s.broken = true
		p.broken++
	}
}

// postReceives posts receives to replace those that have been used.
func (p *Poster) postReceives(units.Time) {
	p.taking.drainCompletions(func(_ units.Time, c *cq.Completion) {
		if c.Status == cq.Success {
			_ = p.postReceive(int(c.ID)) // a queue pair that has failed meanwhile needs none
		}
	})
}

// postReceive posts a receive for a SEND.
func (p *Poster) postReceive(i int) error {
	n := p.transfer.Size
	if p.transfer.Service == roce.UD {
		n += transport.GRHLen
	}
	return p.taking.qps[i].PostRecv(&qp.RecvWR{ID: uint64(i), SGL: []memory.SGE{p.far.SGE(0, n)}})
}

// drainCompletions calls f with each completion, and requests a notification of further ones.
func (e *end) drainCompletions(f func(now units.Time, c *cq.Completion)) {
	now := e.Engine.Now()
	for q, ok := e.events.Get(); ok; q, ok = e.events.Get() {
		_ = q.Ack(1) // it was just taken
	}
	e.cq.Arm(false)
	for {
		n, err := e.cq.Poll(e.batch)
		for i := range n {
			f(now, &e.batch[i])
		}
		if n < len(e.batch) || err != nil {
			return
		}
	}
}

// CopyCounters passes the NICs' counters to the record. No engine may run meanwhile.
func (p *Poster) CopyCounters() {
	var c TransferCounters
	var gaps []outage.Gap
	var came units.Bytes
	var last units.Time
	for _, e := range []*end{p.posting, p.taking} {
		for _, q := range e.qps {
			t, n := q.Counters()
			c.AddCounters(TransferCounters{
				Packets: n.DataPackets, Retransmitted: t.Retransmitted, Bytes: n.DataBytes,
				NAKs: t.PacketSeqErr, RNRNAKs: t.RNRNakRetryErr, Timeouts: t.LocalAckTimeoutErr,
				CNPs: n.CNPsHandled, Marked: n.Marked, OutOfSequence: t.OutOfSequence,
			})
			came += units.Bytes(t.PayloadReceived)
			last = max(last, n.LastPayload)
		}
	}
	for _, q := range append(slices.Clone(p.posting.qps), p.taking.qps...) {
		gaps = append(gaps, q.Gaps()...)
	}
	p.record.SetGaps(gaps)
	p.record.SetCounters(c)
	p.record.SetReceived(last, came)
}
