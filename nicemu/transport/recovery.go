package transport

import (
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// Recovery is the loss recovery of one RC queue pair, at both ends of a stream: what
// its requester needs to know, and what its responder does. It sees PSNs only. What
// they stand for, the queue pair knows: a PSN of a READ stands for a packet of the
// response, and sending it means to ask for all of the response from there on.
//
// Each queue pair has its own.
type Recovery interface {
	Sender
	Receiver
	// Service is what the opcodes of its packets say: roce.RC, or roce.IRN, whose
	// receiver may keep packets.
	Service() roce.Service
}

// Sender decides for the sending end of a stream of PSNs what is sent again, and when.
type Sender interface {
	// Reset forgets everything.
	Reset()
	// Next chooses the PSN to send now: one of the window's, which is sent again,
	// or w.Next, a new one. ok is false if nothing may be sent now. It may be
	// called any number of times before something is sent.
	Next(w Window) (psn PSN, ok bool)
	// Sent tells that n PSNs from psn on have been sent; w has them already. That may
	// be the newest of the window though Next did not choose it, to ask for an
	// acknowledgement.
	Sent(w Window, psn PSN, n uint32)
	// Acked tells that w.Una has moved up.
	Acked(w Window)
	// Refused tells that the peer asks for w.Una, for a reason. seen is a PSN
	// behind it that the peer is known to have, or w.Una. The answer is whether
	// that leads to anything being sent again; if not, it was known already and
	// does not count as a retry.
	Refused(w Window, why Refusal, seen PSN) bool
	// Expired tells that nothing was acknowledged for the time that Timeout gave.
	Expired(w Window)
	// Patience is how long a queue pair with these many retries left by its attributes
	// goes on without progress; 0 counts retries instead.
	Patience(retries uint8, local units.Time) units.Time
	// Timeout is how long to wait for an acknowledgement, given the local ACK
	// timeout of the queue pair; units.Never for ever. It is asked at any time
	// and may change with the window.
	Timeout(w Window, local units.Time) units.Time
}

// ByMessage is what the Recovery of a requester implements that goes by messages too, and
// not by PSNs alone.
type ByMessage interface {
	// SetMessages is called once, before all else. end gives the first PSN behind the
	// message, which is a work request, that a PSN of the window is of; some PSNs in front
	// of it may never have been sent.
	SetMessages(end func(psn PSN) PSN)
}

// Receiver decides for the receiving end of a stream of PSNs what becomes of packets
// out of order.
type Receiver interface {
	// Reset forgets everything.
	Reset()
	// Arrived judges a request packet that has come while expected was the PSN
	// to come next.
	Arrived(expected, psn PSN) Verdict
	// Postponed tells that the responder, though the packet was in order, was not
	// ready to receive it and has said so: it will come again.
	Postponed()
}

// Window is what the sender of a stream has sent and does not know to have arrived.
type Window struct {
	Una  PSN // the oldest
	Next PSN // behind the newest: the first that has never been sent
}

// Len is the number of PSNs outstanding.
func (w Window) Len() uint32 { return w.Next.From(w.Una) }

// Refusal is why a sender learns that something has to be sent again.
type Refusal uint8

// The reasons.
const (
	NakSequence  Refusal = iota // a NAK for a PSN sequence error
	NakRNR                      // an RNR NAK; nothing is sent before its time is over
	NakImplied                  // a response behind one of a READ or atomic that is missing
	NakSelective                // a NACK of IRN: seen is kept
)

// Verdict is what a responder does with a packet. Those that keep it are for packets of
// IRN: those of RC do not say where they belong.
type Verdict uint8

// The verdicts.
const (
	Accept    Verdict = iota // it is the expected one
	Duplicate                // it came before
	Drop                     // it is out of order and ignored
	DropNak                  // it is out of order and answered by a NAK
	Keep                     // it is out of order, placed, kept, and answered by a NACK
	Hold                     // the same, but it is placed in its turn
)
