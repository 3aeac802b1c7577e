// Package roguenic is the layer of RoGUE (Le et al., SoCC 2018) between programs and a NIC: it cuts
// WRITEs and READs into segments, posts them within a congestion window, has the NIC's rate limiter
// pace them, measures round-trip times from the timestamps of completions, and continues with a
// shadow queue pair when the NIC gives up. Programs and the NIC do not know about it. The protocol
// is in protocols/rogue.
//
// For programs, completions, their order and their errors stay as they are. A SEND is never cut,
// since it takes one receive. When a shadow queue pair takes over, the two layers first agree on
// what was received: SENDs and WRITEs with immediate data are delivered once, plain WRITEs and
// READs that had not completed are done again, and a connection with an atomic that may have been
// done fails, as it would without the layer. The paper posts to the shadow before that agreement;
// then a late packet of the old queue pair could overwrite newer data.
//
// The layer controls queue pairs of type RC and UC; over UC the peer's layer answers each batch,
// and without one WRITEs and SENDs go plainly. Connections of the NIC with itself are plain; UD is
// not under the layer.
package roguenic

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/protocols/rogue"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Settings are the parameters of the layer.
type Settings rogue.Config

// Validate implements nicemu.LayerSettings.
func (s *Settings) Validate(line units.Rate) error { return (*rogue.Config)(s).Validate(line) }

// New implements nicemu.LayerSettings.
func (s *Settings) New(d *nicemu.Device) nicemu.Layer {
	return &Layer{device: d, config: (*rogue.Config)(s), pairs: map[uint32]*pair{}}
}

// gauges describes the gauges of a pair.
var gauges = []gauge.Gauge{
	{Name: "window", Unit: gauge.Bytes, Brief: true},
	{Name: "limit", Unit: gauge.BitsPerSecond, Brief: true},
	{Name: "estimate", Unit: gauge.BitsPerSecond},
	{Name: "rtt", Unit: gauge.Seconds, Brief: true},
	{Name: "base_rtt", Unit: gauge.Seconds},
	{Name: "slow_start", Unit: gauge.YesNo},
	{Name: "failovers"},
}

func init() {
	nicemu.Layers.Register("rogue", nicemu.LayerKind{
		Summary: "RoGUE: congestion control in software above the NIC, with windows and round-trip times of batches",
		Settings: func(_ string, line units.Rate) nicemu.LayerSettings {
			return (*Settings)(rogue.Default(line))
		},
		Gauges: gauges, Work: work,
	})
}

// Layer is the layer of a NIC.
type Layer struct {
	device *nicemu.Device
	config *rogue.Config
	pairs  map[uint32]*pair // by the number that programs know
	work   Work
	talk   *control   // nil before the first connection
	load   units.Rate // allowed by the NIC's limiters for all pairs with data under way
}

// Work counts the layer's work, which costs processor time (Fig. 2, 3 and 6 of the paper).
type Work struct {
	Requests   uint64 // work requests of programs that have completed
	Bytes      uint64 // of these
	Verbs      uint64 // posted to the NIC, after cutting
	Signals    uint64 // completions of send queues reported by the NIC
	ClockReads uint64 // of the NIC's clock, one a batch
	Limits     uint64 // settings of the NIC's rate limiter
	Messages   uint64 // to other layers
	Echoes     uint64 // sent, of batches of others over UC
	Samples    uint64 // round-trip times that counted
	Held       uint64 // that did not, so soon after a change of the limit
	NoLimiter  uint64 // limits that could not be set: all limiters of the NIC were in use
	Failovers  uint64
	Lost       uint64 // batches over UC without an echo
	Timeouts   uint64 // because no echo arrived
}

// work describes the fields of Work, in their order.
var work = []nicemu.LayerWork{
	{Name: "requests", Meaning: "work requests of programs that have completed"},
	{Name: "bytes", Meaning: "bytes of these requests"},
	{Name: "verbs", Meaning: "work requests posted to the NIC, after cutting"},
	{Name: "signals", Meaning: "completions of send queues reported by the NIC"},
	{Name: "clock_reads", Meaning: "readings of the NIC's clock, one per batch"},
	{Name: "limits", Meaning: "settings of the NIC's rate limiter"},
	{Name: "messages", Meaning: "messages to other layers"},
	{Name: "echoes", Meaning: "echoes sent for batches of others over UC"},
	{Name: "samples", Meaning: "round-trip times that counted"},
	{Name: "held", Meaning: "round-trip times that did not count, too soon after a change of the limit"},
	{Name: "no_limiter", Meaning: "limits not set because all limiters of the NIC were in use"},
	{Name: "failovers", Meaning: "changes to the other queue pair that began"},
	{Name: "lost", Meaning: "batches over UC without an echo"},
	{Name: "timeouts", Meaning: "waits for an echo over UC that ended without one"},
}

// Done returns the work done by the layer of a NIC.
func (l *Layer) Done() Work { return l.work }

// Work implements nicemu.Layer.
func (l *Layer) Work(v []uint64) []uint64 {
	w := &l.work
	return append(v, w.Requests, w.Bytes, w.Verbs, w.Signals, w.ClockReads, w.Limits, w.Messages, w.Echoes,
		w.Samples, w.Held, w.NoLimiter, w.Failovers, w.Lost, w.Timeouts)
}

// isOversubscribed reports whether the pairs of the NIC may send more than its line carries. Then they wait
// for each other in the NIC.
func (l *Layer) isOversubscribed() bool { return l.load > l.device.Line() }

// Over implements nicemu.Layer.
func (l *Layer) Over(q nicemu.Raw) nicemu.Layered {
	if l.talk == nil && (l.config.Failover || q.Type() == nicemu.UC) {
		// On an error only failover, limits of READs and echoes are missing.
		l.talk, _ = newControl(l)
	}
	p := newPair(l, q)
	l.pairs[q.Number()] = p
	return p
}
