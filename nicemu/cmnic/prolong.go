package cmnic

import (
	"fmt"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// ProlongTimeout sends an MRA that tells the other side to wait for timeout, counted from its receipt, for
// an answer to its REQ or REP (IBTA §12.6.6). It may be repeated. Private data has up to 222 bytes.
func (c *CM) ProlongTimeout(id msg.CommID, timeout msg.Timeout, privateData []byte) error {
	x, err := c.findConnection(id)
	if err != nil {
		return err
	}
	if timeout > msg.MaxTimeout {
		return fmt.Errorf("%w: service timeout %d", ErrParameter, timeout)
	}
	mra := &msg.MRA{LocalID: x.id, RemoteID: x.remote, ServiceTimeout: timeout}
	if err := copyData(mra.PrivateData[:], privateData); err != nil {
		return err
	}
	next := MRASent
	switch x.state {
	case REQRcvd, MRASent:
		mra.Subject = msg.SubjectREQ
	case REPRcvd, MRAREPSent:
		mra.Subject, next = msg.SubjectREP, MRAREPSent
	default:
		return wrongState("prolongation", x)
	}
	x.state, x.reply = next, mra
	x.promised = max(x.promised, timeout.Time())
	c.sendOnce(x, mra)
	return nil
}

func (c *CM) receiveMRA(now units.Time, m *msg.MRA) {
	x := c.conns[m.RemoteID]
	next := Idle
	switch {
	case x == nil:
	case m.Subject == msg.SubjectREQ && (x.state == REQSent || x.state == REPWait):
		next = REPWait
	case m.Subject == msg.SubjectREP && x.remote == m.LocalID && (x.state == REPSent || x.state == RTUWait):
		next = RTUWait
	}
	if next == Idle {
		c.counters.Unexpected++
		return
	}
	x.state = next
	c.armTimer(x, now+m.ServiceTimeout.Time()+c.config.roundTrip())
}
