package status

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// PhaseLock says that the packets of one sender are lost at a full queue again and again, as they
// are if the clocks of senders agree exactly and keep their packets in the same phase. Either a
// queue pair lost the same packet, or a flow nearly all packets while another of the same rate
// lost few.
type PhaseLock struct {
	Port string `json:"port"` // where the packets were lost

	// Of a queue pair.
	From  string `json:"from,omitempty"` // the NIC that sent the packet
	To    string `json:"to,omitempty"`   // the address that it was for
	QPN   uint32 `json:"qpn,omitempty"`  // the queue pair there
	PSN   uint32 `json:"psn,omitempty"`
	Times uint32 `json:"times,omitempty"` // that the packet was lost in succession

	// Of a flow.
	Flow      string  `json:"flow,omitempty"`
	Share     float64 `json:"loss_share,omitempty"` // lost at the port, of its packets that were lost there or received
	Other     string  `json:"other,omitempty"`
	OtherLoss float64 `json:"other_loss_share,omitempty"`

	OneHost  bool `json:"one_host,omitempty"` // the port is that of the host that sends both flows
	Drifting bool `json:"drifting,omitempty"` // the sender's clock is not exact, so clocks are not the cause
}

// Text returns a readable description of a phase lock.
func (p *PhaseLock) Text() string {
	if p.Flow == "" {
		return fmt.Sprintf("%s dropped the packet with PSN %d from %s to queue pair %d of %s %d times in a row", p.Port, p.PSN, p.From, p.QPN, p.To, p.Times)
	}
	return fmt.Sprintf("%s dropped %s of flow %s, but %s of %s, which sends at the same rate", p.Port, units.FormatPercent(p.Share, 3), p.Flow, units.FormatPercent(p.OtherLoss, 3), p.Other)
}

// Remedy says what keeps senders from staying in phase.
func (p *PhaseLock) Remedy() string {
	switch {
	case p.OneHost:
		return "flows of one host can stay in phase for ever: let one use poisson instead of cbr, or another rate"
	case p.Drifting:
		return "senders that never pause lose the same packet again sooner or later: use PFC, a rate control, a longer timeout or fewer messages at once"
	}
	return "senders with exact clocks can stay in phase for ever: write clock: real, which makes the clocks of all nodes differ, as those of real ones do"
}
