package pattern

import (
	"math"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
	"pgregory.net/rapid"
)

// incast is the incast of papers: a file of 150 MB, striped over 30 of 54 servers,
// drawn for each request.
func incast() Requests {
	h := hosts(55)
	return Requests{
		Stream: stream, Aggregators: h[:1], Workers: h[1:], Fanout: 30, Response: sizes.Fixed(150 * units.MB), Total: true,
		Every: 20 * units.Millisecond, Count: 50,
	}
}

func TestIncast(t *testing.T) {
	n := run(t, must(incast()), 1, 1e6)
	if len(n.started) != 50*30 {
		t.Fatalf("%d flows", len(n.started))
	}
	byGroup := map[uint64][]Flow{}
	asked := map[int]int{}
	for _, f := range n.started {
		byGroup[f.Group] = append(byGroup[f.Group], f)
		asked[f.From]++
		if f.Size != 5*units.MB || f.To != 100 {
			t.Fatalf("%+v", f)
		}
	}
	begins := map[units.Time]bool{}
	sets := map[string]bool{}
	for g, flows := range byGroup {
		from := map[int]bool{}
		set := ""
		for _, f := range sorted(flows) {
			from[f.From] = true
			set += string(rune(f.From))
			if f.At != flows[0].At {
				t.Errorf("group %d begins at %v and %v", g, f.At, flows[0].At)
			}
		}
		if len(from) != 30 {
			t.Errorf("group %d has %d workers", g, len(from))
		}
		begins[flows[0].At] = true
		sets[set] = true
	}
	for k := range 50 {
		if !begins[units.Time(k)*20*units.Millisecond] {
			t.Errorf("no request %d", k)
		}
	}
	if len(sets) != 50 {
		t.Errorf("%d different sets of workers in 50 requests", len(sets))
	}
	if len(asked) != 54 {
		t.Errorf("%d workers were asked", len(asked))
	}
}

// TestWorkersAreDrawnEvenly: all workers are asked equally often, and so are all pairs.
func TestWorkersAreDrawnEvenly(t *testing.T) {
	q := incast()
	q.Workers = append(q.Workers[:9], q.Aggregators...) // the aggregator does not work for itself
	q.Fanout, q.Count, q.Every = 3, 60_000, units.Microsecond
	q.Aggregators = append(q.Aggregators, 1)
	one := map[int]int{}
	pairs := map[[2]int]int{}
	byGroup := map[uint64][]int{}
	for f := range PlayFlows(must(q), units.Never) {
		if f.To != 100 {
			continue
		}
		one[f.From]++
		for _, other := range byGroup[f.Group] {
			pairs[[2]int{min(other, f.From), max(other, f.From)}]++
		}
		byGroup[f.Group] = append(byGroup[f.Group], f.From)
	}
	for _, w := range q.Workers[:9] {
		if got := float64(one[w]); math.Abs(got-20_000) > 5*math.Sqrt(20_000) {
			t.Errorf("worker %d was asked %v times, want 20000", w, got)
		}
		for _, v := range q.Workers[:9] {
			if v <= w {
				continue
			}
			if got := float64(pairs[[2]int{w, v}]); math.Abs(got-5000) > 5*math.Sqrt(5000) {
				t.Errorf("workers %d and %d were asked together %v times, want 5000", w, v, got)
			}
		}
	}
	if one[100] != 0 {
		t.Error("the aggregator works for itself")
	}
}

