package cmnic

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	msg "github.com/weftlab/weft/protocols/cm"
)

// describe prints a message in one line, with the fields of interest.
func describe(m msg.Message) string {
	switch m := m.(type) {
	case *msg.REQ:
		s := fmt.Sprintf("local=%x service=%v qpn=%d psn=%d responder=%d initiator=%d timeouts=%d/%d retries=%d rnr=%d cm-retries=%d mtu=%v ack=%d label=%d",
			m.LocalID, m.Service, m.QPN, m.StartPSN, m.ResponderResources, m.InitiatorDepth, m.RemoteTimeout, m.LocalTimeout,
			m.RetryCount, m.RNRRetryCount, m.MaxCMRetries, m.PathMTU, m.Primary.ACKTimeout, m.Primary.FlowLabel)
		var h msg.IPHeader
		if _, _, ip := m.Service.IP(); ip && h.Decode(m.PrivateData[:]) == nil {
			return s + fmt.Sprintf(" ip=%v>%v", h.Source, h.Destination) + quote(m.PrivateData[msg.IPHeaderLen:])
		}
		return s + quote(m.PrivateData[:])
	case *msg.REP:
		s := fmt.Sprintf("local=%x remote=%x qpn=%d psn=%d responder=%d initiator=%d rnr=%d delay=%d", m.LocalID, m.RemoteID, m.QPN, m.StartPSN, m.ResponderResources, m.InitiatorDepth, m.RNRRetryCount, m.ACKDelay)
		if m.Failover != 0 {
			s += fmt.Sprintf(" failover=%d", m.Failover)
		}
		return s + quote(m.PrivateData[:])
	case *msg.RTU:
		return fmt.Sprintf("local=%x remote=%x", m.LocalID, m.RemoteID) + quote(m.PrivateData[:])
	case *msg.MRA:
		return fmt.Sprintf("local=%x remote=%x subject=%d timeout=%d", m.LocalID, m.RemoteID, m.Subject, m.ServiceTimeout) + quote(m.PrivateData[:])
	case *msg.REJ:
		s := fmt.Sprintf("local=%x remote=%x subject=%d reason=%d (%v)", m.LocalID, m.RemoteID, m.Subject, uint16(m.Reason), m.Reason)
		if m.InfoLen > 0 {
			s += fmt.Sprintf(" info=%x", m.Info[:min(m.InfoLen, msg.REJInfoLen)])
		}
		return s + quote(m.PrivateData[:])
	case *msg.DREQ:
		return fmt.Sprintf("local=%x remote=%x qpn=%d", m.LocalID, m.RemoteID, m.RemoteQPN) + quote(m.PrivateData[:])
	case *msg.DREP:
		return fmt.Sprintf("local=%x remote=%x", m.LocalID, m.RemoteID) + quote(m.PrivateData[:])
	case *msg.SIDRREQ:
		s := fmt.Sprintf("id=%x service=%v", m.RequestID, m.Service)
		var h msg.IPHeader
		if _, _, ip := m.Service.IP(); ip && h.Decode(m.PrivateData[:]) == nil {
			return s + fmt.Sprintf(" ip=%v>%v", h.Source, h.Destination) + quote(m.PrivateData[msg.IPHeaderLen:])
		}
		return s + quote(m.PrivateData[:])
	case *msg.SIDRREP:
		return fmt.Sprintf("id=%x status=%d (%v) qpn=%d qkey=%x", m.RequestID, m.Status, m.Status, m.QPN, m.QKey) + quote(m.PrivateData[:])
	case *msg.LAP:
		return fmt.Sprintf("local=%x remote=%x", m.LocalID, m.RemoteID)
	case *msg.APR:
		return fmt.Sprintf("local=%x remote=%x status=%d (%v)", m.LocalID, m.RemoteID, m.Status, m.Status)
	}
	return ""
}

// quote prints private data as the text it is in the tests.
func quote(b []byte) string {
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return ""
	}
	return fmt.Sprintf(" %q", b)
}

func describeEvent(e *Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %x", e.Kind, uint32(e.ID))
	if e.Listener != 0 {
		fmt.Fprintf(&b, " listener=%d service=%v %v>%v", e.Listener, e.Service, e.Source, e.Destination)
	}
	if e.Attributes != (Attributes{}) {
		b.WriteString(" " + describeAttributes(&e.Attributes))
	}
	if e.Reason != 0 {
		fmt.Fprintf(&b, " reason=%d (%v)", uint16(e.Reason), e.Reason)
	}
	if len(e.Info) > 0 {
		fmt.Fprintf(&b, " info=%x", e.Info)
	}
	if e.Kind == Resolved {
		fmt.Fprintf(&b, " status=%d (%v) qpn=%d qkey=%x", e.Status, e.Status, e.QPN, e.QKey)
	}
	b.WriteString(quote(e.PrivateData))
	return b.String()
}

func describeAttributes(a *Attributes) string {
	return fmt.Sprintf("%v-%v mtu=%v peer-qpn=%d rq-psn=%d sq-psn=%d max-dest-rd=%d max-rd=%d ack=%d retry=%d rnr=%d label=%d class=%d hops=%d",
		a.Local, a.Peer, a.PathMTU, a.PeerQPN, a.RQPSN, a.SQPSN, a.MaxDestRDAtomic, a.MaxRDAtomic, a.ACKTimeout, a.RetryCount, a.RNRRetryCount, a.FlowLabel, a.TrafficClass, a.HopLimit)
}

// end is a CM with an address.
type end struct {
	*CM
	name string
	addr netip.Addr
}
