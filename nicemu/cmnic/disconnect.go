package cmnic

import (
	"fmt"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// Disconnect ends an established connection: with a DREQ, or, if the other side has sent one, with
// a DREP (IBTA §12.9). Private data has up to 220 or 224 bytes. If the connection is ending already
// it changes nothing.
func (c *CM) Disconnect(now units.Time, id msg.CommID, privateData []byte) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	switch x.state {
	case Established:
		dreq := new(msg.DREQ)
		if err := copyData(dreq.PrivateData[:], privateData); err != nil {
			return err
		}
		c.startDREQ(now, x, dreq)
	case DREQRcvd:
		drep := &msg.DREP{LocalID: x.id, RemoteID: x.remote}
		if err := copyData(drep.PrivateData[:], privateData); err != nil {
			return err
		}
		x.reply = drep
		c.sendOnce(x, drep)
		c.timeWait(now, x)
	case DREQSent, TimeWait:
	default:
		return wrongState("disconnection", x)
	}
	return nil
}

func (c *CM) startDREQ(now units.Time, x *conn, dreq *msg.DREQ) {
	dreq.LocalID, dreq.RemoteID, dreq.RemoteQPN = x.id, x.remote, x.attributes.PeerQPN
	x.state, x.transaction = DREQSent, uint64(x.id)
	c.sendUntilAnswered(now, x, dreq)
}

func (c *CM) receiveDREQ(now units.Time, d *datagram, m *msg.DREQ) {
	x := c.connectionOf(m.RemoteID, m.LocalID)
	if x == nil || x.state == Refused {
		// A side without the connection still releases the other (as Linux).
		c.counters.Unexpected++
		c.sendAnswer(d, &msg.DREP{LocalID: m.RemoteID, RemoteID: m.LocalID})
		return
	}
	if x.qpn != m.RemoteQPN {
		c.counters.Unexpected++
		return
	}
	x.transaction = d.transaction
	drep := &msg.DREP{LocalID: x.id, RemoteID: x.remote}
	switch x.state {
	case REPSent, RTUWait, REPRcvd, MRAREPSent, Established:
		// Before the RTU, it means that the RTU was lost.
		c.stopRepeating(x)
		x.state, x.reply = DREQRcvd, nil
		c.addEvent(x, Event{Kind: DisconnectRequested, PrivateData: m.PrivateData[:]})
	case DREQSent:
		x.reply = drep
		c.sendOnce(x, drep)
		c.addEvent(x, Event{Kind: Disconnected, PrivateData: m.PrivateData[:]})
		c.timeWait(now, x)
	case TimeWait:
		c.counters.Duplicates.countMessage(msg.AttributeDREQ)
		c.sendAgain(x, drep)
	case DREQRcvd:
		c.counters.Duplicates.countMessage(msg.AttributeDREQ)
	default:
		c.counters.Unexpected++
	}
}

func (c *CM) receiveDREP(now units.Time, m *msg.DREP) {
	x := c.connectionOf(m.RemoteID, m.LocalID)
	switch {
	case x == nil:
		c.counters.Unexpected++
	case x.state == DREQSent:
		c.addEvent(x, Event{Kind: Disconnected, PrivateData: m.PrivateData[:]})
		c.timeWait(now, x)
	case x.state == TimeWait:
		c.counters.Duplicates.countMessage(msg.AttributeDREP)
	default:
		c.counters.Unexpected++
	}
}

// Destroy ends a connection, or a resolution, from any state, so that the other side learns of it
// as soon as possible. No events follow.
func (c *CM) Destroy(now units.Time, id msg.CommID) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	switch x.state {
	case REQSent, REPWait:
		c.sendOnce(x, c.timeoutREJ(x))
		c.removeConn(x)
	case REQRcvd, MRASent, REPRcvd, MRAREPSent, REPSent, RTUWait:
		err = c.Reject(now, id, Reject{})
	case Established, DREQRcvd:
		err = c.Disconnect(now, id, nil)
	case SIDRREQSent:
		c.removeConn(x)
	case SIDRREQRcvd:
		err = c.AnswerResolution(now, id, Answer{Status: msg.SIDRRejected})
	}
	x.silent = true
	if err != nil {
		return fmt.Errorf("cm: destroying %#x: %w", uint32(id), err)
	}
	return nil
}
