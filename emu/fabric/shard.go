package fabric

import (
	"github.com/weftlab/weft/emu/parallel"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
)

// Shard is the part of a fabric that one thread drives: its engines, and what happens in
// them that others want to know.
type Shard struct {
	*parallel.Shard

	links outage.Window // outages of links that the shard knows of
	cut   map[int]bool  // links that are still down
	down  []uint8       // directions of links that are down, by link, a bit each
	log   []LogEntry    // what happened in this shard
	flows records.Log   // pattern flows that ended here

	modelled hosts.Taker // of packets of modelled flows, for all interfaces: it stays in the cache

	wallPeers wallPeers

	pauseObservers []PauseObserver

	standing standing
}

// wallPeers carries a shard's packets to other shards in the wall clock, by their numbers;
// nil for itself.
type wallPeers struct {
	out, in []*links.Mailbox
	far     []*packet.Pool // of all shards
}

func newShard(s *parallel.Shard) *Shard {
	return &Shard{Shard: s, links: outage.None, cut: map[int]bool{}}
}

// newShards makes n shards whose nodes share an engine each.
func newShards(n int) []*Shard {
	shards := make([]*Shard, n)
	pools := packet.NewPools(n)
	for i, s := range parallel.NewShards(pools) {
		shards[i] = newShard(s)
		shards[i].wallPeers = wallPeers{make([]*links.Mailbox, n), make([]*links.Mailbox, n), pools}
		for j := range i {
			there, back := &links.Mailbox{}, &links.Mailbox{}
			shards[i].wallPeers.out[j], shards[j].wallPeers.in[i] = there, there
			shards[j].wallPeers.out[i], shards[i].wallPeers.in[j] = back, back
		}
	}
	return shards
}

// mailbox returns what carries packets to another shard in the wall clock, nil if
// none is needed.
func (s *Shard) mailbox(to *Shard) *links.Mailbox {
	if s.wallPeers.out == nil {
		return nil
	}
	return s.wallPeers.out[to.Number]
}

// Post hands what the shard has sent to the other shards, and calls notify with
// the number of each shard that was handed packets and the earliest arrival
// among them. It is for the wall clock.
func (s *Shard) Post(notify func(to int, earliest units.Time)) {
	for j, m := range s.wallPeers.out {
		if m == nil {
			continue
		}
		if earliest := m.PostMessages(s.Pool, s.wallPeers.far[j]); earliest != units.Never {
			notify(j, earliest)
		}
	}
}

// Collect takes over what other shards have posted.
func (s *Shard) Collect() {
	for _, m := range s.wallPeers.in {
		if m != nil {
			m.CollectMessages(s.Pool)
		}
	}
}
