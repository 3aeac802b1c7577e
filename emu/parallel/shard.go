package parallel

import (
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Shard is the part of a network that one thread drives, with its own packet pool. Either
// all its nodes share one engine, or each of them is a logical process with its own engine,
// and a worker runs them one after the other. Packets reach another shard only over links
// whose delay gives the other time to hear of them: threads share nothing else while they
// run.
type Shard struct {
	Number int
	// Engine is the engine of all nodes or, if these have their own, of what concerns the
	// shard as a whole.
	Engine    *sim.Engine
	Pool      *packet.Pool
	Processes []*Process
	// Lookahead is the least time that a packet takes from one process to another;
	// units.Never if none can.
	Lookahead units.Time

	parallel bool // its nodes are logical processes
	coloured bool // there are two colours
	colours  [2]colour
	far      int    // colour of the processes that it has sent packets to in this window, or 0
	fences   bool   // Engine may have something to do
	fenced   bool   // it had, in this window
	handled  uint64 // events, without those of Engine in between
	peers    peers
}

// colour is a set of processes of a shard of which no two are joined by a link, if the
// network allows it: the processes of one colour then run while those of the other stand
// still, for two lookaheads at once. If some ring of links has an odd length, all processes
// are of the first colour, and links may join them.
type colour struct {
	agenda    *sim.Agenda // when each process next has something to do
	processes []*Process
}

// Process is a logical process: a node, or several nodes joined by links too short
// to wait for, or in the wall clock a whole shard. Its events are in the order of
// its engine, and reach other processes after the lookahead at the earliest.
type Process struct {
	Engine *sim.Engine
	Shard  *Shard
	// Prefetch, if there is one, loads the state of the process into the cache. It is
	// called before a window in which a message waits for each of its Parts on average.
	Prefetch func()
	Parts    int

	inbox  *links.Inbox // nil if the shard has one engine
	fence  sim.Timer    // in an instant the shard's Engine runs here, see runFenced
	colour *colour
	number int // in colour
}

// peers carries a shard's packets to other shards, by their numbers; nil for itself.
type peers struct {
	out, in      []*links.Outbox
	sparePackets [2][]packet.List // spare packets for their pools, by half
}

// NewShards makes shards whose nodes share an engine each, with one process each. Packets
// between several of them are not exchanged here.
func NewShards(pools []*packet.Pool) []*Shard {
	shards := makeShards(pools)
	for _, s := range shards {
		s.Processes = []*Process{{Engine: s.Engine, Shard: s}}
	}
	return shards
}

// NewProcesses makes n shards of logical processes for Workers. shardOf is the shard of
// each process, and colourOf, if not nil, its colour, as Colours gives it.
func NewProcesses(n int, shardOf []int, colourOf []int) ([]*Shard, []*Process) {
	shards := makeShards(packet.NewTradingPools(n))
	all := make([]*Process, len(shardOf))
	for i, number := range shardOf {
		s := shards[number]
		c := &s.colours[0]
		if colourOf != nil {
			c = &s.colours[colourOf[i]]
		}
		all[i] = &Process{Engine: &sim.Engine{}, Shard: s, colour: c, number: len(c.processes)}
		s.Processes = append(s.Processes, all[i])
		c.processes = append(c.processes, all[i])
	}
	for i, s := range shards {
		s.parallel, s.coloured = true, colourOf != nil
		for c := range s.colours {
			s.colours[c].agenda = sim.NewAgenda(len(s.colours[c].processes))
		}
		for _, p := range s.Processes {
			p.inbox = links.NewInbox(p.colour.agenda, p.number)
		}
		s.peers = peers{out: make([]*links.Outbox, n), in: make([]*links.Outbox, n)}
		s.peers.sparePackets = [2][]packet.List{make([]packet.List, n), make([]packet.List, n)}
		for j := range i {
			there, back := &links.Outbox{}, &links.Outbox{}
			s.peers.out[j], shards[j].peers.in[i] = there, there
			shards[j].peers.out[i], s.peers.in[j] = back, back
		}
	}
	return shards, all
}

func makeShards(pools []*packet.Pool) []*Shard {
	shards := make([]*Shard, len(pools))
	for i, pool := range pools {
		shards[i] = &Shard{Number: i, Engine: &sim.Engine{}, Pool: pool, Lookahead: units.Never}
	}
	return shards
}

// IsParallel reports whether the shard's nodes are logical processes with their own engines.
func (s *Shard) IsParallel() bool { return s.parallel }

// End returns the process as the end of a link.
func (p *Process) End() links.End { return links.End{Engine: p.Engine, Pool: p.Shard.Pool} }

// Join makes a link lead from one process to another.
func (p *Process) Join(l *links.Link, to *Process) {
	if p.inbox != nil && p != to {
		l.JoinProcess(to.inbox, p.Shard.peers.out[to.Shard.Number])
	}
}

// Shrink releases memory that only a run needs.
func (s *Shard) Shrink() {
	s.Pool.DropFree()
	for _, p := range s.Processes {
		if p.inbox != nil {
			p.inbox.ReleaseMemory()
		}
	}
	for _, o := range s.peers.out {
		if o != nil {
			o.ReleaseMemory()
		}
	}
}
