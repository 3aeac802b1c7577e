package transport

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// IRN is the loss recovery of Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018,
// §3: the responder keeps packets that are out of order and answers each with a NACK that names it;
// the requester resends only missing packets, and limits packets in flight to the bandwidth-delay
// product (BDP-FC).
type IRN struct {
	settings *IRNSettings
	limit    uint32 // of packets in flight

	sacked     []uint64 // bitmap of the window, by PSN; empty until the first NACK
	cleared    PSN      // earlier bits are 0
	high       PSN      // the newest named by a NACK
	named      bool     // there is one in the window
	recovering bool
	end        PSN  // recovery is over when una gets here
	again      PSN  // earlier PSNs are not sent again in this recovery
	first      bool // send the oldest again in any case
	expired    bool // a timeout was part of this recovery
	probing    bool // after that the newest is sent again
	probe      PSN
}

// NewIRN makes the recovery of a queue pair.
func NewIRN(s *IRNSettings) *IRN {
	i := &IRN{settings: s, limit: uint32(s.inFlightLimit())}
	if i.limit == 0 {
		i.limit = windowLimit
	}
	return i
}

// Reset clears the state.
func (i *IRN) Reset() {
	clear(i.sacked)
	*i = IRN{settings: i.settings, limit: i.limit, sacked: i.sacked}
}

// Service returns roce.IRN.
func (i *IRN) Service() roce.Service { return roce.IRN }

// Bitmaps returns five: the responder has two for requests, since packets out of order may be kept
// or have ended a message, and one for acknowledged responses; the requester has one for
// acknowledged requests and one for responses (§6.1). A NIC has them in words of 32 bits.
func (i *IRN) Bitmaps() (count, bits int) { return 5, int(i.settings.responderBitmap()+31) &^ 31 }

// Next returns a lost packet, or a new one if BDP-FC allows.
func (i *IRN) Next(w Window) (PSN, bool) {
	if i.recovering {
		if psn, ok := i.findLost(w); ok {
			return psn, true
		}
	}
	return w.Next, w.Len() < i.limit
}

// findLost finds the oldest packet that was not sent again yet and is considered lost: one before the
// newest that the responder has named (§3.1).
func (i *IRN) findLost(w Window) (PSN, bool) {
	if i.first {
		return w.Una, true
	}
	if i.probing {
		return i.probe, true
	}
	if !i.named {
		return 0, false
	}
	late := uint32(i.settings.Reordering)
	if i.expired {
		late = 1 // a packet still missing after that long is not merely late
	}
	for ; i.again.From(w.Una)+late <= i.high.From(w.Una); i.again = i.again.Add(1) {
		if !i.isAcked(i.again) {
			return i.again, true
		}
	}
	return 0, false
}

func (i *IRN) bitOf(psn PSN) (word *uint64, mask uint64) {
	at := int(psn) & (64*len(i.sacked) - 1)
	return &i.sacked[at/64], 1 << (at % 64)
}

// isAcked reports whether a PSN of the window, not after high, has been acknowledged.
func (i *IRN) isAcked(psn PSN) bool {
	word, mask := i.bitOf(psn)
	return *word&mask != 0
}

func (i *IRN) dropPacket(psn PSN) {
	if len(i.sacked) > 0 {
		word, mask := i.bitOf(psn)
		*word &^= mask
	}
}

// OnSent records a retransmission.
func (i *IRN) OnSent(w Window, psn PSN, _ uint32) {
	switch {
	case !i.first && i.probing && psn == i.probe:
		i.probing = false
	case i.first && psn == w.Una:
		i.first = false
		if i.again == psn {
			i.again = psn.Add(1)
		}
	case i.recovering && i.named && psn == i.again && psn.Before(i.high):
		i.again = psn.Add(1)
	}
}

// OnAcked ends a recovery that has reached its end.
func (i *IRN) OnAcked(w Window) {
	if i.named {
		for ; i.cleared.Before(w.Una) && !i.high.Before(i.cleared); i.cleared = i.cleared.Add(1) {
			i.dropPacket(i.cleared)
		}
		i.named = !i.high.Before(w.Una)
	}
	if !i.recovering {
		return
	}
	i.first = false
	i.recovering = w.Una.Before(i.end)
	i.expired = i.expired && i.recovering
	i.probing = i.probing && i.recovering && !i.probe.Before(w.Una)
	if i.again.Before(w.Una) {
		i.again = w.Una
	}
}

