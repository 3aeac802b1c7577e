package cmnic

import (
	"fmt"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events, and which fields they have in addition to ID.
const (
	// Requested: a REQ has come for a listener. Accept, Reject or ProlongTimeout it.
	// Has Listener, Service, Source, Destination, Attributes, PrivateData.
	Requested Kind = iota
	// Replied: a REP has come. Confirm, Reject or ProlongTimeout it. Has Attributes,
	// PrivateData.
	Replied
	// Connected: the RTU has come, or Established was called. Has PrivateData
	// in the first case.
	Connected
	// Rejected: the other side has refused; the connection is gone, or in
	// TimeWait. Has Reason, Info, PrivateData.
	Rejected
	// Unreachable: no answer came to a REQ, REP or SIDR_REQ; it is gone.
	Unreachable
	// DisconnectRequested: a DREQ has come. Disconnect answers it. Has
	// PrivateData.
	DisconnectRequested
	// Disconnected: the connection is in TimeWait. Has Reason if it did not end
	// by DREQ and DREP: ReasonTimeout if no DREP came, or that of a REJ; and
	// PrivateData.
	Disconnected
	// TimeWaitExit: no packet of the connection is under way, so its queue pair
	// may be used again; the connection is gone.
	TimeWaitExit
	// ResolveRequested: a SIDR_REQ has come for a listener of datagrams. Answer
	// it. Has Listener, Service, Source, Destination, PrivateData.
	ResolveRequested
	// Resolved: a SIDR_REP has come; the resolution is gone. Has Status, Info,
	// PrivateData, and if Status is SIDRValid QPN and QKey.
	Resolved
)

var kindNames = [...]string{"Requested", "Replied", "Connected", "Rejected", "Unreachable", "DisconnectRequested", "Disconnected", "TimeWaitExit", "ResolveRequested", "Resolved"}

// String returns the name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event reports something to the consumer that it did not do itself.
type Event struct {
	Kind        Kind
	ID          msg.CommID
	Listener    ListenID
	Service     msg.ServiceID
	Source      netip.AddrPort // of the other side; port 0 unless Service is an IP port
	Destination netip.AddrPort // of our side
	Attributes  Attributes
	Reason      msg.Reason
	Info        []byte // additional reject information
	Status      msg.SIDRStatus
	QPN, QKey   uint32
	PrivateData []byte // padded to the message's full length, without the IP CM header
}
