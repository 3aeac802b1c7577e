package flowtable

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// modelFlow is a flow of a model, found by linear search.
type modelFlow struct {
	flow, count int
	seen        bool
	last        units.Time
	turn        int // position of its last packet among all
}

// model is a simple implementation of an exact table.
type model struct {
	Config
	flows []modelFlow
	turn  int
}

func (m *model) find(flow int) int {
	return slices.IndexFunc(m.flows, func(f modelFlow) bool { return f.flow == flow })
}

// current removes flows that are no longer known.
func (m *model) current(now units.Time) {
	m.flows = slices.DeleteFunc(m.flows, func(f modelFlow) bool {
		switch m.Kind {
		case Bounded:
			return now-f.last >= m.Age
		case Recent:
			return f.count == 0 && !f.seen
		}
		return f.count == 0
	})
}

func (m *model) arrive(now units.Time, flow int) {
	m.current(now)
	i := m.find(flow)
	if i < 0 {
		if m.Kind == Bounded && len(m.flows) == m.Size {
			oldest := slices.MinFunc(m.flows, func(a, b modelFlow) int { return a.turn - b.turn })
			m.flows = slices.DeleteFunc(m.flows, func(f modelFlow) bool { return f.flow == oldest.flow })
		}
		i = len(m.flows)
		m.flows = append(m.flows, modelFlow{flow: flow})
	}
	m.turn++
	f := &m.flows[i]
	f.count, f.seen, f.last, f.turn = f.count+1, true, now, m.turn
}

func (m *model) depart(now units.Time, flow int) {
	if i := m.find(flow); i >= 0 {
		m.flows[i].count--
	}
	m.current(now)
}

func (m *model) told(now units.Time) []int {
	m.current(now)
	var flows []int
	for i := range m.flows {
		flows = append(flows, m.flows[i].flow)
		m.flows[i].seen = false
	}
	m.current(now)
	return flows
}

// TestModel compares the exact tables with their models: which flows are known, in which
// order.
func TestModel(t *testing.T) {
	for _, k := range []Kind{Queued, Recent, Bounded} {
		t.Run(string(k), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := Config{Kind: k}
				if k == Bounded {
					c.Size = rapid.IntRange(1, 6).Draw(t, "size")
					c.Age = units.Time(rapid.IntRange(1, 20).Draw(t, "age"))
				}
				table, m := New(c, newRand(1)), &model{Config: c}
				var queue []int // flows of the packets in the queue
				var now units.Time
				t.Repeat(map[string]func(*rapid.T){
					"arrive": func(t *rapid.T) {
						flow := rapid.IntRange(0, 9).Draw(t, "flow")
						queue = append(queue, flow)
						table.OnArrival(now, of(flow))
						m.arrive(now, flow)
					},
					"depart": func(t *rapid.T) {
						if len(queue) == 0 {
							t.Skip("nothing is queued")
						}
						// From anywhere: a drop may take any.
						i := rapid.IntRange(0, len(queue)-1).Draw(t, "place")
						flow := queue[i]
						queue = slices.Delete(queue, i, i+1)
						table.OnDeparture(now, of(flow))
						m.depart(now, flow)
					},
					"pass": func(t *rapid.T) {
						now += units.Time(rapid.IntRange(0, 8).Draw(t, "time"))
					},
					"feedback": func(t *rapid.T) {
						if got, want := told(table, now), m.told(now); !slices.Equal(got, want) {
							t.Fatalf("told %v, not %v", got, want)
						}
					},
					"": func(t *rapid.T) {
						m.current(now)
						for range 2 {
							if got := table.Len(now); got != len(m.flows) {
								t.Fatalf("Len is %d, not %d", got, len(m.flows))
							}
						}
					},
				})
			})
		})
	}
}