// OnRefusal records the packet that a NACK names, and starts recovery if that means a loss. After an
// RNR NAK the oldest is sent again: the responder received it and could not take it.
func (i *IRN) OnRefusal(w Window, why Refusal, seen PSN) bool {
	if why != NakSelective {
		i.dropPacket(w.Una)
		i.startRecovery(w)
		i.first = true
		return true
	}
	if i.settings.Resend == ResendOldest {
		return i.resendOldest(w, seen)
	}
	for int(w.Len()) > 64*len(i.sacked) {
		i.growBitmap(w)
	}
	if !i.named {
		i.cleared, i.high, i.named = w.Una, seen, true
	}
	word, mask := i.bitOf(seen)
	if *word&mask != 0 {
		return false
	}
	*word |= mask
	if i.high.Before(seen) {
		i.high = seen
	}
	if i.recovering || i.high.From(w.Una) < uint32(i.settings.Reordering) {
		return false
	}
	i.startRecovery(w)
	return true
}

// resendOldest makes the oldest packet be sent again, once for each packet that is the oldest when
// a NACK arrives.
func (i *IRN) resendOldest(w Window, seen PSN) bool {
	if seen.From(w.Una) < uint32(i.settings.Reordering) || i.recovering && (i.first || i.again != w.Una) {
		return false
	}
	i.startRecovery(w)
	i.first = true
	return true
}

// startRecovery starts recovery, or restarts it.
func (i *IRN) startRecovery(w Window) {
	if !i.recovering {
		i.recovering, i.end = true, w.Next
	}
	i.again = w.Una
}

func (i *IRN) growBitmap(w Window) {
	old := *i
	i.sacked = make([]uint64, max(2, 2*len(i.sacked)))
	if !i.named {
		return
	}
	for psn := w.Una; !old.high.Before(psn); psn = psn.Add(1) {
		if old.isAcked(psn) {
			word, mask := i.bitOf(psn)
			*word |= mask
		}
	}
}

// OnExpiry starts recovery with the oldest packet. The newest is sent again after it, if it is not
// known to have arrived: when all of a window's last packets are lost no NACK names any, and each
// would wait for a separate timeout. The NACK of the newest shows which are missing. This is not in
// the paper; TCP does it (tail loss probes, RFC 8985).
func (i *IRN) OnExpiry(w Window) {
	i.dropPacket(w.Una)
	i.startRecovery(w)
	i.first, i.expired = true, true
	i.probe = w.Next.Add(roce.PSNMask)
	i.probing = i.settings.Resend == ResendLost && i.probe != w.Una && !(i.named && i.high == i.probe)
}

// ExpiryTime returns RTO_low while few packets are in flight, when a spurious timeout costs little,
// otherwise RTO_high (§3.1).
func (i *IRN) ExpiryTime(w Window, local units.Time) units.Time {
	switch {
	case i.settings.Timeouts == LocalTimeouts:
		return local
	case w.Len() < uint32(i.settings.Few):
		return i.settings.RTOLow
	}
	return i.settings.RTOHigh
}

// RetryTime returns as many local ACK timeouts as there are tries: a number of retries would be used
// up within some 100 us.
func (i *IRN) RetryTime(retries uint8, local units.Time) units.Time {
	if local == units.Never {
		return units.Never
	}
	return units.Time(retries+1) * local
}

// JudgeArrival keeps packets within the bitmap (§6.2).
func (i *IRN) JudgeArrival(expected, psn PSN) Verdict {
	switch {
	case psn == expected:
		return Accept
	case psn.Before(expected):
		return Duplicate
	case psn.From(expected) >= i.settings.responderBitmap():
		return Drop
	case i.settings.Placement == PlaceOrdered:
		return Hold
	}
	return Keep
}

// OnRNR changes nothing: later packets are kept.
func (i *IRN) OnRNR() {}
