package roguenic

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/rogue"
	"github.com/weftlab/weft/sim/units"
)

// control is the endpoint of a NIC's layer for messages to other layers: a UD queue pair.
type control struct {
	layer  *Layer
	pd     *nicemu.PD
	cq     *nicemu.CQ
	qp     *nicemu.QP
	buffer []byte
	mr     *nicemu.MR
	task   *nicemu.Task
	peers  map[qp.GID]*peer
}

// peer is a host that the layer has connections to.
type peer struct {
	handle *nicemu.AH // nil until it is known to have the layer
	plain  bool       // it is known to have none
	qpn    uint32
	waits  []*pair // for the host to be known
}

const (
	talkReceives = 64
	talkRoom     = transport.GRHLen + rogue.MessageLen // of a datagram
)

// newControl makes the endpoint, and answers layers that look for it.
func newControl(l *Layer) (c *control, err error) {
	d := l.device
	c = &control{layer: l, peers: map[qp.GID]*peer{}, buffer: make([]byte, talkReceives*talkRoom)}
	if c.pd, err = d.AllocPD(); err != nil {
		return nil, err
	}
	if c.mr, err = c.pd.Register(c.buffer, nicemu.LocalWrite); err != nil {
		return nil, err
	}
	if c.cq, err = d.CreateCQ(4*talkReceives, nil); err != nil {
		return nil, err
	}
	c.qp, err = c.pd.CreateQP(nicemu.QPConfig{
		Type: nicemu.UD, SendCQ: c.cq, RecvCQ: c.cq,
		Cap: nicemu.QPCap{MaxSendWR: talkReceives, MaxRecvWR: talkReceives, MaxRecvSGE: 1, MaxSendSGE: 1, MaxInline: rogue.MessageLen},
	})
	if err != nil {
		return nil, err
	}
	if err := c.qp.Join(nicemu.Join{QKey: rogue.QKey}); err != nil {
		return nil, err
	}
	for i := range uint64(talkReceives) {
		if err := c.postReceive(i); err != nil {
			return nil, err
		}
	}
	c.task = d.NewTask(c.handleDatagrams)
	c.cq.NotifyEach(func() { c.task.SetTime(d.Now()) })
	_, err = d.ListenDatagrams(netip.AddrPortFrom(netip.Addr{}, rogue.Port), func(nicemu.Datagrams) (nicemu.ResolveAnswer, bool) {
		return nicemu.ResolveAnswer{QPN: c.qp.Number(), QKey: rogue.QKey}, true
	})
	return c, err
}

func (c *control) postReceive(i uint64) error {
	return c.qp.PostRecv(&nicemu.RecvWR{ID: i, SGL: []nicemu.SGE{c.mr.SGE(units.Bytes(i*talkRoom), talkRoom)}})
}

// findPeer looks for the layer of a host, once, and tells a pair when it is found.
func (l *Layer) findPeer(to qp.GID, p *pair) {
	c := l.talk
	if c == nil {
		return
	}
	if x := c.peers[to]; x != nil {
		x.notifyPair(p)
		return
	}
	x := &peer{}
	x.notifyPair(p)
	c.peers[to] = x
	at := netip.AddrPortFrom(nicemu.AddressOf(to), rogue.Port)
	err := l.device.Resolve(at, nil, func(r nicemu.Resolved) {
		if r.Err != nil {
			x.plain, x.waits = true, nil
			return
		}
		h, err := c.pd.CreateAHTo(at.Addr())
		if err != nil {
			return
		}
		x.handle, x.qpn = h, r.QPN
		for _, p := range x.waits {
			x.notifyPair(p)
		}
		x.waits = nil
	})
	if err != nil {
		delete(c.peers, to)
	}
}

// notifyPair informs a pair that the host has the layer, now or once that is known: a pair of type UC
// says hello, and for others the NIC retries less often.
func (x *peer) notifyPair(p *pair) {
	switch {
	case x.plain:
	case x.handle == nil:
		x.waits = append(x.waits, p)
	case p.layer.pairs[p.raw.Number()] != p || p.flow[out] == nil:
	case p.uc != nil:
		p.uc.greet.SetTime(p.layer.device.Now())
	default:
		p.live.SetRetryCount(p.RetryCount(p.chosenRetries()))
	}
}

// knowsPeer reports whether a host is known to have the layer.
func (l *Layer) knowsPeer(to qp.GID) bool {
	return l.talk != nil && l.talk.peers[to] != nil && l.talk.peers[to].handle != nil
}

// sendMessage sends a message to the layer of a host; false if the host is not known to have one. It may be
// lost.
func (l *Layer) sendMessage(to qp.GID, m *rogue.Message) bool {
	if !l.knowsPeer(to) {
		return false
	}
	x := l.talk.peers[to]
	var b [rogue.MessageLen]byte
	wr := nicemu.SendWR{Op: nicemu.OpSend, Inline: m.Append(b[:0]), Path: x.handle.Path(), DestQP: x.qpn, QKey: rogue.QKey, Flags: nicemu.Signaled}
	if l.talk.qp.PostSend(&wr) != nil {
		return true // the queue is full: as if it was lost
	}
	l.work.Messages++
	return true
}

// handleDatagrams handles received datagrams.
func (c *control) handleDatagrams(units.Time) {
	var batch [16]nicemu.Completion
	for {
		n, err := c.cq.Poll(batch[:])
		if n == 0 || err != nil {
			return
		}
		for i := range batch[:n] {
			c.handleCompletion(&batch[i])
		}
	}
}

func (c *control) handleCompletion(e *nicemu.Completion) {
	if e.Opcode != cq.Recv || e.Status != cq.Success {
		return
	}
	b := c.buffer[e.ID*talkRoom:][:talkRoom]
	from, ok := nicemu.SenderOf(b[:transport.GRHLen])
	m, err := rogue.Parse(b[transport.GRHLen:min(uint32(talkRoom), e.ByteLen)])
	if ok && err == nil {
		c.layer.handleMessage(nicemu.GID(from), &m)
	}
	_ = c.postReceive(e.ID) // the queue has room: the receive was taken from it
}

// handleMessage handles a message about a connection.
func (l *Layer) handleMessage(from qp.GID, m *rogue.Message) {
	p := l.pairs[m.To]
	if p == nil || p.dying || (m.Kind == rogue.Hello || m.Kind == rogue.HelloReply) != (p.uc != nil) {
		return
	}
	a, _ := p.raw.Query()
	if a.State < qp.RTR || a.DestQPN != m.From || a.AV.DGID != from {
		return // of another connection
	}
	switch m.Kind {
	case rogue.Hello, rogue.HelloReply:
		p.uc.receiveHello(m)
	case rogue.Resync:
		p.resyncWithPeer(m)
	case rogue.ResyncReply:
		p.resyncReply(m)
	case rogue.ResyncDone:
		p.resyncDone(m)
	case rogue.ReadLimit:
		p.failover.answers = m.Limit
		p.setLimiter()
	}
}

// tellLimit tells the peer how fast it may answer READs; false if it has no layer.
func (p *pair) tellLimit(r units.Rate) bool {
	to, _ := p.raw.Peer()
	a, _ := p.raw.Query()
	return p.layer.sendMessage(to, &rogue.Message{Kind: rogue.ReadLimit, From: p.raw.Number(), To: a.DestQPN, Limit: r})
}
