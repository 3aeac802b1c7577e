package cmnic

import (
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
)

// Attributes are the attributes for the consumer's queue pair, from INIT to RTR and to RTS (IBTA
// §11.2).
type Attributes struct {
	Transport   msg.Transport // RC or UC
	Local, Peer netip.Addr    // of the two ports
	PathMTU     msg.MTU
	PeerQPN     uint32
	RQPSN       uint32 // of the first packet to receive
	SQPSN       uint32 // of the first packet to send

	// READs and atomics under way at once: sent by the peer, and sent by us. In a Requested event
	// they are what the peer wants and takes.
	MaxDestRDAtomic, MaxRDAtomic uint8

	ACKTimeout    msg.Timeout // local ACK timeout
	RetryCount    uint8       // 0 to 7
	RNRRetryCount uint8       // 0 to 7, 7 for no limit
	FlowLabel     uint32      // 20 bits; both directions use the REQ's
	TrafficClass  uint8
	HopLimit      uint8
	FlowControl   bool // the peer respects end-to-end credits
	SRQ           bool // the peer has a shared receive queue
}

// QP describes the consumer's queue pair.
type QP struct {
	Number      uint32 // 2 to 0xffffff
	StartPSN    uint32 // of the first packet that it takes, sent to the peer; 24 bits
	SRQ         bool   // it has a shared receive queue
	FlowControl bool   // it respects end-to-end credits
}

func (q *QP) isValid() bool { return q.Number > 1 && q.Number < 1<<24 && q.StartPSN < 1<<24 }

// AgreedWith returns the attributes of the passive side's queue pair when a request is accepted: the
// lesser of the two sides' values for READs and atomics (IBTA §12.7).
func (a Attributes) AgreedWith(accept *Accept) Attributes {
	a.RQPSN = accept.QP.StartPSN
	a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, accept.ResponderResources)
	a.MaxRDAtomic = min(a.MaxRDAtomic, accept.InitiatorDepth)
	return a
}

// ackTimeout returns the local ACK timeout for a delay of the other side's adapter and a packet
// lifetime (IBTA §12.7). As in Linux's cm_ack_timeout, it grows by one step only if the delay
// matters.
func ackTimeout(delay, lifetime msg.Timeout) msg.Timeout {
	t := lifetime + 1
	switch {
	case t >= delay && delay+1 >= t:
		t++
	case t < delay && t+1 >= delay:
		t = delay + 1
	case t < delay:
		t = delay
	}
	return min(t, msg.MaxTimeout)
}
