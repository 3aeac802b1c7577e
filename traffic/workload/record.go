package workload

import (
	"io"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Record is the outcome of a flow: the sender's and the receiver's side.
type Record struct {
	flow     Flow
	from, to string

	// The sender's side. The two sides may belong to different engines, so
	// they share no cache line.
	sent                uint64
	firstSent, lastSent units.Time
	returned            uint64
	_                   [64]byte

	// The receiver's side.
	received           uint64
	marked             uint64
	trimmed            uint64
	duplicated         uint64
	reordered          uint64
	lastCame           units.Time
	shortest           units.Time // delay, one way
	delayMax, delaySum int64      // one way, ns
	seen               window
	links              *outage.Window
	gaps               outage.Log
	delay              histogram // one way
}

// NewRecord begins the record of a flow between two named hosts.
func NewRecord(f Flow, from, to string) *Record {
	return &Record{flow: f, from: from, to: to, links: &outage.None}
}

// WatchOutages tells the record of link failures, in a window that the receiver's engine keeps.
func (r *Record) WatchOutages(w *outage.Window) { r.links = w }

func (r *Record) countSent(now units.Time) {
	if r.sent == 0 {
		r.firstSent = now
	}
	r.sent++
	r.lastSent = now
}

// ReceivePacket records a packet of the flow at a host: at its destination or, if it is Returned,
// at its source. Of a Trimmed packet the payload did not arrive. The packet stays the caller's.
func (r *Record) ReceivePacket(now units.Time, p *packet.Packet) {
	switch {
	case p.Returned:
		r.returned++
		return
	case p.Trimmed:
		r.trimmed++
		return
	}
	if r.lastCame <= r.links.To {
		r.stoodStill(now, p.Seq)
	}
	switch r.seen.addSequence(p.Seq) {
	case again:
		r.duplicated++
		return
	case late:
		r.reordered++
	}
	r.received++
	r.lastCame = now
	if p.ECN() == wire.CE {
		r.marked++
	}
	took := now - p.Created
	if r.received == 1 || took < r.shortest {
		r.shortest = took
	}
	delay := int64(took / units.Nanosecond)
	r.delayMax = max(r.delayMax, delay)
	r.delaySum += delay
	r.delay.addTime(delay)
}

// ShareOfEnded returns n lost packets as a share of these and those that were received, without
// those under way; 0 if there are none.
func (r *Record) ShareOfEnded(n uint64) float64 {
	if n == 0 {
		return 0
	}
	return float64(n) / float64(n+r.received)
}

// Overlaps reports whether r and o sent at the same time.
func (r *Record) Overlaps(o *Record) bool {
	return r.sent > 0 && o.sent > 0 && r.firstSent < o.lastSent && o.firstSent < r.lastSent
}

// Result is a flow's record in the form in which it is written. Times are
// emulated; delays are one way, from the host's NIC queue to its peer, and
// their quantiles within 1%.
type Result struct {
	Flow       string  `json:"flow"`
	Pattern    string  `json:"pattern"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Payload    int64   `json:"payload_bytes"` // of one packet
	Offered    int64   `json:"offered_bps"`   // requested payload rate
	Sent       uint64  `json:"sent_packets"`
	Received   uint64  `json:"received_packets"` // without duplicates
	Lost       uint64  `json:"lost_packets"`     // sent and not received when the run ended
	LossShare  float64 `json:"loss_share" digits:"6"`
	Marked     uint64  `json:"marked_packets"`   // received with CE
	Trimmed    uint64  `json:"trimmed_packets"`  // of those lost, with headers that arrived
	Returned   uint64  `json:"returned_packets"` // of those lost, with headers that came back to the sender
	Duplicated uint64  `json:"duplicated_packets"`
	Reordered  uint64  `json:"reordered_packets"`
	Start      float64 `json:"start_s" digits:"9"` // first packet sent
	End        float64 `json:"end_s" digits:"9"`   // last packet sent or received
	Goodput    int64   `json:"goodput_bps"`        // received payload over the time that the flow sent, see Result
	DelayMin   float64 `json:"delay_min_us" digits:"3"`
	DelayMean  float64 `json:"delay_mean_us" digits:"3"`
	DelayP50   float64 `json:"delay_p50_us" digits:"3"`
	DelayP99   float64 `json:"delay_p99_us" digits:"3"`
	DelayMax   float64 `json:"delay_max_us" digits:"3"`

	Outages       uint64  `json:"outages"` // times that it stalled because links were down
	OutageLongest float64 `json:"outage_longest_us" digits:"3"`
}

// delayMin returns the least delay in nanoseconds.
func (r *Record) delayMin() int64 { return int64(r.shortest / units.Nanosecond) }

// delayAt returns a quantile of the delay in nanoseconds.
func (r *Record) delayAt(percent float64) int64 {
	return min(max(r.delay.percentile(percent), r.delayMin()), r.delayMax)
}

// Result returns the record so far, at now.
//
// Goodput is the received payload over the time that the flow sent, whether or not anything
// arrived in it: from the first packet to the last, both later by the least delay that a
// packet had, and up to now at most. It is longer if packets arrive after that, as from a
// queue that a burst has filled: so goodput is never more than the network carries.
func (r *Record) Result(now units.Time) Result {
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	x := Result{
		Flow: r.flow.Name, Pattern: r.flow.Pattern.String(), From: r.from, To: r.to,
		Payload: int64(r.flow.Size), Offered: int64(r.flow.Rate),
		Sent: r.sent, Received: r.received, Lost: r.sent - r.received, Marked: r.marked, Trimmed: r.trimmed, Returned: r.returned,
		Duplicated: r.duplicated, Reordered: r.reordered, Start: r.firstSent.Seconds(), End: max(r.lastSent, r.lastCame).Seconds(),
	}
	if r.sent > 0 {
		x.LossShare = float64(x.Lost) / float64(x.Sent)
	}
	for _, o := range r.Outages() {
		x.Outages++
		x.OutageLongest = max(x.OutageLongest, o.Length.Micros())
	}
	if r.received > 0 {
		x.DelayMin, x.DelayMax, x.DelayMean = us(r.delayMin()), us(r.delayMax), float64(r.delaySum)/float64(r.received)/1000
		x.DelayP50, x.DelayP99 = us(r.delayAt(50)), us(r.delayAt(99))
	}
	if span := r.sendingTime(now); r.received > 0 && span > 0 {
		// n packets span n-1 intervals.
		packets := float64(r.received) * float64(r.sent-1) / float64(r.sent)
		x.Goodput = int64(packets * float64(r.flow.Size) * 8 / span.Seconds())
	}
	return x
}

// sendingTime returns the time that goodput is measured over.
func (r *Record) sendingTime(now units.Time) units.Time {
	begin, end := r.firstSent+r.shortest, r.lastSent+r.shortest
	return max(min(end, now), r.lastCame) - begin
}

// WriteJSON writes results as a JSON array.
func WriteJSON(w io.Writer, results []Result) error { return writeJSON(w, results) }

// WriteCSV writes results as CSV with a header line; the columns are named
// like the fields of the JSON form.
func WriteCSV(w io.Writer, results []Result) error { return writeCSV(w, results) }
