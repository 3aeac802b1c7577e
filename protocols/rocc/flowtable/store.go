package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// entry is a flow of a table.
type entry struct {
	Flow
	hash  uint64            // of its key
	chain *entry            // the next in its bucket, or among the unused ones
	count int               // of packets in the queue, or of samples
	last  units.Time        // when its last packet arrived or was sampled
	seen  bool              // a packet arrived in this interval
	slot  int               // its index in the table's slice
	known queue.Link[entry] // among the known flows
	quiet queue.Link[entry] // among the flows by their last packet
}

// store holds the flows of a table, known or not yet. It reuses free entries.
type store struct {
	flows index
	known queue.List[entry] // in the order in which they became known
	free  *entry            // the first of a chain of unused ones
	made  int               // number of entries, including free ones
	key   hashed            // of the last packet passed to find

	peak, rests int // most flows, and intervals, since the size was last checked
}

// findFlow returns the entry of a packet's flow, or nil.
func (s *store) findFlow(p *packet.Packet) *entry {
	s.key.FlowKey = p.FlowKey(roce.Port)
	s.key.hash = hashKey(&s.key.FlowKey)
	return s.flows.findKey(&s.key)
}

// addFlow adds the flow of a packet that find has just failed to find. A reused entry keeps its
// slot; the slot of a new entry is the number of entries made before it.
func (s *store) addFlow(p *packet.Packet) *entry {
	e := s.free
	if e == nil {
		e = &entry{slot: s.made}
		s.made++
	} else {
		s.free = e.chain
	}
	*e = entry{Flow: Flow{Key: s.key.FlowKey, Version: p.Version, Origin: p.Origin}, hash: s.key.hash, slot: e.slot}
	s.flows.putEntry(e)
	s.peak = max(s.peak, s.flows.n)
	return e
}

// removeFlow removes a flow, known or not.
func (s *store) removeFlow(e *entry) {
	s.known.Remove(&e.known)
	s.flows.dropEntry(e)
	e.chain, s.free = s.free, e
}

// eachFlow calls tell for the known flows.
func (s *store) eachFlow(tell func(f *Flow)) {
	for e := range s.known.All() {
		tell(&e.Flow)
	}
}

const (
	// fewEntries are not worth freeing.
	fewEntries = 64
	// shrinkAfter is the number of intervals between checks of the size: 41 ms at 40 us
	// each. An incast that soon repeats finds its memory still allocated.
	shrinkAfter = 1024
)

// freeMemory is called once per interval. It frees the memory that a burst of flows needed, once
// most of it has been unused for long. All flows are known.
func (s *store) freeMemory() {
	if s.rests++; s.rests < shrinkAfter {
		return
	}
	peak := s.peak
	s.rests, s.peak = 0, s.flows.n
	if s.made <= fewEntries || peak > s.made/4 {
		return
	}
	s.flows = index{}
	for e := range s.known.All() {
		s.flows.putEntry(e)
	}
	s.free, s.made = nil, s.flows.n
}
