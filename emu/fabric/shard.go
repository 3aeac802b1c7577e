package fabric

import (
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/pauses"
	"github.com/weftlab/weft/traces/records"
)

// Shard is a part of a fabric with an engine and a pool of its own. Packets
// reach another shard only over links whose delay gives the other time to hear
// of them: nothing else is shared while the engines run.
type Shard struct {
	Number int
	Engine sim.Engine
	Pool   *packet.Pool

	links    outage.Window // what the shard knows of those that went down
	cut      map[int]bool  // those that are still down
	down     []uint8       // directions of links that are down, by link, a bit each
	timeline []moment      // what happened here
	flows    records.Log   // of patterns, that ended here

	out []*links.Mailbox // by shard; nil for itself
	in  []*links.Mailbox
	far []*packet.Pool // of all shards

	pauses pauses.Log

	standing standing
}

func newShards(n int) []*Shard {
	shards := make([]*Shard, n)
	pools := packet.NewPools(n)
	for i := range shards {
		pools[i].Render = new(renderer).render
		shards[i] = &Shard{Number: i, Pool: pools[i], links: outage.None, cut: map[int]bool{}, far: pools, out: make([]*links.Mailbox, n), in: make([]*links.Mailbox, n)}
	}
	for i := range n {
		for j := range n {
			if i != j {
				m := &links.Mailbox{}
				shards[i].out[j], shards[j].in[i] = m, m
			}
		}
	}
	return shards
}

func (s *Shard) side() links.Side { return links.Side{Engine: &s.Engine, Pool: s.Pool} }

// Post hands what the shard has sent to the other shards, and calls notify with
// the number of each shard that was handed packets and the earliest arrival
// among them.
func (s *Shard) Post(notify func(to int, earliest units.Time)) {
	for j, m := range s.out {
		if m == nil {
			continue
		}
		if earliest := m.Post(s.Pool, s.far[j]); earliest != units.Never {
			notify(j, earliest)
		}
	}
}

// Collect takes over what other shards have posted.
func (s *Shard) Collect() {
	for _, m := range s.in {
		if m != nil {
			m.Collect(s.Pool)
		}
	}
}
