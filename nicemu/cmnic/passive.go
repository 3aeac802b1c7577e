package cmnic

import (
	"fmt"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

func (c *CM) receiveREQ(now units.Time, d *datagram, m *msg.REQ) {
	if x := c.peers[peer{m.CAGUID, m.LocalID}]; x != nil && x.passive && x.first == d.transaction && x.request.QPN == m.QPN && x.request.StartPSN == m.StartPSN {
		c.repeatedREQ(x)
		return
	}
	rej := &msg.REJ{RemoteID: m.LocalID, Subject: msg.SubjectREQ}
	if c.isKnown(now, m.CAGUID, m.LocalID, m.QPN) {
		c.counters.Stale++
		rej.Reason = msg.ReasonStaleConnection
		c.sendAnswer(d, rej)
		return
	}
	source, destination, reason := requestEnds(d, m.Service, m.PrivateData[:])
	transport, served := c.config.servedTransport(m)
	if problem := rejectReason(m, served); problem != 0 {
		reason = problem
	}
	if reason != 0 {
		c.counters.Refused++
		rej.Reason = reason
		c.sendAnswer(d, rej)
		return
	}
	l := c.listenerFor(m.Service, destination.Addr(), false)
	switch {
	case l == nil:
		c.counters.NoListener++
		rej.Reason = msg.ReasonInvalidServiceID
		c.sendAnswer(d, rej)
	case l.isFull():
		// As rdma_ucm: no answer, so that the other side tries again.
		c.counters.BacklogFull++
	default:
		c.handleREQ(d, m, transport, l, source, destination)
	}
}

// rejectReason returns why a REQ cannot be served, or 0.
func rejectReason(m *msg.REQ, served bool) msg.Reason {
	switch {
	case m.LocalID == 0:
		return msg.ReasonInvalidCommID
	case !served:
		return msg.ReasonInvalidTransport
	case !m.PathMTU.IsValid():
		return msg.ReasonInvalidMTU
	case m.QPN < 2:
		return msg.ReasonUnsupported
	}
	return 0
}

// servedTransport returns the transport that a REQ asks for, and whether the adapter has it: a reliable
// connection either with IRN or without.
func (c *Config) servedTransport(m *msg.REQ) (msg.Transport, bool) {
	if m.Transport == msg.TransportExtended {
		return msg.TransportRC, c.IRN && m.ExtendedTransport == msg.ExtendedIRN
	}
	return m.Transport, m.Transport == msg.TransportUC || m.Transport == msg.TransportRC && !c.IRN
}

// requestEnds returns both ends of a request: from the IP CM header, if the service has one, or from
// the packet. If a required header is missing, the request is refused as the consumer would (annex
// A11).
func requestEnds(d *datagram, id msg.ServiceID, private []byte) (source, destination netip.AddrPort, reason msg.Reason) {
	port, ip := id.Port()
	if !ip {
		return netip.AddrPortFrom(d.from, 0), netip.AddrPortFrom(d.to, 0), 0
	}
	var h msg.IPHeader
	if h.Decode(private) != nil {
		return source, netip.AddrPortFrom(d.to, port), msg.ReasonConsumer
	}
	return h.Source, netip.AddrPortFrom(h.Destination, port), 0
}

// consumerData returns the consumer's part of a request's private data.
func consumerData(id msg.ServiceID, private []byte) []byte {
	if _, ip := id.Port(); ip {
		return private[msg.IPHeaderLen:]
	}
	return private
}

func (c *CM) handleREQ(d *datagram, m *msg.REQ, transport msg.Transport, l *listener, source, destination netip.AddrPort) {
	x := c.newConn(d.to, d.from)
	x.state, x.passive, x.request, x.transaction, x.first = REQRcvd, true, m, d.transaction, d.transaction
	l.queueRequest(x)
	c.recordPeer(x, m.CAGUID, m.LocalID, m.QPN)
	// The REQ's local ACK timeout is a round trip and the delay of the other
	// side's adapter (IBTA §12.7).
	x.class, x.lifetime = m.Primary.TrafficClass, m.Primary.ACKTimeout.Time()
	x.retries, x.interval = int(m.MaxCMRetries), m.LocalTimeout.Time()+x.lifetime
	x.repeatSpan = units.Time(x.retries+1)*(m.RemoteTimeout.Time()+x.lifetime) + x.lifetime
	p := &m.Primary
	x.attributes = Attributes{
		Transport: transport, Local: x.local, Peer: x.peer, PathMTU: m.PathMTU, PeerQPN: m.QPN, SQPSN: m.StartPSN,
		MaxDestRDAtomic: m.InitiatorDepth, MaxRDAtomic: m.ResponderResources,
		ACKTimeout: ackTimeout(c.config.ACKDelay, max(p.ACKTimeout, 1)-1), RetryCount: m.RetryCount, RNRRetryCount: m.RNRRetryCount,
		FlowLabel: p.FlowLabel, TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, FlowControl: m.FlowControl, SRQ: m.SRQ,
	}
	c.addEvent(x, Event{
		Kind: Requested, Listener: l.id, Service: m.Service, Source: source, Destination: destination,
		Attributes: x.attributes, PrivateData: consumerData(m.Service, m.PrivateData[:]),
	})
}

// repeatedREQ answers a REQ that was received before.
func (c *CM) repeatedREQ(x *conn) {
	c.counters.Duplicates.countMessage(msg.AttributeREQ)
	switch x.state {
	case MRASent, REPSent, Refused: // MRA, REP, REJ
		c.sendAgain(x, x.reply)
	case TimeWait:
		c.sendOnce(x, &msg.REJ{RemoteID: x.remote, Subject: msg.SubjectREQ, Reason: msg.ReasonStaleConnection})
	}
}

// isKnown reports whether a REQ or REP names a connection or a queue pair that is in use here, which
// means that the other side has lost its state: a stale connection (IBTA §12.9). The state left
// here is removed.
func (c *CM) isKnown(now units.Time, guid uint64, id msg.CommID, qpn uint32) bool {
	a, b := c.peers[peer{guid, id}], c.queues[queue{guid, qpn}]
	for _, x := range []*conn{a, b} {
		if x != nil && x.state == Established {
			c.startDREQ(now, x, &msg.DREQ{})
		}
	}
	return a != nil || b != nil
}

// Accept is the acceptance of the passive side.
type Accept struct {
	QP QP
	// READs and atomics that the queue pair takes at once, and that it would send at once.
	// Attributes.AgreedWith computes the result.
	ResponderResources, InitiatorDepth uint8
	RNRRetryCount                      uint8  // of the other's queue pair, 0 to 7
	PrivateData                        []byte // up to 196 bytes
}

// CheckAccept returns what Accept would return and changes nothing, so that the queue pair can be
// made ready before the other side knows of it.
func (c *CM) CheckAccept(id msg.CommID, a Accept) (Attributes, error) {
	x, err := c.findConnection(id)
	switch {
	case err != nil:
		return Attributes{}, err
	case x.state != REQRcvd && x.state != MRASent:
		return Attributes{}, wrongState("acceptance", x)
	case !a.QP.isValid():
		return Attributes{}, fmt.Errorf("%w: queue pair %v", ErrParameter, a.QP)
	case a.RNRRetryCount > msg.RNRForever:
		return Attributes{}, fmt.Errorf("%w: RNR retry count %v", ErrParameter, a.RNRRetryCount)
	}
	return x.attributes.AgreedWith(&a), copyData(new(msg.REP).PrivateData[:], a.PrivateData)
}

// Accept answers a request with a REP (IBTA §12.9). Connected, Rejected or Unreachable follows. The
// attributes are those of Attributes.AgreedWith.
func (c *CM) Accept(now units.Time, id msg.CommID, a Accept) (Attributes, error) {
	agreed, err := c.CheckAccept(id, a)
	if err != nil {
		return Attributes{}, err
	}
	x := c.conns[id]
	rep := &msg.REP{
		LocalID: x.id, RemoteID: x.remote, QPN: a.QP.Number, StartPSN: a.QP.StartPSN, SRQ: a.QP.SRQ, FlowControl: a.QP.FlowControl,
		ResponderResources: agreed.MaxDestRDAtomic, InitiatorDepth: agreed.MaxRDAtomic, ACKDelay: c.config.ACKDelay,
		RNRRetryCount: a.RNRRetryCount, CAGUID: c.config.CAGUID,
	}
	if x.request.Alternate != (msg.Path{}) {
		rep.Failover = msg.FailoverNotSupported
	}
	_ = copyData(rep.PrivateData[:], a.PrivateData) // it fits: checked by CheckAccept
	x.leaveBacklog()
	x.attributes, x.qpn, x.state, x.reply = agreed, a.QP.Number, REPSent, rep
	c.sendUntilAnswered(now, x, rep)
	return agreed, nil
}

func (c *CM) receiveRTU(m *msg.RTU) {
	x := c.connectionOf(m.RemoteID, m.LocalID)
	switch {
	case x == nil:
		c.counters.Unexpected++
	case x.state == REPSent || x.state == RTUWait:
		c.handleEstablished(x, m.PrivateData[:])
	case x.passive:
		c.counters.Duplicates.countMessage(msg.AttributeRTU)
	default:
		c.counters.Unexpected++
	}
}

func (c *CM) handleEstablished(x *conn, privateData []byte) {
	c.stopRepeating(x)
	x.state = Established
	c.addEvent(x, Event{Kind: Connected, PrivateData: privateData})
}

// Established reports to the passive side that a packet has arrived on the connection's queue pair,
// which counts as an RTU (IBTA §12.9). Once established it changes nothing.
func (c *CM) Established(id msg.CommID) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	switch x.state {
	case REPSent, RTUWait:
		c.handleEstablished(x, nil)
	case Established, DREQSent, DREQRcvd:
	default:
		return wrongState("first packet", x)
	}
	return nil
}
