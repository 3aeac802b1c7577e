package top

import (
	"math"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// row is a port, or a class of a port, between two samples. Rates are per
// second of emulated time. Missing values are NaN: rates before the second
// sample, what a class does not count, use of a link without a rate.
type row struct {
	port  *status.Port
	class string // "" for the port as a whole
	place int    // of the port in the plan

	in, out                float64 // bits/s of frames without FCS
	inPackets, outPackets  float64
	inUse, outUse          float64 // shares of the link's rate, with preamble, FCS and gap
	queue, maxQueue, limit float64 // bytes
	drops, marks, trims    float64
	dropped                float64 // since the start
	reason                 string  // of most drops, "" without drops

	paused, pausing       float64 // shares of time; of a port, its worst class's
	pausedNow, pausingNow bool
	pausesIn, pausesOut   float64 // pauses that begin
	xoffIn, xoffOut       float64 // frames that ask for a pause or extend it

	cnps, again float64 // of an RDMA NIC at the port: CNPs that slowed it down, retransmitted packets
}

// none is the value of missing values.
var none = math.NaN()

// rowsOf returns the ports of now, in the order of the plan, each followed by
// its classes. before is an earlier sample of the same run, or nil.
func rowsOf(before, now *report.Sample) []row {
	b := base{seconds: none, ports: map[string]*status.Port{}, nics: map[string]*status.NIC{}}
	if before != nil && now.Emulated > before.Emulated {
		b.seconds = (now.Emulated - before.Emulated).Seconds()
		for i := range before.Ports {
			b.ports[before.Ports[i].Name] = &before.Ports[i]
		}
		for i := range before.NICs {
			b.nics[before.NICs[i].Name] = &before.NICs[i]
		}
	}
	rates := map[string]units.Rate{}
	for i := range now.Ports {
		if p := &now.Ports[i]; p.Link != nil {
			rates[p.Name] = p.Link.Rate
		}
	}
	nics := map[string]*status.NIC{}
	for i := range now.NICs {
		nics[now.NICs[i].Name] = &now.NICs[i]
	}
	var rows []row
	for i := range now.Ports {
		p := &now.Ports[i]
		whole := b.portRow(p, rates[p.Peer])
		whole.place = i
		b.addNIC(&whole, nics[p.Name])
		at := len(rows)
		rows = append(rows, whole)
		for k := range p.Classes {
			c := b.classRow(p, k)
			c.place = i
			rows = append(rows, c)
			w := &rows[at]
			w.paused, w.pausing = maxKnown(w.paused, c.paused), maxKnown(w.pausing, c.pausing)
			w.pausesIn, w.pausesOut = addKnown(w.pausesIn, c.pausesIn), addKnown(w.pausesOut, c.pausesOut)
			w.xoffIn, w.xoffOut = addKnown(w.xoffIn, c.xoffIn), addKnown(w.xoffOut, c.xoffOut)
			w.pausedNow, w.pausingNow = w.pausedNow || c.pausedNow, w.pausingNow || c.pausingNow
		}
	}
	return rows
}

// base is the earlier sample.
type base struct {
	seconds float64 // since then; NaN if there is none
	ports   map[string]*status.Port
	nics    map[string]*status.NIC
}

// addNIC adds the counters of the NIC at a port, if there is one.
func (b *base) addNIC(r *row, n *status.NIC) {
	r.cnps, r.again = none, none
	if n == nil {
		return
	}
	old := b.nics[n.Name]
	if old == nil {
		old = &status.NIC{}
	}
	grown := func(name string) float64 { return b.rateOf(old.Counters.Of(name), n.Counters.Of(name)) }
	r.cnps, r.again = grown("rp_cnp_handled"), grown("retransmitted_packets")
}

// rateOf returns how fast a counter grew.
func (b *base) rateOf(before, now uint64) float64 { return float64(now-before) / b.seconds }

// shareOfTime returns the growth of a sum of times as a share of the time between the samples.
func (b *base) shareOfTime(before, now units.Time) float64 {
	return min((now-before).Seconds()/b.seconds, 1)
}

func (b *base) portRow(p *status.Port, peerRate units.Rate) row {
	q := b.ports[p.Name]
	if q == nil {
		q = &status.Port{}
	}
	r := row{
		port: p, in: 8 * b.rateOf(q.RxBytes, p.RxBytes), out: 8 * b.rateOf(q.TxBytes, p.TxBytes),
		inPackets: b.rateOf(q.RxPackets, p.RxPackets), outPackets: b.rateOf(q.TxPackets, p.TxPackets), inUse: none, outUse: none,
		queue: float64(p.QueueBytes), maxQueue: float64(p.QueueMax), limit: float64(p.QueueLimit),
		drops: b.rateOf(q.Dropped, p.Dropped), marks: b.rateOf(q.Marked, p.Marked), trims: b.rateOf(q.Trimmed, p.Trimmed),
		dropped: float64(p.Dropped), paused: none, pausing: none, pausesIn: none, pausesOut: none, xoffIn: none, xoffOut: none,
	}
	r.inUse = shareOfRate(r.in, r.inPackets, peerRate)
	if p.Link != nil {
		r.outUse = shareOfRate(r.out, r.outPackets, p.Link.Rate)
	}
	worst := uint64(0)
	for reason, n := range p.Drops {
		if n -= q.Drops[reason]; n > worst || n == worst && n > 0 && reason < r.reason {
			worst, r.reason = n, reason
		}
	}
	return r
}

// shareOfRate returns the share of a link's rate that frames take, including their
// overhead on the wire.
func shareOfRate(bits, packets float64, rate units.Rate) float64 {
	if rate == 0 {
		return none
	}
	return (bits + 8*wire.EthernetOverhead*packets) / float64(rate)
}

func (b *base) classRow(p *status.Port, k int) row {
	c := &p.Classes[k]
	q := &status.Class{}
	if old := b.ports[p.Name]; old != nil && k < len(old.Classes) {
		q = &old.Classes[k]
	}
	r := row{
		port: p, class: c.Name, in: none, inPackets: none, inUse: none, outUse: none,
		out: 8 * b.rateOf(q.TxBytes, c.TxBytes), outPackets: b.rateOf(q.TxPackets, c.TxPackets),
		queue: float64(c.QueueBytes), maxQueue: float64(c.QueueMax), limit: float64(c.QueueLimit),
		drops: b.rateOf(q.Dropped, c.Dropped), marks: b.rateOf(q.Marked, c.Marked), trims: b.rateOf(q.Trimmed, c.Trimmed),
		dropped: float64(c.Dropped),
		paused:  b.shareOfTime(q.PausedTime, c.PausedTime), pausing: b.shareOfTime(q.PausingTime, c.PausingTime),
		pausedNow: c.Paused, pausingNow: c.Pausing,
		pausesIn: b.rateOf(q.PausedCount, c.PausedCount), pausesOut: b.rateOf(q.PausingCount, c.PausingCount),
		xoffIn: b.rateOf(q.PauseFramesRx, c.PauseFramesRx), xoffOut: b.rateOf(q.PauseFramesTx, c.PauseFramesTx), cnps: none, again: none,
	}
	if p.Link != nil {
		r.outUse = shareOfRate(r.out, r.outPackets, p.Link.Rate)
	}
	return r
}

// maxKnown is max for values that may be missing.
func maxKnown(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// addKnown adds values that may be missing.
func addKnown(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return a + b
}
