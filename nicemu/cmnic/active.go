package cmnic

import (
	"fmt"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// Connect is a connection request of the active side.
type Connect struct {
	// Service is the destination. If it is a port (msg.ServiceID.Port), the IP CM header precedes
	// the private data and contains Local's port.
	Service       msg.ServiceID
	Local         netip.AddrPort
	Peer          netip.Addr // of Local's IP version
	Transport     msg.Transport
	QP            QP
	PathMTU       msg.MTU
	PKey          uint16
	RetryCount    uint8 // of both queue pairs, 0 to 7
	RNRRetryCount uint8 // of the other's queue pair, 0 to 7
	// READs and atomics that the queue pair takes at once, and that it would
	// send at once.
	ResponderResources, InitiatorDepth uint8
	FlowLabel                          uint32 // 20 bits; 0 for that of rdma_cm for the ports
	TrafficClass                       uint8
	HopLimit                           uint8
	// PrivateData has up to 92 bytes, or 56 behind an IP CM header.
	PrivateData []byte
}

// FlowLabel returns the flow label that Linux's rdma_cm computes from two ports
// (cma_get_roce_udp_flow_label).
func FlowLabel(source, destination uint16) uint32 {
	return (uint32(source)*31 + uint32(destination)) & 0xfffff
}

func (a *Connect) checkRequest() error {
	wrong := func(what string, v any) error { return fmt.Errorf("%w: %s %v", ErrParameter, what, v) }
	switch {
	case !a.Local.Addr().IsValid() || !a.Peer.IsValid() || a.Local.Addr().Is4() != a.Peer.Is4():
		return wrong("addresses", fmt.Sprint(a.Local.Addr(), " and ", a.Peer))
	case a.Transport != msg.TransportRC && a.Transport != msg.TransportUC:
		return wrong("transport", a.Transport)
	case !a.QP.isValid():
		return wrong("queue pair", a.QP)
	case !a.PathMTU.IsValid():
		return wrong("path MTU", uint8(a.PathMTU))
	case a.RetryCount > msg.MaxRetries:
		return wrong("retry count", a.RetryCount)
	case a.RNRRetryCount > msg.RNRForever:
		return wrong("RNR retry count", a.RNRRetryCount)
	case a.FlowLabel >= 1<<20:
		return wrong("flow label", a.FlowLabel)
	}
	return nil
}

// putPrivateData puts private data behind an IP CM header, if the service has one.
func putPrivateData(to []byte, service msg.ServiceID, local netip.AddrPort, peer netip.Addr, data []byte) error {
	if _, ip := service.Port(); ip {
		h := msg.IPHeader{Source: local, Destination: peer}
		h.EncodeTo(to)
		to = to[msg.IPHeaderLen:]
	}
	return copyData(to, data)
}

// Connect sends a REQ (IBTA §12.9). Replied, Rejected or Unreachable
// follows.
func (c *CM) Connect(now units.Time, a Connect) (msg.CommID, error) {
	if err := a.checkRequest(); err != nil {
		return 0, err
	}
	a.Local, a.Peer = netip.AddrPortFrom(a.Local.Addr().WithZone(""), a.Local.Port()), a.Peer.WithZone("")
	if port, ip := a.Service.Port(); ip && a.FlowLabel == 0 {
		a.FlowLabel = FlowLabel(a.Local.Port(), port)
	}
	req := &msg.REQ{
		Service: a.Service, CAGUID: c.config.CAGUID, QPN: a.QP.Number, StartPSN: a.QP.StartPSN, SRQ: a.QP.SRQ, FlowControl: a.QP.FlowControl,
		ResponderResources: a.ResponderResources, InitiatorDepth: a.InitiatorDepth, Transport: a.Transport,
		RemoteTimeout: c.config.ResponseTimeout, LocalTimeout: c.config.ResponseTimeout, MaxCMRetries: c.config.MaxRetries,
		RetryCount: a.RetryCount, RNRRetryCount: a.RNRRetryCount, PKey: a.PKey, PathMTU: a.PathMTU,
		Primary: msg.Path{
			LocalLID: msg.PermissiveLID, RemoteLID: msg.PermissiveLID, LocalGID: msg.GIDOf(a.Local.Addr()), RemoteGID: msg.GIDOf(a.Peer),
			FlowLabel: a.FlowLabel, TrafficClass: a.TrafficClass, HopLimit: a.HopLimit, ACKTimeout: ackTimeout(c.config.ACKDelay, c.config.PacketLifetime),
		},
	}
	if a.Transport == msg.TransportRC && c.config.IRN {
		req.Transport, req.ExtendedTransport = msg.TransportExtended, msg.ExtendedIRN
	}
	if err := putPrivateData(req.PrivateData[:], a.Service, a.Local, a.Peer, a.PrivateData); err != nil {
		return 0, err
	}
	x := c.newConn(a.Local.Addr(), a.Peer)
	req.LocalID = x.id
	x.state, x.request, x.qpn, x.class = REQSent, req, a.QP.Number, a.TrafficClass
	x.transaction = uint64(x.id)
	c.setTiming(x)
	x.attributes = Attributes{
		Transport: a.Transport, Local: x.local, Peer: x.peer, PathMTU: a.PathMTU, RQPSN: a.QP.StartPSN,
		RetryCount: a.RetryCount, FlowLabel: a.FlowLabel, TrafficClass: a.TrafficClass, HopLimit: a.HopLimit,
	}
	c.sendUntilAnswered(now, x, req)
	return x.id, nil
}

// setTiming sets the timing of a connection of the active side from the configuration.
func (c *CM) setTiming(x *conn) {
	trip := c.config.roundTrip()
	x.retries, x.interval, x.lifetime = int(c.config.MaxRetries), c.config.ResponseTimeout.Time()+trip, trip
	x.repeatSpan = units.Time(x.retries+1)*x.interval + trip
}

func (c *CM) receiveREP(now units.Time, d *datagram, m *msg.REP) {
	x := c.conns[m.RemoteID]
	switch {
	case x == nil:
		// The other side waits for an RTU that will never come (IBTA §12.6.7.2).
		c.counters.Unexpected++
		c.sendAnswer(d, &msg.REJ{LocalID: m.RemoteID, RemoteID: m.LocalID, Subject: msg.SubjectREP, Reason: msg.ReasonInvalidCommID})
	case x.remote != 0 && !x.passive:
		c.repeatedREP(x, m)
	case x.state != REQSent && x.state != REPWait:
		c.counters.Unexpected++
	case c.isKnown(now, m.CAGUID, m.LocalID, m.QPN):
		c.counters.Stale++
		c.sendAnswer(d, &msg.REJ{LocalID: m.RemoteID, RemoteID: m.LocalID, Subject: msg.SubjectREP, Reason: msg.ReasonStaleConnection})
	case m.LocalID == 0 || m.QPN < 2:
		c.counters.Refused++
		c.sendAnswer(d, &msg.REJ{LocalID: m.RemoteID, RemoteID: m.LocalID, Subject: msg.SubjectREP, Reason: msg.ReasonUnsupported})
	default:
		c.handleREP(x, m)
	}
}

func (c *CM) handleREP(x *conn, m *msg.REP) {
	c.stopRepeating(x)
	c.recordPeer(x, m.CAGUID, m.LocalID, m.QPN)
	x.state = REPRcvd
	x.lifetime = c.config.roundTrip() + m.ACKDelay.Time()
	a := &x.attributes
	a.PeerQPN, a.SQPSN, a.FlowControl, a.SRQ = m.QPN, m.StartPSN, m.FlowControl, m.SRQ
	a.RNRRetryCount, a.ACKTimeout = m.RNRRetryCount, ackTimeout(m.ACKDelay, c.config.PacketLifetime)
	// A passive side may announce more READs than the REQ offers. Only the consumer's queue pair
	// knows whether it can serve them.
	a.MaxDestRDAtomic, a.MaxRDAtomic = m.InitiatorDepth, min(x.request.InitiatorDepth, m.ResponderResources)
	c.addEvent(x, Event{Kind: Replied, Attributes: *a, PrivateData: m.PrivateData[:]})
}

// repeatedREP answers a REP that was received before, or after the connection has ended.
func (c *CM) repeatedREP(x *conn, m *msg.REP) {
	if x.remote != m.LocalID {
		c.counters.Unexpected++
		return
	}
	c.counters.Duplicates.countMessage(msg.AttributeREP)
	switch x.state {
	case MRAREPSent, Established, Refused: // MRA, RTU, REJ
		c.sendAgain(x, x.reply)
	}
}

// Confirm accepts a REP: an RTU is sent, and the connection is established
// (IBTA §12.9). Private data has up to 224 bytes.
func (c *CM) Confirm(id msg.CommID, privateData []byte) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	if x.state != REPRcvd && x.state != MRAREPSent {
		return wrongState("confirmation", x)
	}
	rtu := &msg.RTU{LocalID: x.id, RemoteID: x.remote}
	if err := copyData(rtu.PrivateData[:], privateData); err != nil {
		return err
	}
	x.state, x.reply = Established, rtu
	c.sendOnce(x, rtu)
	return nil
}
