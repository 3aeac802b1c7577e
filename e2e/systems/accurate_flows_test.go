package systems

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
)

// lossless is a carrier of flows over TCP under ACCurate, in the class that PFC pauses.
func lossless(t testing.TB, v6 bool) *carrier.TCP {
	c := fabrictest.TCP(t, "accurate")
	c.DSCP, c.IPv6 = 26, v6
	return c
}

// acknowledged runs a plan for a time and returns how much of the flows that are then in
// progress is acknowledged, by their tags.
func acknowledged(t *testing.T, p *plan.Plan, until units.Time) (*fabric.Fabric, map[uint32]units.Bytes) {
	t.Helper()
	f := fabric.New(p)
	var all fabrictest.Records
	f.SetFlowSink(&all, false)
	runTo(t, f, until)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	n := map[uint32]units.Bytes{}
	for _, r := range all {
		n[r.Tag] += r.Acked
	}
	return f, n
}

// payloadShare returns the payload's share of the wire, for full segments over IPv4.
func payloadShare(c *carrier.TCP) float64 {
	return float64(c.FullPayload()) / float64(packet.OnWire(wire.EthernetHeader+c.MTU))
}

// TestACCurateTCP_SharesAParkingLotEqually: flows over TCP in a parking lot have the rate that
// FRPs give them. Each has the same rate whether it crosses one bottleneck or two, also beside
// a flow over RDMA. Nothing is lost.
func TestACCurateTCP_SharesAParkingLotEqually(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, v6 := range []bool{false, true} {
		for _, rdma := range []bool{false, true} {
			x := tree{parent: []int{-1, 0}, up: []int{0, 10}, home: []int{1, 1, 0, 0}, host: []int{10, 10, 10, 10}}
			if rdma {
				x.flows = [][2]int{{1, 3}}
			}
			p := fabrictest.Parse(t, x.lab(accurateKinds("linger: 100us", "")))
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for _, k := range []int{0, 1, 2} {
				if k != 1 || !rdma {
					l.Flows[h[k]] = []pattern.Flow{{Tag: uint32(k), From: h[k], To: h[3], Size: 10 * units.MB}}
				}
			}
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: lossless(t, v6)}}
			_, before := acknowledged(t, p, 1*ms)
			f, after := acknowledged(t, p, 3*ms)
			if want := len(l.Flows); len(after) != want {
				t.Errorf("%d flows are under way, not %d", len(after), want)
			}
			for k, n := range after {
				ratio := float64(n-before[k]) * 8 / 0.002 / payloadShare(p.Traffic[0].TCP) / (0.95 * 10e9 / 3)
				if math.Abs(ratio-1) > 0.02 {
					t.Errorf("IPv6 %v, with RDMA %v: flow %d has %.3f of its share", v6, rdma, k, ratio)
				}
			}
			if a := f.Accounts(); !a.Balanced() || a.Dropped > 0 {
				t.Errorf("%+v", a)
			}
		}
	}
}

// TestACCurateTCP_IsMaxMinFairOnTrees: on random trees, each of several random flows over TCP
// gets 1-α of its water-filling rate.
func TestACCurateTCP_IsMaxMinFairOnTrees(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	examples := 20
	if testing.Short() {
		examples = 5
	}
	worst := 0.0
	for seed := range examples {
		x := rapid.Custom(func(t *rapid.T) tree { return drawTree(t, []int{10, 40}) }).Example(seed)
		p := fabrictest.Parse(t, x.lab(accurateKinds("", "floor: true")))
		p.Transfers = nil
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for i, f := range x.flows {
			l.Flows[h[f[0]]] = append(l.Flows[h[f[0]]], pattern.Flow{Tag: uint32(i), From: h[f[0]], To: h[f[1]], Size: units.GB})
		}
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: lossless(t, false)}}
		_, before := acknowledged(t, p, 1*ms)
		f, after := acknowledged(t, p, 3*ms)
		for i, want := range x.maxMin() {
			ratio := float64(after[uint32(i)]-before[uint32(i)]) * 8 / 0.002 / payloadShare(p.Traffic[0].TCP) / (want * 0.95e9)
			worst = max(worst, math.Abs(ratio-1))
			if math.Abs(ratio-1) > 0.04 {
				t.Errorf("example %d: flow %d from h%d to h%d has %.3f of its %.2f Gb/s\n%+v", seed, i, x.flows[i][0], x.flows[i][1], ratio, want*0.95, x)
			}
		}
		if a := f.Accounts(); !a.Balanced() || a.Dropped > 0 {
			t.Errorf("example %d: %+v", seed, a)
		}
	}
	t.Logf("the worst flow is %.1f%% off", 100*worst)
}

