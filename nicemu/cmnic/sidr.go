package cmnic

import (
	"fmt"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// Resolve asks which queue pair takes datagrams for a service.
type Resolve struct {
	Service      msg.ServiceID // if it is a port, the IP CM header precedes the private data
	Local        netip.AddrPort
	Peer         netip.Addr // of Local's IP version
	PKey         uint16
	TrafficClass uint8
	PrivateData  []byte // up to 216 bytes, or 180 behind an IP CM header
}

// Resolve sends a SIDR_REQ (IBTA §12.11). Resolved or Unreachable follows.
func (c *CM) Resolve(now units.Time, r Resolve) (msg.CommID, error) {
	if !r.Local.Addr().IsValid() || !r.Peer.IsValid() || r.Local.Addr().Is4() != r.Peer.Is4() {
		return 0, fmt.Errorf("%w: addresses %v and %v", ErrParameter, r.Local.Addr(), r.Peer)
	}
	r.Local, r.Peer = netip.AddrPortFrom(r.Local.Addr().WithZone(""), r.Local.Port()), r.Peer.WithZone("")
	req := &msg.SIDRREQ{PKey: r.PKey, Service: r.Service}
	if err := putPrivateData(req.PrivateData[:], r.Service, r.Local, r.Peer, r.PrivateData); err != nil {
		return 0, err
	}
	x := c.newConn(r.Local.Addr(), r.Peer)
	req.RequestID = uint32(x.id)
	x.state, x.class, x.transaction = SIDRREQSent, r.TrafficClass, uint64(x.id)
	c.setTiming(x)
	c.sendUntilAnswered(now, x, req)
	return x.id, nil
}

func (c *CM) receiveSIDRREP(m *msg.SIDRREP) {
	x := c.conns[msg.CommID(m.RequestID)]
	if x == nil || x.state != SIDRREQSent {
		c.counters.Unexpected++
		return
	}
	c.addEvent(x, Event{
		Kind: Resolved, Service: m.Service, Status: m.Status, QPN: m.QPN, QKey: m.QKey,
		Info: m.Info[:min(m.InfoLen, msg.SIDRREPInfoLen)], PrivateData: m.PrivateData[:],
	})
	c.removeConn(x)
}

// asker identifies a resolution as the other side does. A SIDR_REQ carries no GUID.
type asker struct {
	from        netip.Addr
	id          uint32
	transaction uint64
}

func (c *CM) receiveSIDRREQ(d *datagram, m *msg.SIDRREQ) {
	key := asker{d.from, m.RequestID, d.transaction}
	if x := c.resolving[key]; x != nil {
		c.counters.Duplicates.countMessage(msg.AttributeSIDRREQ)
		if x.state == SIDRREPSent {
			c.sendAgain(x, x.reply)
		}
		return
	}
	rep := &msg.SIDRREP{RequestID: m.RequestID, Service: m.Service}
	source, destination, reason := requestEnds(d, m.Service, m.PrivateData[:])
	if reason != 0 {
		c.counters.Refused++
		rep.Status = msg.SIDRRejected
		c.sendAnswer(d, rep)
		return
	}
	l := c.listenerFor(m.Service, destination.Addr(), true)
	switch {
	case l == nil:
		c.counters.NoListener++
		rep.Status = msg.SIDRUnsupported
		c.sendAnswer(d, rep)
	case l.isFull():
		c.counters.BacklogFull++
	default:
		x := c.newConn(d.to, d.from)
		x.state, x.passive, x.transaction, x.inAsking = SIDRREQRcvd, true, d.transaction, key
		c.setTiming(x)
		x.reply = rep
		l.queueRequest(x)
		c.resolving[key] = x
		c.addEvent(x, Event{
			Kind: ResolveRequested, Listener: l.id, Service: m.Service, Source: source, Destination: destination,
			PrivateData: consumerData(m.Service, m.PrivateData[:]),
		})
	}
}

// Answer is the answer of the passive side of a resolution.
type Answer struct {
	Status      msg.SIDRStatus
	QPN         uint32 // 24 bits, if Status is SIDRValid
	QKey        uint32
	Info        []byte // up to 72 bytes
	PrivateData []byte // up to 136 bytes
}

// AnswerResolution sends a SIDR_REP. The resolution is gone; a repeated SIDR_REQ gets the
// same answer for as long as a CM with this configuration repeats it.
func (c *CM) AnswerResolution(now units.Time, id msg.CommID, a Answer) error {
	x, err := c.findConnection(id)
	switch {
	case err != nil:
		return err
	case x.state != SIDRREQRcvd:
		return wrongState("answer", x)
	case a.QPN >= 1<<24:
		return fmt.Errorf("%w: queue pair %d", ErrParameter, a.QPN)
	case len(a.Info) > msg.SIDRREPInfoLen:
		return fmt.Errorf("%w: %d bytes of information, at most %d", ErrParameter, len(a.Info), msg.SIDRREPInfoLen)
	}
	rep := *x.reply.(*msg.SIDRREP)
	rep.Status, rep.QPN, rep.QKey, rep.InfoLen = a.Status, a.QPN, a.QKey, uint8(len(a.Info))
	copy(rep.Info[:], a.Info)
	if err := copyData(rep.PrivateData[:], a.PrivateData); err != nil {
		return err
	}
	x.leaveBacklog()
	x.state, x.reply = SIDRREPSent, &rep
	c.sendOnce(x, &rep)
	c.armTimer(x, now+x.repeatSpan)
	return nil
}
