package status

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// PhaseLock says that senders whose clocks agree exactly keep their packets in the same phase,
// so that those of one are lost at a full queue again and again. Either a queue pair lost the
// same packet, or a flow nearly all packets while another of the same rate lost few.
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

	OneHost bool `json:"one_host,omitempty"` // the port is that of the host that sends both flows
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
	if p.OneHost {
		return "flows of one host can stay in phase for ever: let one use poisson instead of cbr, or another rate"
	}
	return "senders with exact clocks can stay in phase for ever: give the hosts clocks that differ, such as clock: {ppm: 25, jitter: 100ns} with another ppm for each"
}