// TestAskedByMessageOrByTheClock: the same workers answer with the same sizes, whether a
// message asks them or they know the schedule.
func TestAskedByMessageOrByTheClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hosts(rapid.IntRange(2, 20).Draw(rt, "hosts"))
		q := Requests{
			Stream: Stream{Seed: rapid.Uint64().Draw(rt, "seed"), Name: "q"}, Workers: h,
			Aggregators: h[:rapid.IntRange(1, len(h)).Draw(rt, "aggregators")],
			Fanout:      rapid.IntRange(0, len(h)-1).Draw(rt, "fanout"),
			Response:    named("websearch"), Total: rapid.Bool().Draw(rt, "total"),
			Every: units.Millisecond, Roaming: rapid.Bool().Draw(rt, "roaming"), Count: 20,
			Times: rapid.SampledFrom([]Law{ConstantLaw(), PoissonLaw()}).Draw(rt, "law"),
		}
		clock := run(t, must(q), 1, 1e6)
		q.Request = sizes.Fixed(64)
		asked := run(t, must(q), 2, 1e6)
		var asks int
		var answers []Flow
		created := map[uint64]units.Time{}
		for _, f := range asked.started {
			if f.Tag&answer == 0 {
				asks++
				created[f.Group] = f.At
				if f.Size != 64 {
					rt.Fatalf("a request of %v", f.Size)
				}
			} else {
				f.At = created[f.Group]
				answers = append(answers, f)
			}
		}
		if asks != len(answers) {
			rt.Fatalf("%d requests, %d answers", asks, len(answers))
		}
		equal(rt, "answers", clock.started, answers)
	})
}

// TestAnswersHaveSizesOfTheirOwn: without Total, workers draw sizes independently.
func TestAnswersHaveSizesOfTheirOwn(t *testing.T) {
	h := hosts(10)
	q := Requests{Stream: stream, Aggregators: h[:1], Workers: h, Response: named("websearch"), Every: 1, Count: 10}
	all := map[units.Bytes]bool{}
	for f := range PlayFlows(must(q), units.Never) {
		all[f.Size] = true
	}
	if len(all) < 88 { // two of 90 may be equal by chance, three pairs hardly
		t.Errorf("%d different sizes of 90", len(all))
	}
}

// TestStripes: stripes are equal parts that add up to the total.
func TestStripes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hosts(10)
		total := units.Bytes(rapid.IntRange(1, 1000).Draw(rt, "total"))
		n := rapid.IntRange(1, 9).Draw(rt, "fanout")
		q := Requests{Stream: stream, Aggregators: h[:1], Workers: h, Fanout: n, Response: sizes.Fixed(total), Total: true, Every: 1, Count: 1}
		var sum units.Bytes
		var all []units.Bytes
		for f := range PlayFlows(must(q), units.Never) {
			sum += f.Size
			all = append(all, f.Size)
		}
		if len(all) != n || sum != max(total, units.Bytes(n)) || slices.Max(all)-slices.Min(all) > 1 {
			rt.Fatalf("%d striped over %d: %v", total, n, all)
		}
	})
}

// TestClosedLoop: an aggregator asks again one think time after the last answer.
func TestClosedLoop(t *testing.T) {
	h := hosts(8)
	q := Requests{Stream: stream, Aggregators: h[:3], Workers: h, Fanout: 4, Request: sizes.Fixed(100), Response: named("fb-hadoop"),
		Think: 30 * units.Microsecond, Count: 40}
	n := run(t, must(q), 1, 1e6)
	last := map[int]units.Time{}
	answers := map[uint64]int{}
	asked := map[uint64]int{}
	requests := map[int]int{}
	for _, e := range n.log {
		f := e.flow
		switch {
		case e.kind == 1 && f.Tag&answer != 0:
			last[f.To] = e.at
			answers[f.Group]++
		case e.kind == 0 && f.Tag&answer == 0:
			if asked[f.Group]++; asked[f.Group] > 1 {
				continue
			}
			requests[f.From]++
			if at, ok := last[f.From]; ok && e.at != at+q.Think {
				t.Fatalf("a request at %v, the answers had come at %v", e.at, at)
			} else if !ok && e.at >= q.Think {
				t.Fatalf("the first request at %v", e.at)
			}
		}
	}
	for _, a := range q.Aggregators {
		if requests[a] != q.Count {
			t.Errorf("aggregator %d made %d requests", a, requests[a])
		}
	}
	for g, s := range n.groups() {
		if s.flows != 8 || answers[g] != 4 || asked[g] != 4 {
			t.Errorf("group %x has %d flows, %d answers", g, s.flows, answers[g])
		}
	}
}