// TestACCurateTCP_LeavesNoStateOfEndedFlows: flows over TCP that have ended leave no timer at
// any host and no state at contention points: a later flow has the whole link.
func TestACCurateTCP_LeavesNoStateOfEndedFlows(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	x := tree{parent: []int{-1}, up: []int{0}, home: []int{0, 0, 0}, host: []int{10, 10, 10}}
	p := fabrictest.Parse(t, x.lab(accurateKinds("", "")))
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[2], Size: 500 * units.KB}},
		h[1]: {{From: h[1], To: h[2], Size: 500 * units.KB}, {Tag: 1, From: h[1], To: h[2], Size: 500 * units.KB, At: 1 * ms}},
	}}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: lossless(t, false)}}
	_, all, _ := carry(t, p, 1)
	fabrictest.CheckOnce(t, l, all, false)
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

// TestACCurate_IsTheSameWithAnyNumberOfWorkers: over random trees, flows over RDMA and TCP
// under ACCurate have the same records, and the run has the same trace, with 1, 2 and 4
// workers.
func TestACCurate_IsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	examples := 8
	if testing.Short() {
		examples = 3
	}
	for seed := range examples {
		x := rapid.Custom(func(t *rapid.T) tree { return drawTree(t, []int{10, 40}) }).Example(seed)
		busy := len(x.home)
		x.addIdleHosts(32) // fewer would all have one worker
		var first string
		var trace uint64
		for _, workers := range []int{1, 2, 4} {
			p := fabrictest.Parse(t, x.lab(accurateKinds("", "")))
			p.Transfers, p.Duration = nil, 0
			h := fabrictest.Hosts(p)[:busy]
			a, b := fabrictest.Draw(h, uint64(seed), 15, 20*units.Microsecond, 100_000, false), fabrictest.Draw(h, uint64(seed)+100, 15, 20*units.Microsecond, 100_000, false)
			p.Traffic = []plan.Traffic{
				{Name: "rdma", Pattern: a, RDMA: &carrier.RDMA{Verb: workload.Write, MTU: qp.MTU256, DSCP: 26}},
				{Name: "tcp", Pattern: b, TCP: lossless(t, false)},
			}
			f, all, text := carry(t, p, workers)
			if workers > 1 {
				if text != first || f.Trace() != trace {
					t.Errorf("example %d: %d workers: trace %x, with one %x; %s\n%+v", seed, workers, f.Trace(), trace, fabrictest.FirstDifference(first, text), x)
				}
				continue
			}
			first, trace = text, f.Trace()
			fabrictest.CheckOnce(t, a, only(all, 0), false)
			fabrictest.CheckOnce(t, b, only(all, 1), false)
			if n, _ := states(all); n[records.Done] != 30*len(h) || f.Accounts().Dropped > 0 {
				t.Errorf("example %d: %v, %+v", seed, n, f.Accounts())
			}
		}
	}
}

// only returns the records of one traffic.
func only(all []records.Record, traffic int32) (some []records.Record) {
	for _, r := range all {
		if r.Traffic == traffic {
			some = append(some, r)
		}
	}
	return some
}
