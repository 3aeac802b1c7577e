package workload

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
)

// Outage is a time for which a flow or a transfer stalled because links were
// down: from the last delivery before to the first one after.
type Outage struct {
	Flow   string     `json:"flow,omitempty"`
	Of     string     `json:"transfer,omitempty"`
	From   string     `json:"from"` // host
	To     string     `json:"to"`
	Window int        `json:"window"` // number of the stretch without a link, from 1
	Start  units.Time `json:"start"`
	Length units.Time `json:"length"`         // as far as known if not Over
	Over   bool       `json:"over"`           // deliveries have resumed
	Lost   uint64     `json:"lost,omitempty"` // packets of a flow sent meanwhile that had not arrived when it was over
}

// packetInterval returns the time between packets while the flow sends.
func (r *Record) packetInterval() units.Time { return r.flow.Rate.TimeOf(r.flow.Size) }

// stoodStill records the gap before a packet that arrives now, if packets are
// missing: a sender that was silent was not held up.
func (r *Record) stoodStill(now units.Time, seq uint32) {
	missing := int32(seq - r.seen.next)
	start := r.lastCame
	if r.received == 0 {
		start = max(r.flow.At, r.links.From)
	}
	// A receiver that misses a packet waits for two intervals; a shorter gap is reordering.
	if missing > 0 && now-start >= 2*r.packetInterval() {
		r.gaps.RecordGap(r.links, start, now, uint64(missing))
	}
}

// Outages returns the longest outage of the flow in each window, in their order.
// No engine may run meanwhile.
func (r *Record) Outages() (all []Outage) {
	for _, g := range r.gaps.Gaps() {
		all = append(all, Outage{Flow: r.flow.Name, From: r.from, To: r.to, Window: g.Window, Start: g.Start, Length: g.End - g.Start, Over: true, Lost: g.Lost})
	}
	start := r.lastCame
	if r.received == 0 {
		start = max(r.firstSent, r.links.From)
	}
	missing := int32(uint32(r.sent) - r.seen.next)
	if r.sent > 0 && start <= r.links.To && r.lastSent >= r.links.From && missing > 0 && r.lastSent-start >= 2*r.packetInterval() {
		all = append(all, Outage{Flow: r.flow.Name, From: r.from, To: r.to, Window: r.links.Number, Start: start, Length: r.lastSent - start, Lost: uint64(missing)})
	}
	return all
}

// WatchOutages tells the record about links that go down.
func (r *TransferRecord) WatchOutages(w *outage.Window) { r.links = w }

// SetGaps sets the gaps in in-order arrivals at the queue pairs so far. It must be
// called before Result and Outages, while no engine runs.
func (r *TransferRecord) SetGaps(gaps []outage.Gap) { r.gaps = gaps }

// pauseFactor is the minimum length of a gap that counts as an outage of a transfer,
// as a multiple of the mean time between packets. A queue pair has shorter gaps
// while others send.
const pauseFactor = 10

// Outages returns the longest outage of the transfer in each window, in their order,
// for the queue pair that was hit most. A transfer that missed nothing has none: it
// waited for something else.
func (r *TransferRecord) Outages() (all []Outage) {
	c := &r.counters
	if c.Retransmitted+c.NAKs+c.Timeouts+c.OutOfSequence+r.failed == 0 {
		return nil
	}
	minLength := units.Time(0)
	if c.Packets > 0 {
		minLength = pauseFactor * (max(r.lastReceived, r.lastEnded) - r.firstPosted) / units.Time(c.Packets)
	}
	of := func(g outage.Gap, over bool) Outage {
		return Outage{Of: r.transfer.Name, From: r.from, To: r.to, Window: g.Window, Start: g.Start, Length: g.End - g.Start, Over: over}
	}
	for _, g := range r.gaps {
		g.Start = max(g.Start, r.firstPosted) // for a transfer that begins meanwhile
		if i := slices.IndexFunc(all, func(o Outage) bool { return o.Window == g.Window }); i < 0 {
			all = append(all, of(g, true))
		} else if g.End-g.Start > all[i].Length {
			all[i] = of(g, true)
		}
	}
	all = slices.DeleteFunc(all, func(o Outage) bool { return o.Length < minLength })
	slices.SortFunc(all, func(a, b Outage) int { return cmp.Compare(a.Window, b.Window) })
	// A transfer with failed messages or messages under way has not resumed.
	start := max(r.lastReceived, r.firstPosted)
	if open := r.posted > r.times.count; open && r.posted > 0 && start <= r.links.To && c.Timeouts+r.failed > 0 {
		all = append(all, of(outage.Gap{Window: r.links.Number, Start: start, End: max(start, r.lastEnded)}, false))
	}
	return all
}