// TestOutstanding: the allowed number of requests is under way, and no more than Count
// are made.
func TestOutstanding(t *testing.T) {
	h := hosts(4)
	q := Requests{Stream: stream, Aggregators: h[:1], Workers: h, Request: sizes.Fixed(100), Response: sizes.Fixed(100), Outstanding: 5, Count: 23}
	n := run(t, must(q), 1, 1e6)
	open, maxOpen, all := map[uint64]int{}, 0, map[uint64]bool{}
	for _, e := range n.log {
		switch f := e.flow; {
		case e.kind == 0 && f.Tag&answer == 0:
			open[f.Group]++
			all[f.Group] = true
			maxOpen = max(maxOpen, len(open))
		case e.kind == 1 && f.Tag&answer != 0:
			if open[f.Group]--; open[f.Group] == 0 {
				delete(open, f.Group)
			}
		}
	}
	if maxOpen != 5 || len(all) != 23 || len(open) != 0 {
		t.Errorf("%d requests under way, %d in all, %d not answered", maxOpen, len(all), len(open))
	}
}

// TestRPC: a request to one worker is a remote procedure call; clients offer a rate.
func TestRPC(t *testing.T) {
	h := hosts(10)
	q := Requests{Stream: stream, Aggregators: h[:4], Workers: h[4:], Fanout: 1, Request: named("google-rpc"), Response: named("google-rpc"),
		Every: 10 * units.Microsecond, Times: PoissonLaw(), Stop: 20 * units.Millisecond}
	n := run(t, must(q), 1, 1e6)
	calls, servers := 0, map[int]int{}
	for _, f := range n.started {
		if f.Tag&answer == 0 {
			calls++
			servers[f.To]++
		}
	}
	// 4 clients, 2000 calls each on average: five standard errors.
	if math.Abs(float64(calls)-8000) > 5*math.Sqrt(8000) || len(n.started) != 2*calls {
		t.Errorf("%d calls, %d flows", calls, len(n.started))
	}
	for _, s := range h[4:] {
		if math.Abs(float64(servers[s])-8000./6) > 5*math.Sqrt(8000./6) {
			t.Errorf("server %d was called %d times", s, servers[s])
		}
	}
}

// TestRoaming: all aggregators get an equal share of one process.
func TestRoaming(t *testing.T) {
	h := hosts(10)
	q := Requests{Stream: stream, Aggregators: h, Workers: h, Fanout: 2, Response: sizes.Fixed(10), Every: units.Microsecond, Roaming: true, Count: 20_000}
	n, to := map[units.Time]int{}, map[int]int{}
	for f := range PlayFlows(must(q), units.Never) {
		n[f.At]++
		to[f.To]++
	}
	if len(n) != 20_000 {
		t.Errorf("requests at %d times", len(n))
	}
	for _, h := range h {
		if math.Abs(float64(to[h])/2-2000) > 5*math.Sqrt(2000) {
			t.Errorf("aggregator %d made %d requests", h, to[h]/2)
		}
	}
}

// BenchmarkRequests measures the cost of an answer for a worker that knows the schedule,
// and for one that is asked.
func BenchmarkRequests(b *testing.B) {
	h := hosts(320)
	q := Requests{Stream: stream, Aggregators: h, Workers: h, Fanout: 60, Response: sizes.Fixed(500 * units.KB), Every: units.Millisecond, Times: PoissonLaw()}
	b.Run("roaming", func(b *testing.B) {
		q := q
		q.Roaming = true
		g := must(q).Agent(h[5])
		b.ReportAllocs()
		for b.Loop() {
			g.Fire(g.NextFlow(), func(Flow) {})
		}
	})
	b.Run("each", func(b *testing.B) {
		g := must(q).Agent(h[5])
		b.ReportAllocs()
		for b.Loop() {
			g.Fire(g.NextFlow(), func(Flow) {})
		}
	})
	b.Run("asked", func(b *testing.B) {
		q := q
		q.Request = sizes.Fixed(64)
		p := must(q)
		g := p.Agent(h[5])
		// A request to this worker.
		var ask Flow
		for f := range PlayFlows(alone{p, h[0]}, units.Never) {
			if f.To == h[5] {
				ask = f
				break
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			g.OnArrival(0, ask, func(Flow) {})
		}
	})
}
