package pattern

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// TestRingsMoveTheData follows each rank's contribution to each chunk: a send carries what
// the rank has at that instant, an arrival adds it. In the end each rank has the
// operation's complete result.
func TestRingsMoveTheData(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranks := rapid.IntRange(2, 12).Draw(rt, "ranks")
		op := rapid.SampledFrom([]Operation{AllReduce, ReduceScatter, AllGather}).Draw(rt, "operation")
		c := Collective{
			Stream: stream, Operation: op, Hosts: hosts(ranks), Iterations: 3, Compute: 5 * units.Microsecond,
			Size: units.Bytes(rapid.IntRange(ranks, 1_000_000).Draw(rt, "size")),
		}
		n := run(t, must(c), rapid.Uint64().Draw(rt, "seed"), 1e6)
		place := map[int]int{}
		for i, h := range c.Hosts {
			place[h] = i
		}
		steps := ranks - 1
		if op == AllReduce {
			steps *= 2
		}
		var sum units.Bytes
		for iteration := range uint64(3) {
			have := make([][]uint64, ranks) // by rank and chunk: contributing ranks
			for r := range have {
				have[r] = make([]uint64, ranks)
				for k := range have[r] {
					if op != AllGather {
						have[r][k] = 1 << r
					}
				}
				if op == AllGather {
					have[r][r] = 1<<ranks - 1
				}
			}
			carried := map[[2]int]uint64{}
			for _, e := range n.log {
				f := e.flow
				if f.Group != iteration+1 || e.kind == 2 {
					continue
				}
				r, s := place[f.From], int(f.Tag)%steps
				k := ((r-s)%ranks + ranks) % ranks
				if place[f.To] != (r+1)%ranks {
					rt.Fatalf("rank %d sends to rank %d", r, place[f.To])
				}
				want := c.Size / units.Bytes(ranks)
				if units.Bytes(k) < c.Size%units.Bytes(ranks) {
					want++
				}
				if f.Size != want {
					rt.Fatalf("chunk %d of %d has %d bytes, want %d", k, c.Size, f.Size, want)
				}
				if e.kind == 0 {
					carried[[2]int{r, s}] = have[r][k]
					sum += f.Size
				} else {
					have[place[f.To]][k] |= carried[[2]int{r, s}]
				}
			}
			for r := range have {
				for k := range have[r] {
					if op == ReduceScatter && k != (r+1)%ranks {
						continue // a rank has one chunk of the result
					}
					if have[r][k] != 1<<ranks-1 {
						rt.Fatalf("iteration %d: rank %d has %b of chunk %d", iteration, r, have[r][k], k)
					}
				}
			}
		}
		if len(n.started) != 3*ranks*steps || len(n.done) != len(n.started) {
			rt.Fatalf("%d flows, want %d", len(n.started), 3*ranks*steps)
		}
		// Each step sends all chunks once.
		if want := 3 * units.Bytes(steps) * c.Size; sum != want {
			rt.Fatalf("%d bytes sent, want %d", sum, want)
		}
	})
}

// TestExchange: in each iteration every rank sends every other rank its chunk, round by
// round.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranks := rapid.IntRange(2, 12).Draw(rt, "ranks")
		c := Collective{Stream: stream, Operation: Exchange, Hosts: hosts(ranks), Iterations: 2, Size: 100_001}
		n := run(t, must(c), rapid.Uint64().Draw(rt, "seed"), 1e6)
		type key struct {
			group    uint64
			from, to int
		}
		pairs := map[key]int{}
		sent := map[int]units.Bytes{}
		for _, f := range n.started {
			pairs[key{f.Group, f.From, f.To}]++
			sent[f.From] += f.Size
		}
		if len(pairs) != 2*ranks*(ranks-1) || len(n.started) != len(pairs) {
			rt.Fatalf("%d flows between %d pairs", len(n.started), len(pairs))
		}
		for i, h := range c.Hosts {
			own := c.Size / units.Bytes(ranks)
			if units.Bytes(i) < c.Size%units.Bytes(ranks) {
				own++
			}
			if sent[h] != 2*(c.Size-own) {
				rt.Fatalf("rank %d sends %d bytes", i, sent[h])
			}
			if n.maxUnder[h] != 1 {
				rt.Fatalf("rank %d has %d sends under way", i, n.maxUnder[h])
			}
		}
		// A rank begins a round only when it has received the chunk of the previous round.
		arrived := map[key]bool{}
		place := map[int]int{}
		for i, h := range c.Hosts {
			place[h] = i
		}
		for _, e := range n.log {
			f := e.flow
			if e.kind == 1 {
				arrived[key{f.Group, f.From, f.To}] = true
			}
			round := (place[f.To] - place[f.From] + ranks) % ranks
			if e.kind != 0 || round == 1 {
				continue
			}
			from := c.Hosts[(place[f.From]-round+1+ranks)%ranks]
			if !arrived[key{f.Group, from, f.From}] {
				rt.Fatalf("rank %d is in round %d before it has what rank %d sends it", place[f.From], round, place[from])
			}
		}
	})
}

// TestIterations: a rank begins the next iteration when its own is over and it has
// computed.
func TestIterations(t *testing.T) {
	c := Collective{Stream: stream, Hosts: hosts(5), Size: 1e6, Compute: 70 * units.Microsecond, Stop: 5 * units.Millisecond, Start: units.Microsecond}
	n := run(t, must(c), 1, 1e6)
	over := map[int]units.Time{}
	iteration := map[int]uint64{}
	for _, e := range n.log {
		f := e.flow
		switch e.kind {
		case 0:
			if f.Group == iteration[f.From] {
				continue
			}
			want := units.Microsecond
			if f.Group > 1 {
				want = over[f.From] + c.Compute
			}
			if e.at != want || f.Group != iteration[f.From]+1 {
				t.Fatalf("rank %d begins iteration %d at %v, want %v", f.From, f.Group, e.at, want)
			}
			iteration[f.From] = f.Group
		case 1:
			if f.Group == iteration[f.To] { // not from a rank that is ahead
				over[f.To] = e.at
			}
		case 2:
			over[f.From] = e.at
		}
	}
	for _, h := range c.Hosts {
		if iteration[h] < 10 {
			t.Errorf("rank %d had %d iterations", h, iteration[h])
		}
	}
	for g, s := range n.groups() {
		if s.begin >= c.Stop || s.flows%8 != 0 {
			t.Errorf("iteration %d begins at %v, with %d flows", g, s.begin, s.flows)
		}
	}
}

// TestRingDoesNotWaitForAcknowledgements: a rank posts its next send as soon as the chunk
// has arrived.
func TestRingDoesNotWaitForAcknowledgements(t *testing.T) {
	n := run(t, must(Collective{Stream: stream, Hosts: hosts(4), Size: 4000, Iterations: 1}), 1, 1e6)
	early := false
	for _, maxFlows := range n.maxUnder {
		early = early || maxFlows > 1
	}
	if !early {
		t.Error("no rank has two sends under way")
	}
}

// BenchmarkCollective measures the cost of a step for a rank.
func BenchmarkCollective(b *testing.B) {
	g := must(Collective{Hosts: hosts(64), Size: 1e6}).Agent(100)
	b.ReportAllocs()
	tag := uint32(0)
	for b.Loop() {
		if g.NextFlow() == 0 {
			g.Fire(0, func(Flow) {})
		}
		g.OnArrival(0, Flow{Tag: tag}, func(Flow) {})
		g.OnCompletion(0, Flow{Tag: tag}, func(Flow) {})
		tag++
	}
}
