package cmnic

import (
	"encoding/binary"
	"fmt"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// Reject is the refusal of the consumer.
type Reject struct {
	Reason      msg.Reason // 0 for ReasonConsumer
	Info        []byte     // additional reject information, up to 72 bytes
	PrivateData []byte     // up to 148 bytes
}

// Reject refuses a request or a reply, or withdraws an unconfirmed acceptance, with a REJ. The
// connection is gone.
func (c *CM) Reject(now units.Time, id msg.CommID, r Reject) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	rej := &msg.REJ{LocalID: x.id, RemoteID: x.remote, Reason: r.Reason, InfoLen: uint8(len(r.Info))}
	if rej.Reason == 0 {
		rej.Reason = msg.ReasonConsumer
	}
	switch x.state {
	case REQRcvd, MRASent:
		rej.Subject = msg.SubjectREQ
	case REPRcvd, MRAREPSent:
		rej.Subject = msg.SubjectREP
	case REPSent, RTUWait:
		rej.Subject = msg.SubjectOther
	default:
		return wrongState("rejection", x)
	}
	if len(r.Info) > len(rej.Info) {
		return fmt.Errorf("%w: %d bytes of reject information, at most %d", ErrParameter, len(r.Info), len(rej.Info))
	}
	copy(rej.Info[:], r.Info)
	if err := copyData(rej.PrivateData[:], r.PrivateData); err != nil {
		return err
	}
	c.sendOnce(x, rej)
	c.lingerConnection(now, x, rej, x.repeatTime())
	return nil
}

// timeoutREJ says that we no longer wait (IBTA §12.6.7.2, code 4). The other side may not know our
// ID yet, so it carries our GUID.
func (c *CM) timeoutREJ(x *conn) *msg.REJ {
	rej := &msg.REJ{LocalID: x.id, RemoteID: x.remote, Subject: msg.SubjectOther, Reason: msg.ReasonTimeout, InfoLen: 8}
	binary.BigEndian.PutUint64(rej.Info[:], c.config.CAGUID)
	return rej
}

// connectionOfREJ finds the connection that a REJ is about.
func (c *CM) connectionOfREJ(m *msg.REJ) *conn {
	if m.RemoteID == 0 && m.Reason == msg.ReasonTimeout && m.InfoLen >= 8 {
		return c.peers[peer{binary.BigEndian.Uint64(m.Info[:]), m.LocalID}]
	}
	x := c.conns[m.RemoteID]
	if x != nil && x.remote != 0 && x.remote != m.LocalID {
		return nil
	}
	return x
}

func (c *CM) receiveREJ(now units.Time, m *msg.REJ) {
	x := c.connectionOfREJ(m)
	if x == nil {
		c.counters.Unexpected++
		return
	}
	e := Event{Kind: Rejected, Reason: m.Reason, Info: m.Info[:min(m.InfoLen, msg.REJInfoLen)], PrivateData: m.PrivateData[:]}
	switch x.state {
	case REQSent, REPWait:
		if m.Subject == msg.SubjectREP {
			c.counters.Unexpected++
			return
		}
		c.addEvent(x, e)
		if m.Reason == msg.ReasonStaleConnection {
			// The other side removes its state of our queue pair, which must not be used before
			// that is done.
			c.timeWait(now, x)
			return
		}
		c.removeConn(x)
	case REQRcvd, MRASent, REPSent, RTUWait:
		c.addEvent(x, e)
		c.lingerConnection(now, x, &msg.REJ{RemoteID: x.remote, Subject: msg.SubjectREQ, Reason: msg.ReasonStaleConnection}, x.lifetime)
	case REPRcvd, MRAREPSent:
		c.addEvent(x, e)
		c.timeWait(now, x)
	case Established, DREQSent:
		e.Kind = Disconnected
		c.addEvent(x, e)
		c.timeWait(now, x)
	case TimeWait, Refused:
		c.counters.Duplicates.countMessage(msg.AttributeREJ)
	default:
		c.counters.Unexpected++
	}
}
