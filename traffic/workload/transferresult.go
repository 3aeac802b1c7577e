package workload

import "io"

// TransferCounters are the NICs' counters of a transfer's queue pairs, at both
// ends together. Packets are the packets with the messages' data, and READ
// requests; acknowledgements and CNPs are not included.
type TransferCounters struct {
	Packets       uint64 `json:"sent_packets"`          // including retransmissions
	Retransmitted uint64 `json:"retransmitted_packets"` // of those, retransmissions
	Bytes         uint64 `json:"sent_bytes"`            // of those packets: frames without FCS, as ports count them
	NAKs          uint64 `json:"naks"`                  // that requested retransmission (PSN sequence error)
	RNRNAKs       uint64 `json:"rnr_naks"`              // receiver not ready
	Timeouts      uint64 `json:"timeouts"`              // of the local ACK timer
	CNPs          uint64 `json:"cnps"`                  // passed to a rate control
	Marked        uint64 `json:"marked_packets"`        // received with CE
	OutOfSequence uint64 `json:"out_of_sequence_packets"`
}

// AddCounters adds d, such as the counters of another queue pair.
func (c *TransferCounters) AddCounters(d TransferCounters) {
	c.Packets += d.Packets
	c.Retransmitted += d.Retransmitted
	c.Bytes += d.Bytes
	c.NAKs += d.NAKs
	c.RNRNAKs += d.RNRNAKs
	c.Timeouts += d.Timeouts
	c.CNPs += d.CNPs
	c.Marked += d.Marked
	c.OutOfSequence += d.OutOfSequence
}

// TransferResult is a transfer's record in the form in which it is written.
// Times are emulated. A completion time is the time from posting a message to
// its completion, a slowdown is that time over the ideal one. Percentiles are
// of the messages that completed: exact for up to 128 of them, otherwise within
// 1%.
type TransferResult struct {
	Transfer     string  `json:"transfer"`
	Verb         string  `json:"verb"`    // write, read, send
	Service      string  `json:"service"` // RC, UC, UD
	From         string  `json:"from"`    // host that posts
	To           string  `json:"to"`
	MessageSize  int64   `json:"message_bytes"`
	QPs          int64   `json:"qps"` // queue pairs in parallel
	Posted       uint64  `json:"posted_messages"`
	Completed    uint64  `json:"completed_messages"` // successfully; posted messages that neither completed nor failed were under way
	Failed       uint64  `json:"failed_messages"`
	FirstFailure string  `json:"first_failure"`       // status of the first that failed: IBV_WC_...
	Payload      int64   `json:"payload_bytes"`       // of completed messages
	Received     int64   `json:"received_bytes"`      // payload that arrived at the data's destination
	Start        float64 `json:"start_s" digits:"9"`  // first message posted
	End          float64 `json:"end_s" digits:"9"`    // last completion; with UC and UD last arrival; while messages are under way the time of the result
	Goodput      int64   `json:"goodput_bps"`         // Payload over the time from Start to End; with UC and UD, or while messages are under way, Received
	Ideal        float64 `json:"ideal_us" digits:"6"` // completion time of a message alone on its path; 0: not known

	CompletionMin  float64 `json:"completion_min_us" digits:"3"`
	CompletionMean float64 `json:"completion_mean_us" digits:"3"`
	CompletionP25  float64 `json:"completion_p25_us" digits:"3"`
	CompletionP50  float64 `json:"completion_p50_us" digits:"3"`
	CompletionP75  float64 `json:"completion_p75_us" digits:"3"`
	CompletionP90  float64 `json:"completion_p90_us" digits:"3"`
	CompletionP95  float64 `json:"completion_p95_us" digits:"3"`
	CompletionP99  float64 `json:"completion_p99_us" digits:"3"`
	CompletionP999 float64 `json:"completion_p999_us" digits:"3"` // 99.9%
	CompletionMax  float64 `json:"completion_max_us" digits:"3"`
	SlowdownMean   float64 `json:"slowdown_mean" digits:"4"`
	SlowdownP50    float64 `json:"slowdown_p50" digits:"4"`
	SlowdownP99    float64 `json:"slowdown_p99" digits:"4"`
	SlowdownMax    float64 `json:"slowdown_max" digits:"4"`

	TransferCounters
	RetransmittedShare float64 `json:"retransmitted_share" digits:"6"` // of sent packets

	Outages       uint64  `json:"outages"` // times that it stalled because links were down
	OutageLongest float64 `json:"outage_longest_us" digits:"3"`
}

// WriteTransfersJSON writes results as a JSON array.
func WriteTransfersJSON(w io.Writer, results []TransferResult) error { return writeJSON(w, results) }

// WriteTransfersCSV writes results as CSV with a header line; the columns are
// named like the fields of the JSON form.
func WriteTransfersCSV(w io.Writer, results []TransferResult) error { return writeCSV(w, results) }
