package transport

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Recovery is the loss recovery of one RC queue pair, at both ends of a stream: the decisions of
// its requester and of its responder. It sees PSNs only; the queue pair knows what they stand for:
// a PSN of a READ stands for a packet of the response, and sending it means requesting all of the
// response from there on.
//
// Each queue pair has a separate Recovery.
type Recovery interface {
	Sender
	Receiver
	// Service is the service in the opcodes of its packets: roce.RC, or roce.IRN, whose receiver
	// may keep packets.
	Service() roce.Service
}

// Sender decides for the sending end of a stream of PSNs what to send again, and when.
type Sender interface {
	// Reset clears the state.
	Reset()
	// Next chooses the PSN to send now: one in the window, which is sent again, or w.Next, a new
	// one. ok is false if nothing may be sent now. It may be called any number of times before
	// something is sent.
	Next(w Window) (psn PSN, ok bool)
	// OnSent reports that n PSNs from psn on have been sent; w includes them already. This may be the
	// newest of the window though Next did not choose it, to request an acknowledgement.
	OnSent(w Window, psn PSN, n uint32)
	// OnAcked reports that w.Una has moved up.
	OnAcked(w Window)
	// OnRefusal reports that the peer asks for w.Una, for a reason. seen is a PSN after it that the
	// peer is known to have, or w.Una. The result says whether anything is sent again because of
	// it; if not, the loss was known already and does not count as a retry.
	OnRefusal(w Window, why Refusal, seen PSN) bool
	// OnExpiry reports that nothing was acknowledged for the time returned by Timeout.
	OnExpiry(w Window)
	// RetryTime returns how long a queue pair with this number of retries in its attributes
	// continues without progress; 0 means to count retries instead.
	RetryTime(retries uint8, local units.Time) units.Time
	// ExpiryTime returns how long to wait for an acknowledgement, given the local ACK timeout of the
	// queue pair; units.Never means for ever. It may be called at any time and may change with the
	// window.
	ExpiryTime(w Window, local units.Time) units.Time
}

// ByMessage is implemented by the Recovery of a requester that depends on messages too, and not on
// PSNs alone.
type ByMessage interface {
	// SetMessages is called once, before all else. end returns the first PSN after the message,
	// which is a work request, that a PSN of the window belongs to; some PSNs before it may never
	// have been sent.
	SetMessages(end func(psn PSN) PSN)
}

// Receiver decides for the receiving end of a stream of PSNs how to handle packets out of order.
type Receiver interface {
	// Reset clears the state.
	Reset()
	// JudgeArrival judges a request packet that arrived while expected was the next PSN.
	JudgeArrival(expected, psn PSN) Verdict
	// OnRNR reports that the responder was not ready to receive a packet, though it was in
	// order, and has said so: the packet will be sent again.
	OnRNR()
}

// Window is the range of PSNs that a sender has sent and that are not known to have arrived.
type Window struct {
	Una  PSN // the oldest
	Next PSN // after the newest: the first that has never been sent
}

// Len is the number of PSNs outstanding.
func (w Window) Len() uint32 { return w.Next.From(w.Una) }

// Refusal is the reason why a packet must be sent again.
type Refusal uint8

// The reasons.
const (
	NakSequence  Refusal = iota // a NAK for a PSN sequence error
	NakRNR                      // an RNR NAK; nothing is sent before its time is over
	NakImplied                  // a response after a missing one of a READ or atomic
	NakSelective                // a NACK of IRN: seen is kept
)

// Verdict is what a responder does with a packet. Verdicts that keep it are for packets of IRN:
// those of RC do not say where they belong.
type Verdict uint8

// The verdicts.
const (
	Accept    Verdict = iota // it is the expected one
	Duplicate                // it came before
	Drop                     // it is out of order and ignored
	DropNak                  // it is out of order and answered with a NAK
	Keep                     // it is out of order, placed, kept, and answered with a NACK
	Hold                     // the same, but it is placed in its turn
)
