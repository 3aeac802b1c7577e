package cmnic

import (
	"encoding/binary"
	"errors"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// datagram holds the addresses of a received message.
type datagram struct {
	from, to    netip.Addr
	transaction uint64
}

// Receive takes the payload of a datagram to queue pair 1. Unreadable datagrams are counted;
// messages not allowed in the state are counted, and answered where the specification says so. The
// bytes are not kept.
func (c *CM) Receive(now units.Time, from, to netip.Addr, mad []byte) {
	h, m, err := msg.Parse(mad)
	d := &datagram{from.Unmap().WithZone(""), to.Unmap().WithZone(""), h.Transaction}
	if err != nil {
		c.counters.Malformed++
		if errors.Is(err, msg.ErrClass) {
			c.otherVersion(d, &h, mad)
		}
		return
	}
	c.counters.Received.countMessage(h.Attribute)
	switch m := m.(type) {
	case *msg.REQ:
		c.receiveREQ(now, d, m)
	case *msg.MRA:
		c.receiveMRA(now, m)
	case *msg.REJ:
		c.receiveREJ(now, m)
	case *msg.REP:
		c.receiveREP(now, d, m)
	case *msg.RTU:
		c.receiveRTU(m)
	case *msg.DREQ:
		c.receiveDREQ(now, d, m)
	case *msg.DREP:
		c.receiveDREP(now, m)
	case *msg.SIDRREQ:
		c.receiveSIDRREQ(d, m)
	case *msg.SIDRREP:
		c.receiveSIDRREP(m)
	case *msg.LAP:
		c.receiveLAP(d, m)
	default: // an APR: no LAP is ever sent
		c.counters.Unexpected++
	}
}

// otherVersion refuses requests of another version of the class, which begin
// with the same ID (IBTA §12.6.7.2, code 31; §12.11.2, status 5).
func (c *CM) otherVersion(d *datagram, h *msg.Header, mad []byte) {
	if h.Class != msg.Class || h.Method != msg.MethodSend {
		return
	}
	id := binary.BigEndian.Uint32(mad[msg.HeaderLen:])
	switch h.Attribute {
	case msg.AttributeREQ:
		c.sendAnswer(d, &msg.REJ{RemoteID: msg.CommID(id), Subject: msg.SubjectREQ, Reason: msg.ReasonInvalidClassVersion, InfoLen: 1, Info: [msg.REJInfoLen]byte{msg.ClassVersion}})
	case msg.AttributeSIDRREQ:
		c.sendAnswer(d, &msg.SIDRREP{RequestID: id, Status: msg.SIDRUnsupportedVersion, InfoLen: 1, Info: [msg.SIDRREPInfoLen]byte{msg.ClassVersion}})
	}
}

// receiveLAP refuses an alternate path (IBTA §12.8.2).
func (c *CM) receiveLAP(d *datagram, m *msg.LAP) {
	apr := &msg.APR{LocalID: m.RemoteID, RemoteID: m.LocalID, Status: msg.APUnsupported}
	if x := c.connectionOf(m.RemoteID, m.LocalID); x == nil || x.state == Refused {
		c.counters.Unexpected++
		apr.Status = msg.APInvalidCommID
	}
	c.sendAnswer(d, apr)
}

// connectionOf returns the connection with both IDs, or nil.
func (c *CM) connectionOf(ours, theirs msg.CommID) *conn {
	x := c.conns[ours]
	if x == nil || x.remote == 0 || x.remote != theirs {
		return nil
	}
	return x
}

// sendAnswer sends an answer to a datagram without a connection.
func (c *CM) sendAnswer(d *datagram, m msg.Message) {
	c.counters.Sent.countMessage(m.Attribute())
	c.sends = append(c.sends, Send{From: d.to, To: d.from, Transaction: d.transaction, Message: m})
}
