package transport

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// GoBackN is the loss recovery of the specification, as NICs have it: the
// responder takes packets only in order and sends one NAK for a gap (§9.7.4.1);
// the requester sends everything again from the PSN that is missing (§9.7.2).
type GoBackN struct {
	limit  uint32 // PSNs that may be outstanding when a new packet is sent; 0 means no limit
	at     PSN    // the next to send
	begun  bool   // at is set
	went   bool   // it went back, and nothing has been acknowledged since
	silent bool   // no NAK until the expected packet comes
}

// NewGoBackN makes the recovery of a queue pair.
func NewGoBackN() Recovery { return &GoBackN{} }

// Reset clears the state.
func (g *GoBackN) Reset() { *g = GoBackN{limit: g.limit} }

// Next goes in order.
func (g *GoBackN) Next(w Window) (PSN, bool) {
	if !g.begun {
		return w.Next, true
	}
	return g.at, g.limit == 0 || g.at != w.Next || w.Len() < g.limit
}

// OnSent advances.
func (g *GoBackN) OnSent(_ Window, psn PSN, n uint32) { g.at, g.begun = psn.Add(n), true }

// OnAcked skips packets that need not be sent again.
func (g *GoBackN) OnAcked(w Window) {
	if w.Next.From(g.at) > w.Len() {
		g.at = w.Una
	}
	g.went = false
}

// OnRefusal goes back to the oldest packet. Every further response is another implied NAK: only the
// first counts.
func (g *GoBackN) OnRefusal(w Window, why Refusal, _ PSN) bool {
	if g.at == w.Una || why == NakImplied && g.went {
		return false
	}
	g.goBack(w)
	return true
}

// OnExpiry goes back to the oldest packet.
func (g *GoBackN) OnExpiry(w Window) { g.goBack(w) }

func (g *GoBackN) goBack(w Window) { g.at, g.went = w.Una, true }

// Service returns roce.RC, as in the specification.
func (g *GoBackN) Service() roce.Service { return roce.RC }

// RetryTime returns 0, to count retries.
func (g *GoBackN) RetryTime(uint8, units.Time) units.Time { return 0 }

// ExpiryTime returns the local ACK timeout.
func (g *GoBackN) ExpiryTime(_ Window, local units.Time) units.Time { return local }

// JudgeArrival accepts only the expected packet.
func (g *GoBackN) JudgeArrival(expected, psn PSN) Verdict {
	switch {
	case psn == expected:
		g.silent = false
		return Accept
	case psn.Before(expected):
		return Duplicate
	case g.silent:
		return Drop
	}
	g.silent = true
	return DropNak
}

// OnRNR makes the responder drop packets after the one it refused (§9.7.5.2.8).
func (g *GoBackN) OnRNR() { g.silent = true }
