package transport

import (
	"fmt"
	"math/bits"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Config is the configuration of a queue pair.
type Config struct {
	Service roce.Service // roce.RC, UC, UD or XRC
	Number  uint32       // 24 bits
	PKey    uint16       // 0 means roce.DefaultPKey

	SignalAll bool // every work request makes a completion, even on success

	Memory Memory // a memory.View with this number
	// ReceiveMemory is where the lists of receive requests are: the view of a shared receive queue's
	// protection domain; nil means Memory.
	ReceiveMemory Memory
	SendCQ        CQ
	RecvCQ        CQ
	Shared        Receives // a shared receive queue; nil if there is none
	// Domain makes an XRC queue pair a target, which takes requests and sends none. It has no
	// protection domain, queues and completion queues: leave Memory, SendCQ and RecvCQ out. Without a
	// Domain an XRC queue pair is an initiator, which takes no requests; leave RecvCQ out.
	Domain Domain
	Events Events // may be nil

	MaxSend   int // work requests
	MaxRecv   int // work requests
	MaxSGE    int // elements of a list
	MaxInline int // bytes

	// AckEvery makes the responder acknowledge every n-th packet even if not requested; 0 means
	// never (§9.7.5.1). AskEvery makes the requester request an acknowledgement at each PSN that is
	// a multiple of it, as well as at the end of messages and where the window is full (SetWindow);
	// 0 means never.
	AckEvery int
	AskEvery int

	// ChunkSize is how much of a message is read from or written to Memory at once, for memory with
	// expensive access; 0 means a packet. The received part of a message is in memory when the
	// message is complete.
	ChunkSize units.Bytes

	// Recovery makes its loss recovery; nil means NewGoBackN, as specified. RC and XRC only; for XRC it
	// must be one with packets of RC, as IRN has no opcodes for XRC.
	Recovery func() Recovery
	Feedback Feedback // may be nil
}

// QP is a queue pair. Make it with New.
type QP struct {
	config   Config
	attr     Attr
	mtuShift uint8
	wire     roce.Service // of its packets: config.Service, or roce.IRN for RC
	state    qp.State
	turn     bool // it is a response's turn, if there are requests too
	drained  bool // qp.SQDrained was reported
	req      requester
	resp     responder
	receives queue.FIFO[qp.RecvWR]
	counters Counters
	chunks   *chunks // nil without Config.ChunkSize
	bus      *bus    // nil without SetDelays
	flow     flow
}

// flow holds measurements of a queue pair's flow.
type flow struct {
	timed  bool       // round trips are measured
	marked bool       // a NACK has echoed a mark that was not reported
	acked  uint64     // payload of SENDs and WRITEs
	rtt    units.Time // the last one; 0 before the first
}

// New makes a queue pair in state RESET. Errors wrap the errno of ibv_create_qp(3).
func New(c Config) (*QP, error) {
	switch {
	case c.Service != roce.RC && c.Service != roce.UC && c.Service != roce.UD && c.Service != roce.XRC:
		return nil, fmt.Errorf("%w: there is no transport service %d: use RC (0), UC (1), UD (3) or XRC (5)", syscall.EOPNOTSUPP, c.Service)
	case c.Domain != nil && c.Service != roce.XRC:
		return nil, fmt.Errorf("%w: only an XRC queue pair has a Domain", syscall.EINVAL)
	case c.Domain == nil && (c.Memory == nil || c.SendCQ == nil || c.RecvCQ == nil && c.Service != roce.XRC):
		return nil, fmt.Errorf("%w: a queue pair needs Memory, SendCQ and RecvCQ", syscall.EINVAL)
	case c.Service == roce.XRC && c.Shared != nil:
		return nil, fmt.Errorf("%w: requests name the shared receive queue of an XRC queue pair: leave Shared out", syscall.EINVAL)
	case c.Number > roce.PSNMask:
		return nil, fmt.Errorf("%w: queue pair number %#x has more than 24 bits", syscall.EINVAL, c.Number)
	case c.MaxSend < 0 || c.MaxRecv < 0 || c.MaxSGE < 0 || c.MaxInline < 0 || c.AckEvery < 0 || c.AskEvery < 0:
		return nil, fmt.Errorf("%w: a limit of queue pair %d is negative", syscall.EINVAL, c.Number)
	case c.Recovery != nil && c.Service != roce.RC && c.Service != roce.XRC:
		return nil, fmt.Errorf("%w: only RC and XRC recover from loss: leave Recovery out", syscall.EINVAL)
	}
	if c.PKey == 0 {
		c.PKey = roce.DefaultPKey
	}
	if c.ReceiveMemory == nil {
		c.ReceiveMemory = c.Memory
	}
	q := &QP{config: c, wire: c.Service, flow: flow{timed: c.Feedback != nil}}
	if c.ChunkSize > 0 {
		q.chunks = &chunks{size: c.ChunkSize}
	}
	if q.isReliable() {
		recovery := NewGoBackN
		if c.Recovery != nil {
			recovery = c.Recovery
		}
		both := recovery()
		switch {
		case c.Service == roce.RC:
			q.wire = both.Service()
		case both.Service() != roce.RC:
			return nil, fmt.Errorf("%w: XRC cannot have a loss recovery with packets of its own, as %v has", syscall.EOPNOTSUPP, both.Service())
		}
		q.req.sender, q.resp.receiver = both, both
		if m, ok := both.(ByMessage); ok {
			m.SetMessages(q.endOf)
		}
		if q.keepsDisordered() {
			back := recovery()
			q.resp.buffer, q.resp.answers = &reorderBuffer{}, &answers{stream: stream{sender: back, ackSince: units.Never}}
			q.req.responses = &responseReceiver{receiver: back}
		}
	}
	q.clearState()
	return q, nil
}

// Number returns the queue pair's number.
func (q *QP) Number() uint32 { return q.config.Number }

// State returns its state.
func (q *QP) State() qp.State { return q.state }

// Attr returns the attributes set by Modify.
func (q *QP) Attr() Attr { return q.attr }

// Counters returns its counters.
func (q *QP) Counters() Counters { return q.counters }

// Payload returns Counters().PayloadReceived.
func (q *QP) Payload() uint64 { return q.counters.PayloadReceived }

// Retransmitted returns Counters().Retransmitted.
func (q *QP) Retransmitted() uint64 { return q.counters.Retransmitted }

// Expected returns the next PSN to be received; it has no meaning for UD.
func (q *QP) Expected() PSN { return q.resp.expected }

// Unused returns the first PSNs that neither requests nor responses to them have: of this queue
// pair's requests, and of the peer's.
func (q *QP) Unused() (ours, theirs PSN) {
	ours, theirs = q.req.next, q.resp.expected
	if !q.keepsDisordered() {
		return ours, theirs
	}
	return laterPSN(ours, q.req.responses.free), laterPSN(theirs, q.resp.answers.free)
}

func laterPSN(a, b PSN) PSN {
	if a.Before(b) {
		return b
	}
	return a
}

// HoldsResponse reports whether the responder can repeat the response to a READ or atomic that includes
// this PSN.
func (q *QP) HoldsResponse(psn PSN) bool {
	r := &q.resp
	for i := range r.fetches.Len() {
		f := r.fetches.At(i)
		if q.keepsDisordered() && psn == f.request || !q.keepsDisordered() && psn.From(f.first) < f.packets {
			return true
		}
	}
	return false
}

// Acknowledged returns the payload of SENDs and WRITEs acknowledged since the queue pair was made,
// in bytes.
func (q *QP) Acknowledged() uint64 { return q.flow.acked }

// MeasureRTT starts measuring round-trip times, as with Config.Feedback.
func (q *QP) MeasureRTT() { q.flow.timed = true }

// RTT returns the last measured round-trip time; 0 if there is none.
func (q *QP) RTT() units.Time { return q.flow.rtt }

// Outstanding returns the window of PSNs and the payload of SENDs and WRITEs sent and not
// acknowledged.
func (q *QP) Outstanding() (Window, units.Bytes) { return q.req.psnWindow(), q.req.inFlight }

// Receive handles a packet for this queue pair; if its bytes are modelled, Payload has Length
// bytes. Of its headers only those of the opcode are used. grh precedes a datagram's payload in the
// receive buffer, or is nil if bytes are not modelled; RC and UC ignore it. Neither is kept. A
// truncated packet is dropped, since its ICRC is missing.
func (q *QP) Receive(now units.Time, p *roce.Packet, grh *[GRHLen]byte) {
	q.SetTime(now)
	op := p.BTH.Opcode
	if q.state < qp.RTR || q.state == qp.Err || !q.AcceptsService(op.Service()) || p.Truncated {
		return
	}
	if q.state == qp.RTR && !q.resp.established && q.config.Service != roce.UD {
		q.resp.established = true
		q.raiseEvent(qp.CommEst)
	}
	switch {
	case q.config.Service == roce.UD:
		q.handleUD(p, grh)
	case q.config.Service == roce.UC:
		q.handleUC(p)
	case op.Service() != q.wire:
		q.handleForeign(p)
	case q.config.Domain != nil:
		if !isResponse(op.Operation()) {
			q.handleRequest(p)
		}
	case isResponse(op.Operation()):
		if q.keepsDisordered() && op.Operation() != roce.Ack {
			q.receiveResponse(now, p)
		} else {
			q.handleResponse(now, p)
		}
	case op == roce.IRN.WithOperation(roce.Nack):
		q.handleIRNNACK(now, p)
	case op == roce.IRN.WithOperation(roce.ReadAck):
		q.readAck(now, p)
	case q.config.Service != roce.XRC: // an initiator takes no requests
		q.handleRequest(p)
	}
}

// NextExpiry returns when to call DoDueWork; units.Never means not at all. Any other call may change it.
func (q *QP) NextExpiry() units.Time {
	t := min(q.ackDeadline(), q.req.rnrTimer)
	if q.keepsDisordered() && (q.resp.replies > 0 || q.req.fetches > 0) {
		t = min(t, q.answersDeadline(), q.readDeadline())
	}
	if q.bus != nil {
		t = min(t, q.busDeadline())
	}
	return t
}

// DoDueWork does the work due at now.
func (q *QP) DoDueWork(now units.Time) {
	if q.bus != nil {
		q.bus.now = now
		q.completeLocal()
	}
	if q.req.rnrTimer <= now {
		q.endRNRWait(now)
	}
	if q.ackDeadline() <= now {
		q.handleTimeout(now)
	}
	if !q.keepsDisordered() || q.resp.replies == 0 && q.req.fetches == 0 {
		return
	}
	if q.answersDeadline() <= now {
		q.answersTimeout(now)
	}
	if q.readDeadline() <= now {
		q.counters.ReqTransportRetriesExceeded++
		q.failOldest(cq.RetryExcErr)
	}
}

// Kind is the kind of a packet for pacing and scheduling.
type Kind uint8

// The kinds.
const (
	Nothing  Kind = iota
	Control       // an ACK, a NAK or the response to an atomic
	Response      // of a READ
	Request
)

// Offer is the packet that a queue pair would send next.
type Offer struct {
	Kind  Kind
	Bytes units.Bytes // the UDP payload, from the BTH to the ICRC: the packet's Len
	Path  uint32      // of a datagram: SendWR.Path
}

// Offer returns the packet that Next would make. If both could be sent, Responses and Requests take
// turns, and Control goes first. Kind is Nothing if there is nothing to send before the next input.
func (q *QP) Offer() Offer {
	switch kind, _, psn, w := q.chooseNext(); kind {
	case Control, Response:
		return Offer{Kind: kind, Bytes: q.responseBytes()}
	case Request:
		return Offer{Kind: kind, Bytes: q.requestBytes(w, psn), Path: w.Path}
	}
	return Offer{}
}

// OfferBehind returns what NextRequest would make while Control is on offer: a request that need not
// wait for it, if acknowledgements have another class. Responses wait, since they leave in the
// order of PSNs.
func (q *QP) OfferBehind() Offer {
	if psn, w, ok := q.nextRequest(); ok {
		return Offer{Kind: Request, Bytes: q.requestBytes(w, psn), Path: w.Path}
	}
	return Offer{}
}

// Next fills p with the next packet and counts it as sent: the BTH and the headers of the opcode,
// as they would be decoded, and the payload, which it appends to p.Payload[:0], so that the caller
// decides where the bytes go and can reuse the room. Other headers stay as they were. It returns
// false if there is no packet, or if its data could not be read; then the error has been handled,
// and Offer returns what follows.
func (q *QP) Next(now units.Time, p *roce.Packet) bool {
	kind, f, psn, w := q.chooseNext()
	return q.makeNext(now, p, kind, f, psn, w)
}

// NextRequest is Next for the packet returned by OfferBehind.
func (q *QP) NextRequest(now units.Time, p *roce.Packet) bool {
	psn, w, ok := q.nextRequest()
	return ok && q.makeNext(now, p, Request, nil, psn, w)
}

func (q *QP) makeNext(now units.Time, p *roce.Packet, kind Kind, f *fetched, psn PSN, w *sendWQE) bool {
	if kind == Nothing {
		return false
	}
	p.BTH = roce.BTH{PKey: q.config.PKey, DestQP: q.attr.DestQP}
	p.Payload, p.Length, p.ICRC, p.Truncated = p.Payload[:0], 0, 0, false
	ok := true
	switch kind {
	case Control, Response:
		ok = q.makeResponse(now, f, p)
		q.turn = q.turn && kind == Control
	case Request:
		ok = q.emitRequest(now, w, psn, p)
		q.turn = true
	}
	p.BTH.Pad = roce.PadOf(p.Length)
	p.Extensions = p.BTH.Opcode.Extensions()
	return ok
}

// chooseNext finds the next packet: the READ or atomic it responds to, if any, or its PSN and work
// request.
func (q *QP) chooseNext() (kind Kind, f *fetched, psn PSN, w *sendWQE) {
	kind, f = q.nextResponse()
	if kind == Control || kind == Response && q.turn {
		return kind, f, 0, nil
	}
	if psn, w, ok := q.nextRequest(); ok {
		return Request, nil, psn, w
	}
	return kind, f, 0, nil
}

// packetsFor returns how many packets a message of n bytes takes.
func (q *QP) packetsFor(n uint32) uint32 {
	return max(1, uint32((uint64(n)+uint64(q.pathMTU())-1)>>q.mtuShift))
}

// keepsDisordered reports whether the peers keep packets that are out of order.
func (q *QP) keepsDisordered() bool { return q.wire == roce.IRN }

// isReliable reports whether packets are acknowledged, and sent again if they are lost.
func (q *QP) isReliable() bool { return q.config.Service == roce.RC || q.config.Service == roce.XRC }

// AcceptsService reports whether packets of a service are for a queue pair of this kind. RC and IRN are
// variants of one: the queue pair must detect that the peer uses the other.
func (q *QP) AcceptsService(s roce.Service) bool {
	if s == roce.IRN {
		s = roce.RC
	}
	return s == q.config.Service
}

func (q *QP) pathMTU() uint32 { return 1 << q.mtuShift }

func (q *QP) setMTU(n units.Bytes) {
	q.mtuShift = uint8(bits.TrailingZeros64(uint64(n)))
	if b := q.req.responses; b != nil {
		b.mtuShift = q.mtuShift
	}
}

// pieceLen returns the length of the k-th packet of a message of n bytes.
func (q *QP) pieceLen(n, k uint32) uint32 {
	return min(q.pathMTU(), n-k<<q.mtuShift)
}

func (q *QP) raiseEvent(e qp.Event) {
	if q.config.Events != nil {
		q.config.Events.Event(q.config.Number, e)
	}
}
