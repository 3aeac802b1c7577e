package workload

import (
	"math"

	"github.com/weftlab/weft/sim/fairness"
)

// TransferSums is the total of several transfers.
type TransferSums struct {
	Transfers    int    `json:"transfers"`
	Posted       uint64 `json:"posted_messages"`
	Completed    uint64 `json:"completed_messages"`
	Failed       uint64 `json:"failed_messages"`
	FailedOf     int    `json:"failed_transfers"`        // transfers of which messages failed
	FirstFailure string `json:"first_failure,omitempty"` // of the first of these transfers
	Payload      int64  `json:"payload_bytes"`
	Received     int64  `json:"received_bytes"`

	// Goodput is the total of the payload that the transfers' goodputs count,
	// over the time from the first start to the last end.
	Goodput int64 `json:"goodput_bps"`
	// Fairness is Jain's index of the transfers' goodputs. Transfers that
	// posted nothing or whose messages are empty do not count; 0 if none counts,
	// or all goodputs are 0.
	Fairness float64 `json:"fairness"`

	TransferCounters
	RetransmittedShare float64 `json:"retransmitted_share"`
}

// SumTransfers adds up the results of transfers; nil if there are none.
func SumTransfers(results []TransferResult) *TransferSums {
	if len(results) == 0 {
		return nil
	}
	s := &TransferSums{Transfers: len(results)}
	var start, end, bits, goodput, squares float64
	counted, started := 0, false
	for i := range results {
		x := &results[i]
		s.Posted += x.Posted
		s.Completed += x.Completed
		s.Failed += x.Failed
		s.Payload += x.Payload
		s.Received += x.Received
		s.TransferCounters.AddCounters(x.TransferCounters)
		if x.Failed > 0 {
			s.FailedOf++
			if s.FirstFailure == "" {
				s.FirstFailure = x.FirstFailure
			}
		}
		if x.Posted == 0 {
			continue
		}
		if !started || x.Start < start {
			start = x.Start
		}
		started, end = true, max(end, x.End)
		if x.MessageSize == 0 {
			continue
		}
		g := float64(x.Goodput)
		counted, goodput, squares = counted+1, goodput+g, squares+g*g
		bits += g * (x.End - x.Start)
	}
	if end > start {
		s.Goodput = int64(math.Round(bits / (end - start)))
	}
	if squares > 0 {
		s.Fairness = fairness.JainOf(counted, goodput, squares)
	}
	if s.Packets > 0 {
		s.RetransmittedShare = float64(s.Retransmitted) / float64(s.Packets)
	}
	return s
}
