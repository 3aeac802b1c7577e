package fabric

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/units"
)

// sampledLab has packets that arrive at whole microseconds, some of them at the instants of
// samples.
const sampledLab = `
duration: 100us
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}
events: [{at: 40us, link: "h3:eth0", set: {state: down}}]
workload:
  - {cbr: {from: h1, to: h2, rate: 1Gbps, size: 500B}}
  - {cbr: {from: h3, to: h2, rate: 1Gbps, size: 500B}}
`

// instants is a sampler that notes the instants of its samples, and what had been sent by
// then.
type instants struct {
	fabric *Fabric
	part   Part
	limit  int // closed after as many; 0 means never
	at     []units.Time
	sent   []uint64
	logged []int
	alone  []bool
}

func (s *instants) Sample(now units.Time, alone bool) {
	sent, logged := uint64(0), 0
	for n, node := range s.fabric.ports {
		for _, p := range node {
			if s.part.fabric != nil && s.part.Has(n) {
				sent += p.Counters(now).TxPackets
			}
		}
	}
	for _, x := range s.part.Shards {
		logged += len(x.Log())
	}
	s.at, s.sent, s.logged, s.alone = append(s.at, now), append(s.sent, sent), append(s.logged, logged), append(s.alone, alone)
}

func (s *instants) IsClosed() bool { return s.limit > 0 && len(s.at) >= s.limit }

// TestSampling_IsTheSameWithWorkersAndTimers: samples are taken at the multiples of the
// interval and at the end, after everything else at the instant, whether the run takes them,
// with any number of workers, or timers do. The run is the same as without.
func TestSampling_IsTheSameWithWorkersAndTimers(t *testing.T) {
	p := parse(t, sampledLab)
	plain := run(t, p)
	var first *instants
	for _, c := range []struct {
		workers int
		wall    bool
	}{{0, false}, {1, false}, {2, false}, {0, true}} {
		f := withWorkers(t, p, c.workers)
		var s *instants
		sampling := f.Sample(30*units.Microsecond, c.wall, func(part Part) Sampler {
			if s != nil {
				t.Errorf("%+v: more than one part", c)
			}
			s = &instants{fabric: f, part: part}
			return s
		})
		runTo(t, f, 70*units.Microsecond)
		runTo(t, f, p.Duration)
		sampling.Stop()
		sampling.Stop()
		if f.Trace() != plain.Trace() {
			t.Errorf("%+v: sampling changes the run", c)
		}
		if first == nil {
			first = s
		}
		if diff := cmp.Diff(first.sent, s.sent) + cmp.Diff(first.at, s.at) + cmp.Diff(first.logged, s.logged); diff != "" {
			t.Errorf("%+v: (-one engine +this):\n%s", c, diff)
		}
		if slices.Contains(s.alone, false) {
			t.Errorf("%+v: %v", c, s.alone)
		}
	}
	if want := []units.Time{30 * units.Microsecond, 60 * units.Microsecond, 90 * units.Microsecond, 100 * units.Microsecond}; !slices.Equal(first.at, want) {
		t.Errorf("samples at %v, want %v", first.at, want)
	}
	if !slices.Equal(first.logged, []int{0, 2, 2, 2}) || first.sent[0] == 0 || !slices.IsSorted(first.sent) {
		t.Errorf("%+v", first)
	}
}

// TestSampling_InTheWallClockHasAPartForEachShard: each shard has its own samplers, which are
// not alone except at the end; together they have all nodes. A part without a sampler has no
// samples.
func TestSampling_InTheWallClockHasAPartForEachShard(t *testing.T) {
	f, err := NewSharded(parse(t, "topology: {kinds: {host: {attach: none}}, generate: {dumbbell: {left: 2, right: 2, rate: 1Gbps, delay: 10us}}}"), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, skip := range []int{-1, 0, 1} {
		var all []*instants
		nodes := map[int]int{}
		sampling := f.Sample(units.Microsecond, true, func(part Part) Sampler {
			if part.Shards[0].Number == skip {
				return nil
			}
			for n := range f.Plan.Nodes {
				if part.Has(n) {
					nodes[n]++
				}
			}
			all = append(all, &instants{fabric: f, part: part})
			return all[len(all)-1]
		})
		for _, x := range sampling.samplers {
			x.Fire(units.Microsecond)
		}
		sampling.Stop()
		if want := 2 - min(skip+1, 1); len(all) != want || skip < 0 && len(nodes) != len(f.Plan.Nodes) {
			t.Errorf("%d samplers with %d nodes, want %d", len(all), len(nodes), want)
		}
		for _, s := range all {
			if !slices.Equal(s.alone, []bool{false, true}) {
				t.Errorf("%+v", s)
			}
		}
		for n, count := range nodes {
			if count != 1 {
				t.Errorf("node %d is in %d parts", n, count)
			}
		}
	}
}

// TestSampling_StopsWhenItsSamplerIsClosed: a closed sampler is not called, and others go on.
func TestSampling_StopsWhenItsSamplerIsClosed(t *testing.T) {
	for _, wall := range []bool{false, true} {
		f := New(parse(t, sampledLab))
		short, long := &instants{fabric: f, limit: 3}, &instants{fabric: f}
		f.Sample(10*units.Microsecond, wall, func(Part) Sampler { return short })
		f.Sample(25*units.Microsecond, wall, func(Part) Sampler { return long })
		runTo(t, f, f.Plan.Duration)
		if len(short.at) != 3 || len(long.at) != 4 {
			t.Errorf("wall %v: samples at %v and %v", wall, short.at, long.at)
		}
	}
}

// TestSample_PanicsWithoutAnInterval: an interval that is not positive would never end.
func TestSample_PanicsWithoutAnInterval(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(parse(t, sampledLab)).Sample(0, false, func(Part) Sampler { return nil })
}

// TestObservePauses_TellsEachObserver: all observers are told of the same pauses, with the
// ports that were paused.
func TestObservePauses_TellsEachObserver(t *testing.T) {
	f := New(fabrictest.ParseFile(t, "scripts/labs/incast-pfc.yaml", 1))
	type pause struct {
		at         units.Time
		node, port int
		prio       uint8
		paused     bool
	}
	var told [2][]pause
	for i := range told {
		f.ObservePauses(func(int) PauseObserver {
			return func(now units.Time, node, port int, prio uint8, paused bool) {
				told[i] = append(told[i], pause{now, node, port, prio, paused})
			}
		})
	}
	runTo(t, f, 500*units.Microsecond)
	begun := 0
	for _, p := range told[0] {
		if p.paused {
			begun++
		}
	}
	if !slices.Equal(told[0], told[1]) || begun == 0 {
		t.Errorf("%d and %d events, %d pauses", len(told[0]), len(told[1]), begun)
	}
	paused := uint64(0)
	for _, s := range f.Status() {
		for _, c := range s.Classes {
			if c.PauseRx > 0 {
				paused++
			}
		}
	}
	ports := map[[2]int]bool{}
	for _, p := range told[0] {
		ports[[2]int{p.node, p.port}] = true
	}
	if uint64(len(ports)) != paused {
		t.Errorf("%d ports got pauses, observers were told of %d", paused, len(ports))
	}
}
