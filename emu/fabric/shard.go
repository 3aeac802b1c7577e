package fabric

import (
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// Shard is the part of a fabric that one thread drives, with its own packet pool.
// In the wall clock, and in a fabric of New, it has one engine. In virtual time
// each of its nodes is a logical process with its own engine, and a worker runs
// them one after the other. Packets reach another shard only over links whose
// delay gives the other time to hear of them: threads share nothing else while
// they run.
type Shard struct {
	Number int
	// Engine is the engine of all nodes or, if these have their own, of what
	// concerns the shard as a whole: events and rerouting.
	Engine *sim.Engine
	Pool   *packet.Pool

	processes []*process
	parallel  bool // its nodes are logical processes
	coloured  bool // there are two colours
	colours   [2]colour
	far       int        // colour of the processes that it has sent packets to in this window, or 0
	lookahead units.Time // between its processes
	fences    bool       // Engine may have something to do
	fenced    bool       // it had, in this window
	handled   uint64     // events, without those of Engine in between

	links    outage.Window // outages of links that the shard knows of
	cut      map[int]bool  // links that are still down
	down     []uint8       // directions of links that are down, by link, a bit each
	timeline []moment      // events in this shard
	flows    records.Log   // pattern flows that ended here

	virtualPeers virtualPeers
	wallPeers    wallPeers

	pauses pauses.Log

	standing standing
}

// colour is a set of processes of a shard of which no two are joined by a link, if the
// fabric allows it: the processes of one colour then run while those of the other stand
// still, for two lookaheads at once. If some ring of links has an odd length, all processes
// are of the first colour, and links may join them.
type colour struct {
	agenda    *sim.Agenda // when each process next has something to do
	processes []*process
}

// process is a logical process: a node, or several nodes joined by links too short
// to wait for, or in the wall clock a whole shard. Its events are in the order of
// its engine, and reach other processes after the lookahead at the earliest.
type process struct {
	engine *sim.Engine
	inbox  *links.Inbox // nil in the wall clock
	fence  sim.Timer    // in an instant the shard's Engine runs here, see runFenced
	shard  *Shard
	colour *colour
	number int // in colour

	ports []*port.Port // to prefetch; nil if all of the fabric's fit the cache
}

// virtualPeers carries a shard's packets to other shards in virtual time, by their
// numbers; nil for itself.
type virtualPeers struct {
	out, in      []*links.Outbox
	sparePackets [2][]packet.List // spare packets for their pools, by half
}

// wallPeers does the same in the wall clock.
type wallPeers struct {
	out, in []*links.Mailbox
	far     []*packet.Pool // of all shards
}

// newShards makes n shards whose nodes share an engine each.
func newShards(n int) []*Shard {
	shards := make([]*Shard, n)
	pools := packet.NewPools(n)
	for i, s := range makeShards(shards, pools) {
		p := &process{engine: s.Engine, shard: s}
		s.processes = []*process{p}
		s.wallPeers = wallPeers{make([]*links.Mailbox, n), make([]*links.Mailbox, n), pools}
		for j := range i {
			there, back := &links.Mailbox{}, &links.Mailbox{}
			s.wallPeers.out[j], shards[j].wallPeers.in[i] = there, there
			shards[j].wallPeers.out[i], s.wallPeers.in[j] = back, back
		}
	}
	return shards
}

// newWorkers makes n shards of logical processes. shardOf is the shard of each
// process, and colourOf, if not nil, its colour.
func newWorkers(n int, shardOf []int, colourOf []int) ([]*Shard, []*process) {
	shards := makeShards(make([]*Shard, n), packet.NewTradingPools(n))
	all := make([]*process, len(shardOf))
	for i, number := range shardOf {
		s := shards[number]
		c := &s.colours[0]
		if colourOf != nil {
			c = &s.colours[colourOf[i]]
		}
		all[i] = &process{engine: &sim.Engine{}, shard: s, colour: c, number: len(c.processes)}
		s.processes = append(s.processes, all[i])
		c.processes = append(c.processes, all[i])
	}
	for i, s := range shards {
		s.parallel, s.coloured = true, colourOf != nil
		for c := range s.colours {
			s.colours[c].agenda = sim.NewAgenda(len(s.colours[c].processes))
		}
		for _, p := range s.processes {
			p.inbox = links.NewInbox(p.colour.agenda, p.number)
		}
		s.virtualPeers = virtualPeers{out: make([]*links.Outbox, n), in: make([]*links.Outbox, n)}
		s.virtualPeers.sparePackets = [2][]packet.List{make([]packet.List, n), make([]packet.List, n)}
		for j := range i {
			there, back := &links.Outbox{}, &links.Outbox{}
			s.virtualPeers.out[j], shards[j].virtualPeers.in[i] = there, there
			shards[j].virtualPeers.out[i], s.virtualPeers.in[j] = back, back
		}
	}
	return shards, all
}

func makeShards(shards []*Shard, pools []*packet.Pool) []*Shard {
	for i := range shards {
		shards[i] = &Shard{Number: i, Engine: &sim.Engine{}, Pool: pools[i], lookahead: units.Never, links: outage.None, cut: map[int]bool{}}
	}
	return shards
}

func (p *process) side() links.End { return links.End{Engine: p.engine, Pool: p.shard.Pool} }

// join makes a link lead from one process to another.
func (p *process) join(l *links.Link, to *process) {
	if p.inbox != nil && p != to {
		l.Join(to.inbox, p.shard.virtualPeers.out[to.shard.Number])
	}
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
		if earliest := m.Post(s.Pool, s.wallPeers.far[j]); earliest != units.Never {
			notify(j, earliest)
		}
	}
}

// Collect takes over what other shards have posted.
func (s *Shard) Collect() {
	for _, m := range s.wallPeers.in {
		if m != nil {
			m.Collect(s.Pool)
		}
	}
}