// TestSampledModel checks invariants of the sampled tables that hold whatever they
// sample.
func TestSampledModel(t *testing.T) {
	for _, k := range []Kind{AFD, ElephantTrap, BubbleCache} {
		t.Run(string(k), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := Config{Kind: k, Size: rapid.IntRange(1, 12).Draw(t, "size"), Sample: rapid.IntRange(1, 3).Draw(t, "sample")}
				if k == BubbleCache {
					c.Age = units.Time(rapid.IntRange(1, 20).Draw(t, "age"))
				}
				seed := rapid.Uint64().Draw(t, "seed")
				// The twin gets the same input, and must have the same state.
				table, twin := New(c, newRand(seed)), New(c, newRand(seed))
				came := map[int]int{}
				var now units.Time
				t.Repeat(map[string]func(*rapid.T){
					"arrive": func(t *rapid.T) {
						flow := rapid.IntRange(0, 20).Draw(t, "flow")
						for range rapid.IntRange(1, 5).Draw(t, "packets") {
							came[flow]++
							table.OnArrival(now, of(flow))
							twin.OnArrival(now, of(flow))
						}
					},
					"depart": func(*rapid.T) { table.OnDeparture(now, of(3)) },
					"pass":   func(t *rapid.T) { now += units.Time(rapid.IntRange(0, 8).Draw(t, "time")) },
					"feedback": func(t *rapid.T) {
						known := table.Len(now)
						got := told(table, now)
						if other := told(twin, now); !slices.Equal(got, other) {
							t.Fatalf("told %v, and %v the other time", got, other)
						}
						if known != len(got) {
							t.Fatalf("Len was %d and %v are told", known, got)
						}
						for _, flow := range got {
							if came[flow] < 2 {
								t.Fatalf("told %d, of which %d packets came", flow, came[flow])
							}
						}
						if slices.Sort(got); len(slices.Compact(got)) != known {
							t.Fatalf("a flow is told twice: %v", got)
						}
					},
					"": func(t *rapid.T) { sound(t, table) },
				})
			})
		})
	}
}

// sound checks that the parts of a sampled table are consistent.
func sound(t *rapid.T, table Table) {
	switch x := table.(type) {
	case *afd:
		sum := 0
		for _, e := range x.flows.all() {
			sum += e.count
			if x.slots[e.slot] != e || e.known.IsLinked() != (e.count >= 2) {
				t.Fatalf("%+v is in a wrong place", e)
			}
		}
		if sum != x.sum || sum > x.size || x.flows.n > x.size {
			t.Fatalf("%d flows have %d samples, which is taken for %d, of %d", x.flows.n, sum, x.sum, x.size)
		}
	case *trap:
		for _, e := range x.flows.all() {
			if x.slots[e.slot] != e || e.known.IsLinked() != (e.count > 0) || e.count > maxTrapCount {
				t.Fatalf("%+v is in a wrong place", e)
			}
		}
		if x.flows.n > x.size || x.flows.n != len(x.slots) {
			t.Fatalf("%d flows in %d slots of %d", x.flows.n, len(x.slots), x.size)
		}
	case *bubble:
		for i, e := range x.order {
			if !has(&x.flows, e) || e.slot != i || e.known.IsLinked() != (e.count >= bubbleKnown) {
				t.Fatalf("%+v is in a wrong place, not %d", e, i)
			}
		}
		if x.flows.n > x.size || x.flows.n != len(x.order) || x.each < 1 || x.each > maxSample {
			t.Fatalf("%d flows in an order of %d, of %d, with one in %d sampled", x.flows.n, len(x.order), x.size, x.each)
		}
	}
}

// all returns the entries that find returns for their key.
func (x *index) all() []*entry {
	var all []*entry
	for _, e := range x.buckets {
		for ; e != nil; e = e.chain {
			if has(x, e) {
				all = append(all, e)
			}
		}
	}
	return all
}

// has reports whether an entry is found by its key.
func has(x *index, e *entry) bool { return x.findKey(&hashed{e.Key, hashKey(&e.Key)}) == e }
