package fabric

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/carrier"
	"github.com/weftlab/weft/traces/pattern"
	"github.com/weftlab/weft/traces/records"
	"github.com/weftlab/weft/traces/workload"
)

// lossless is how flows go by TCP under ACCurate, in the class that PFC pauses.
func lossless(t testing.TB, v6 bool) *carrier.TCP {
	c := byTCP(t, "accurate")
	c.DSCP, c.IPv6 = 26, v6
	return c
}

// ackedBy is how much of the flows under way is acknowledged, by sender.
func ackedBy(f *Fabric) map[int32]units.Bytes {
	n := map[int32]units.Bytes{}
	for _, h := range f.traffic.hosts {
		h.UnderWay(func(r *records.Record) { n[r.From] += r.Acked })
	}
	return n
}

// TestACCurateOfTCP: flows by TCP in a parking lot have the rate that FRPs give them, each the
// same whether it crosses one bottleneck or two, and beside a flow by RDMA; nothing is lost.
func TestACCurateOfTCP(t *testing.T) {
	oneEngine(t)
	for _, v6 := range []bool{false, true} {
		for _, rdma := range []bool{false, true} {
			x := tree{parent: []int{-1, 0}, up: []int{0, 10}, home: []int{1, 1, 0, 0}, host: []int{10, 10, 10, 10}}
			if rdma {
				x.flows = [][2]int{{1, 3}}
			}
			p := parse(t, x.lab(accurateKinds("linger: 100us", "")))
			h := hostsOf(p)
			l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
			for _, k := range []int{0, 1, 2} {
				if k != 1 || !rdma {
					l.flows[h[k]] = []pattern.Flow{{From: h[k], To: h[3], Size: 10 * units.MB}}
				}
			}
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: lossless(t, v6)}}
			f := New(p)
			runTo(t, f, 1*ms)
			before := ackedBy(f)
			runTo(t, f, 3*ms)
			full := p.Traffic[0].TCP.Full()
			payload := float64(full) / float64(full+90)
			if v6 {
				payload = float64(full) / float64(full+110)
			}
			for from, n := range ackedBy(f) {
				ratio := float64(n-before[from]) * 8 / 0.002 / payload / (0.95 * 10e9 / 3)
				t.Logf("IPv6 %v, with RDMA %v: host %d has %.3f of its share", v6, rdma, from, ratio)
				if math.Abs(ratio-1) > 0.02 {
					t.Errorf("IPv6 %v, with RDMA %v: host %d has %.3f of its share", v6, rdma, from, ratio)
				}
			}
			if a := f.Accounts(); !a.Balanced() || a.Dropped > 0 {
				t.Errorf("%+v", a)
			}
		}
	}
}

// TestACCurateEnds: flows by TCP that are over leave nobody with a timer, and contention points
// with nothing: a flow that comes later has the whole link.
func TestACCurateEnds(t *testing.T) {
	oneEngine(t)
	x := tree{parent: []int{-1}, up: []int{0}, home: []int{0, 0, 0}, host: []int{10, 10, 10}}
	p := parse(t, x.lab(accurateKinds("", "")))
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[2], Size: 500 * units.KB}},
		h[1]: {{From: h[1], To: h[2], Size: 500 * units.KB}, {Tag: 1, From: h[1], To: h[2], Size: 500 * units.KB, At: 1 * ms}},
	}}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: lossless(t, false)}}
	_, all, _ := carry(t, p, 1)
	onceEach(t, l, all, false)
	for _, r := range all {
		want := 2 / 0.95
		if r.Tag == 1 {
			want = 1 / 0.95
		}
		if s := r.Slowdown(); r.State != records.Done || r.Retransmitted > 0 || s < want*0.95 || s > want*1.12 {
			t.Errorf("slowdown %.3f: %+v", s, r)
		}
	}
}

// TestACCurateDoesNotDependOnWorkers: over random trees, flows by RDMA and by TCP under ACCurate
// have the same records, and the run the same trace, with 1, 2 and 4 workers.
func TestACCurateDoesNotDependOnWorkers(t *testing.T) {
	examples := 8
	if testing.Short() {
		examples = 3
	}
	for seed := range examples {
		x := rapid.Custom(func(t *rapid.T) tree { return drawTree(t, []int{10, 40}) }).Example(seed)
		var first string
		var trace uint64
		for _, workers := range []int{1, 2, 4} {
			p := parse(t, x.lab(accurateKinds("", "")))
			p.Transfers, p.Duration = nil, 0
			h := hostsOf(p)
			a, b := drawn(h, uint64(seed), 15, 20*units.Microsecond, 100_000, false), drawn(h, uint64(seed)+100, 15, 20*units.Microsecond, 100_000, false)
			p.Traffic = []plan.Traffic{
				{Name: "rdma", Pattern: a, RDMA: &carrier.RDMA{Verb: workload.Write, MTU: qp.MTU256, DSCP: 26}},
				{Name: "tcp", Pattern: b, TCP: lossless(t, false)},
			}
			f, all, text := carry(t, p, workers)
			if workers > 1 {
				if text != first || f.Trace() != trace {
					t.Errorf("example %d: %d workers: trace %x, with one %x; %s\n%+v", seed, workers, f.Trace(), trace, firstDifference(first, text), x)
				}
				continue
			}
			first, trace = text, f.Trace()
			onceEach(t, a, only(all, 0), false)
			onceEach(t, b, only(all, 1), false)
			if n, _ := states(all); n[records.Done] != 30*len(h) || f.Accounts().Dropped > 0 {
				t.Errorf("example %d: %v, %+v", seed, n, f.Accounts())
			}
		}
	}
}

// only are the records of a traffic.
func only(all []records.Record, traffic int32) (some []records.Record) {
	for _, r := range all {
		if r.Traffic == traffic {
			some = append(some, r)
		}
	}
	return some
}
