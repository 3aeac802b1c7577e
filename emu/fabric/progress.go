package fabric

import (
	"sync/atomic"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// standing is what a shard reports about itself while it runs, when it is asked.
// So the run itself pays no more than a look at a flag now and then.
type standing struct {
	requested atomic.Bool
	now       atomic.Int64 // units.Time
	hops      atomic.Uint64
	flows     atomic.Uint64 // the first shard has those of all
}

// Progress returns what the shards have reported since the last call, and asks
// them for more. Unlike all other methods it may be called while Run runs.
func (f *Fabric) Progress() status.Progress {
	p := status.Progress{Now: units.Never}
	for _, s := range f.Shards {
		p.Now = min(p.Now, units.Time(s.standing.now.Load()))
		p.Hops += s.standing.hops.Load()
		p.Flows += s.standing.flows.Load()
		s.standing.requested.Store(true)
	}
	return p
}

// reportProgress answers Progress for a shard, whose goroutine calls it between two events.
func (f *Fabric) reportProgress(s *Shard) {
	if !s.standing.requested.Load() {
		return
	}
	hops := uint64(0)
	for n, node := range f.ports {
		if f.ShardOf(n) != s {
			continue
		}
		for _, p := range node {
			hops += p.Counters(f.nowAt(n)).TxPackets
		}
	}
	s.standing.now.Store(int64(s.Now()))
	s.standing.hops.Store(hops)
	if s == f.Shards[0] { // which collects them
		s.standing.flows.Store(f.traffic.collector.Count())
	}
	s.standing.requested.Store(false)
}
