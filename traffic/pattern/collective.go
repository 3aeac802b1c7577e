package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Operation is the operation of a collective.
type Operation uint8

// The collectives. N is the number of ranks, and chunk c is the c-th of N parts of a
// buffer: Size/N, and 1 B more for the first Size%N of them.
const (
	// AllReduce uses a ring: rank r sends to r+1. In step s, from 0 to 2(N-1)-1, it sends
	// chunk r-s (modulo N): first N-1 steps of reduce-scatter, then N-1 of all-gather.
	AllReduce Operation = iota
	// ReduceScatter is the first half of AllReduce; Size is the size of each rank's input.
	ReduceScatter
	// AllGather uses a ring, in N-1 steps; Size is the size of each rank's output.
	AllGather
	// Exchange is all-to-all in N-1 rounds: in round k, from 1, rank r sends to r+k and
	// receives from r-k. Size is the size of each rank's input; a rank's chunk for itself
	// is not sent.
	Exchange
)

// Collective is collective communication among ranks, in iterations, as in
// training.
//
// In a ring a rank posts the send of step s+1 once the chunk of step s has arrived and its
// own send of step s is posted, as NCCL does: it does not wait for the acknowledgement.
// NCCL splits chunks further into slices that it pipelines; here a chunk is one flow. In
// an Exchange a rank begins a round when its receive of the previous round has arrived and
// its send is complete, as in MPI's pairwise exchange.
//
// An iteration is over for a rank when all its receives have arrived and all its sends
// are complete. A rank waits only for the ranks that it receives from.
//
// An iteration is a group, from 1. A flow's tag counts the steps of all iterations, modulo
// 2^32.
type Collective struct {
	Stream
	Operation  Operation
	Hosts      []int // ranks, in the order of the ring
	Size       units.Bytes
	Iterations int        // 0 means no limit
	Compute    units.Time // mean time between the end of a rank's iteration and its next
	Computing  Law        // of Compute, drawn by each rank separately; zero means constant
	Start      units.Time // when all ranks begin the first iteration
	Stop       units.Time // no rank begins an iteration then or later; 0 means no end
}

type collective struct {
	Collective
	basic
	steps int // of an iteration
}

func (c *collective) Hosts() []int { return c.basic.hosts }

// Make checks c and returns its pattern.
func (c Collective) Make() (Pattern, error) {
	if err := checkHosts("a collective", c.Hosts, 2); err != nil {
		return nil, err
	}
	n := len(c.Hosts)
	switch {
	case c.Operation > Exchange:
		return nil, fmt.Errorf("unknown collective %d", c.Operation)
	case c.Size < units.Bytes(n):
		return nil, fmt.Errorf("a collective of %v among %d ranks: chunks need at least 1B each", c.Size, n)
	case c.Iterations < 0:
		return nil, fmt.Errorf("%d iterations: it must not be negative", c.Iterations)
	case c.Compute < 0:
		return nil, errors.New("time to compute must not be negative")
	}
	if err := checkTimes(c.Start, c.Stop); err != nil {
		return nil, err
	}
	c.Computing = c.Computing.orElse(ConstantLaw())
	p := &collective{Collective: c, basic: basic{unionHosts(c.Hosts)}, steps: n - 1}
	if c.Operation == AllReduce {
		p.steps = 2 * (n - 1)
	}
	return p, nil
}

// chunkSize returns the size of the i-th chunk, counted modulo the number of ranks.
func (c *collective) chunkSize(i int) units.Bytes {
	n := len(c.Collective.Hosts)
	i = ((i % n) + n) % n
	size := c.Size / units.Bytes(n)
	if units.Bytes(i) < c.Size%units.Bytes(n) {
		size++
	}
	return size
}

func (c *collective) Agent(host int) Agent {
	rank := slices.Index(c.Collective.Hosts, host)
	if rank < 0 {
		return nil
	}
	return &rankAgent{
		p: c, rank: rank, host: host, due: c.Start,
		rand: c.Stream.hostStream(host), early: map[uint32]struct{}{},
	}
}

// rankAgent is the agent of a rank. Steps are counted across all iterations: each has
// one send and one receive.
type rankAgent struct {
	p          *collective
	rank, host int
	rand       *rand.Rand
	due        units.Time // of the next iteration

	iteration int // the current or next one; from 0
	posted    int // steps of it that have been sent
	arrived   int // steps of it whose receive has arrived, as have all before
	completed int // sends of it that are complete
	early     map[uint32]struct{}
}

func (g *rankAgent) NextFlow() units.Time { return g.due }

// stepTag returns the number of a step of the current iteration, counted across all iterations.
func (g *rankAgent) stepTag(step int) uint32 { return uint32(g.iteration*g.p.steps + step) }

func (g *rankAgent) Fire(now units.Time, start func(Flow)) {
	if now < g.due {
		return
	}
	g.due = units.Never
	g.sendChunk(now, start)
	g.advanceSteps(now, start)
}

func (g *rankAgent) OnArrival(now units.Time, f Flow, start func(Flow)) {
	// A rank may receive from ranks that are ahead of it: in the next round, or even
	// in the next iteration while it still computes.
	g.early[f.Tag] = struct{}{}
	g.advanceSteps(now, start)
}

func (g *rankAgent) OnCompletion(now units.Time, _ Flow, start func(Flow)) {
	g.completed++
	g.advanceSteps(now, start)
}

// sendChunk sends the next step's chunk.
func (g *rankAgent) sendChunk(now units.Time, start func(Flow)) {
	hosts, s := g.p.Collective.Hosts, g.posted
	f := Flow{Tag: g.stepTag(s), From: g.host, At: now, Group: uint64(g.iteration) + 1}
	if g.p.Operation == Exchange {
		to := (g.rank + 1 + s) % len(hosts)
		f.To, f.Size = hosts[to], g.p.chunkSize(to)
	} else {
		f.To, f.Size = hosts[(g.rank+1)%len(hosts)], g.p.chunkSize(g.rank-s)
	}
	g.posted++
	start(f)
}

// advanceSteps takes the steps that have become possible.
func (g *rankAgent) advanceSteps(now units.Time, start func(Flow)) {
	if g.posted == 0 {
		return // between iterations
	}
	for {
		if _, ok := g.early[g.stepTag(g.arrived)]; ok && g.arrived < g.p.steps {
			delete(g.early, g.stepTag(g.arrived))
			g.arrived++
			continue
		}
		if g.posted == g.p.steps || g.arrived < g.posted || g.p.Operation == Exchange && g.completed < g.posted {
			break
		}
		g.sendChunk(now, start)
	}
	if g.arrived < g.p.steps || g.completed < g.p.steps {
		return
	}
	g.iteration++
	g.posted, g.arrived, g.completed = 0, 0, 0
	if g.p.Iterations > 0 && g.iteration == g.p.Iterations {
		return
	}
	g.due = g.p.Computing.drawAfter(now, float64(g.p.Compute), g.rand)
	if hasEnded(g.due, g.p.Stop) {
		g.due = units.Never
	}
}
