package flowtable

import (
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// entry is a flow of a table.
type entry struct {
	Flow
	hash  uint64     // of its key
	chain *entry     // the next in its bucket
	count int        // of packets in the queue, or of samples
	last  units.Time // when its last packet came, or was sampled
	seen  bool       // a packet came in this interval
	slot  int        // its place in the table's slice
	links [rings]link
}

// store is the flows of a table, known or not yet. Entries that are free are used again.
type store struct {
	flows index
	known ring
	free  *entry // a chain by the links of known
	made  int    // entries, free ones too
	key   hashed // of the packet that find was last asked for

	peak, rests int // most flows since room was last looked at, and the intervals since
}

// find gives the entry of a packet's flow, nil if there is none.
func (s *store) find(p *packet.Packet) *entry {
	s.key.FlowKey = p.FlowKey(roce.Port)
	s.key.hash = hash(&s.key.FlowKey)
	return s.flows.find(&s.key)
}

// add takes in the flow of a packet, which find has just not found. An entry keeps its
// slot when it is used again; that of a new one is how many were made before it.
func (s *store) add(p *packet.Packet) *entry {
	e := s.free
	if e == nil {
		e = &entry{slot: s.made}
		s.made++
	} else {
		s.free = s.known.next(e)
	}
	*e = entry{Flow: Flow{Key: s.key.FlowKey, Version: p.Version, Origin: p.Origin}, hash: s.key.hash, slot: e.slot}
	s.flows.put(e)
	s.peak = max(s.peak, s.flows.n)
	return e
}

// forget ends a flow, known or not.
func (s *store) forget(e *entry) {
	s.known.remove(e)
	s.flows.drop(e)
	e.links[inKnown].behind, s.free = s.free, e
}

// tell tells the flows that are known.
func (s *store) tell(tell func(f *Flow)) {
	for e := s.known.first; e != nil; e = s.known.next(e) {
		tell(&e.Flow)
	}
}

const (
	// fewEntries are not worth freeing.
	fewEntries = 64
	// shrinkAfter is for how many intervals the room was too large: 41 ms of 40 us. An
	// incast that comes again soon finds the room that it had.
	shrinkAfter = 1024
)

// rest is called once in an interval. It gives the room back that a burst of flows has made,
// when little of it was needed for long. All flows are known.
func (s *store) rest() {
	if s.rests++; s.rests < shrinkAfter {
		return
	}
	peak := s.peak
	s.rests, s.peak = 0, s.flows.n
	if s.made <= fewEntries || peak > s.made/4 {
		return
	}
	s.flows = index{}
	for e := s.known.first; e != nil; e = s.known.next(e) {
		s.flows.put(e)
	}
	s.free, s.made = nil, s.flows.n
}
