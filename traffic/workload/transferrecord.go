package workload

import (
	"math"

	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// IdealTime is the time from posting to completion that a message of a size
// takes alone on its path. For RC that is the round trip without queues and the
// message with all its headers at the rate of the slowest link. Messages of UC
// and UD are complete when they are sent, so their time ends when the last
// packet leaves the NIC.
type IdealTime func(size units.Bytes) units.Time

// TransferRecord is the record of a transfer: the posting side's part, which
// belongs to its engine, and the counters of the NICs of both ends.
type TransferRecord struct {
	transfer Transfer
	from, to string
	ideal    units.Time // of a message; 0 means not known

	// Recorded by the posting side's engine.
	posted, failed         uint64
	firstPosted, lastEnded units.Time
	failure                string
	times                  spans // of completed messages

	// Counted by the NICs.
	received     units.Bytes
	lastReceived units.Time
	links        *outage.Window
	gaps         []outage.Gap
	counters     TransferCounters
}

// NewTransferRecord begins the record of a transfer between two named hosts.
// ideal may be nil: then there is no slowdown.
func NewTransferRecord(t Transfer, from, to string, ideal IdealTime) *TransferRecord {
	r := &TransferRecord{transfer: t, from: from, to: to, links: &outage.None}
	if ideal != nil {
		r.ideal = ideal(t.Size)
	}
	return r
}

// CountPosted records that a message was posted. Only the engine of the posting host
// calls it.
func (r *TransferRecord) CountPosted(now units.Time) {
	if r.posted == 0 {
		r.firstPosted = now
	}
	r.posted++
}

// RecordCompletion records that a message posted at that time has completed
// successfully. Only the engine of the posting host calls it.
func (r *TransferRecord) RecordCompletion(now, posted units.Time) {
	r.lastEnded = now
	r.times.addSpan(now - posted)
}

// RecordFailure records that a message has completed with an error. status is the
// error's name in ibv_wc_status; the first one is kept, since later messages are
// flushed. Only the engine of the posting host calls it.
func (r *TransferRecord) RecordFailure(now units.Time, status string) {
	r.lastEnded = now
	if r.failed == 0 {
		r.failure = status
	}
	r.failed++
}

// SetReceived sets how much payload has arrived so far at the data's destination,
// which is Transfer.To or with READ Transfer.From, and when the last of it
// arrived. Duplicates count once. Like Count it must be called before Result.
func (r *TransferRecord) SetReceived(last units.Time, n units.Bytes) {
	r.received, r.lastReceived = n, last
}

// SetCounters sets the NICs' counters so far. It must be called before Result, while
// no engine runs.
func (r *TransferRecord) SetCounters(c TransferCounters) { r.counters = c }

// Result returns the record so far, at now. It must be called while no engine runs.
//
// Goodput is measured over the time that the transfer sent: while messages are under way it
// sends, so the time up to now counts, in which perhaps none has completed.
func (r *TransferRecord) Result(now units.Time) TransferResult {
	t, s := &r.transfer, &r.times
	x := TransferResult{
		Transfer: t.Name, Verb: t.Verb.String(), Service: t.Service.String(), From: r.from, To: r.to,
		MessageSize: int64(t.Size), QPs: int64(t.QPs),
		Posted: r.posted, Completed: s.count, Failed: r.failed, FirstFailure: r.failure,
		Payload: int64(s.count) * int64(t.Size), Received: int64(r.received),
		Start: r.firstPosted.Seconds(), Ideal: r.ideal.Micros(), TransferCounters: r.counters,
	}
	delivered, end := x.Payload, max(r.firstPosted, r.lastEnded)
	if r.arrivalsCount() {
		delivered, end = x.Received, max(end, r.lastReceived)
	}
	if r.isUnderWay() {
		end = max(end, now)
	}
	x.End = end.Seconds()
	if span := end - r.firstPosted; span > 0 {
		x.Goodput = int64(math.Round(float64(delivered) * 8 / span.Seconds()))
	}
	p := s.percentiles(25, 50, 75, 90, 95, 99, 99.9)
	x.CompletionMin, x.CompletionMean, x.CompletionMax = s.minSpan.Micros(), s.meanSpan().Micros(), s.maxSpan.Micros()
	for i, to := range []*float64{
		&x.CompletionP25, &x.CompletionP50, &x.CompletionP75, &x.CompletionP90, &x.CompletionP95, &x.CompletionP99, &x.CompletionP999,
	} {
		*to = p[i].Micros()
	}
	if r.ideal > 0 {
		slowdown := func(t units.Time) float64 { return float64(t) / float64(r.ideal) }
		x.SlowdownMean, x.SlowdownP50, x.SlowdownP99, x.SlowdownMax = slowdown(s.meanSpan()), slowdown(p[1]), slowdown(p[5]), slowdown(s.maxSpan)
	}
	if x.Packets > 0 {
		x.RetransmittedShare = float64(x.Retransmitted) / float64(x.Packets)
	}
	for _, o := range r.Outages() {
		x.Outages++
		x.OutageLongest = max(x.OutageLongest, o.Length.Micros())
	}
	return x
}

// arrivalsCount reports whether goodput counts received payload: for services
// whose messages complete when they are only sent, and while messages are under way, of
// which a part may have arrived.
func (r *TransferRecord) arrivalsCount() bool {
	return r.transfer.Service != roce.RC || r.isUnderWay()
}

// isUnderWay reports whether posted messages have not ended.
func (r *TransferRecord) isUnderWay() bool { return r.times.count+r.failed < r.posted }
