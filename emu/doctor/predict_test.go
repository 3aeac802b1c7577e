package doctor

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

const us = units.Microsecond

// full returns a result with all measurements, in round figures.
func full() *Result {
	wake := 30 * us
	r := &Result{
		Checks: good().runChecks()[:3],
		Measured: Measured{
			ClockRead: 37*units.Nanosecond + 400*units.Picosecond,
			Sleep:     &Sleep{50 * us, 120 * us, 3160 * us}, SleepFIFO: &Sleep{30 * us, 70 * us, 90 * us}, WakeUp: &wake,
			Devices: &Devices{Small: 200_000, Large: 190_000, TCP1500: 2 * units.Gbps, TCP9000: 6 * units.Gbps, Offload: 20 * units.Gbps, Nice: true},
			Virtual: &VirtualTime{2_500_000},
		},
	}
	r.Predict = predictRates(&r.Measured, room{files: 1000, memory: units.GiB, namespaces: 500})
	r.setVerdict()
	return r
}

// TestPrediction_FollowsFromMeasurements checks the arithmetic against results computed by hand.
func TestPrediction_FollowsFromMeasurements(t *testing.T) {
	got := full().Predict
	want := Prediction{
		Packets: 170_000, TCP1500: 1700 * units.Mbps, TCP9000: 5100 * units.Mbps, Offload: 14 * units.Gbps,
		// Each way a wake-up, a packet of 1/170000 s and two hops of 0.4 us.
		RoundTrip: 73365 * units.Nanosecond, RoundPerHop: 800 * units.Nanosecond,
		LatenessP99: 70 * us, Hosts: 246, HostsLimit: "open files", VirtualHops: 2_500_000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrediction_LeavesOutWhatWasNotMeasured: what is not measured is not predicted, nor is what
// depends on it; it is listed with the reason, and there is no division by zero.
func TestPrediction_LeavesOutWhatWasNotMeasured(t *testing.T) {
	wake := 30 * us
	r := room{files: 1000, memory: units.GiB, namespaces: 500}
	whole := full().Measured
	without := func(change func(m *Measured)) Measured {
		m, d := whole, *whole.Devices
		m.Devices = &d
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		m    Measured
		left []LeftOut
		want func(*Prediction) bool
	}{
		"everything": {whole, nil, func(p *Prediction) bool { return p.RoundTrip > 0 && p.LatenessP99 == 70*us }},
		"small packets": {
			without(func(m *Measured) { m.Devices.Small = 0 }),
			[]LeftOut{{"packets", "not measured: packets of 64 bytes through two TAPs"}, {"round trip", "not measured: packets of 64 bytes through two TAPs"}},
			func(p *Prediction) bool {
				return p.Packets == 0 && p.RoundTrip == 0 && p.TCP1500 > 0 && p.RoundPerHop > 0
			},
		},
		"offload": {
			without(func(m *Measured) { m.Devices.Offload = 0 }),
			[]LeftOut{{"a TCP stream with offload", "not measured: TCP through two TAPs with offload"}},
			func(p *Prediction) bool { return p.Offload == 0 && p.TCP9000 > 0 },
		},
		"virtual time and wake-up": {
			without(func(m *Measured) { m.Virtual, m.WakeUp = nil, nil }),
			[]LeftOut{{"round trip", "not measured: wake-up of a thread; virtual time"}, {"round trip per switch", "not measured: virtual time"}, {"virtual time", "not measured: virtual time"}},
			func(p *Prediction) bool {
				return p.RoundTrip+p.RoundPerHop == 0 && p.VirtualHops == 0 && p.Packets > 0
			},
		},
		"sleep with SCHED_FIFO": {without(func(m *Measured) { m.SleepFIFO = nil }), nil, func(p *Prediction) bool { return p.LatenessP99 == 120*us }},
		"all sleeps": {
			without(func(m *Measured) { m.Sleep, m.SleepFIFO = nil, nil }),
			[]LeftOut{{"lateness", "not measured: sleep, ordinary scheduling"}},
			func(p *Prediction) bool { return p.LatenessP99 == 0 },
		},
	} {
		p := predictRates(&c.m, r)
		if diff := cmp.Diff(c.left, p.LeftOut); diff != "" || !c.want(&p) {
			t.Errorf("without %s: %+v (-want +got):\n%s", name, p, diff)
		}
	}
	for name, m := range map[string]Measured{"nothing": {}, "only a wake-up": {WakeUp: &wake}} {
		p := predictRates(&m, r)
		left := len(p.LeftOut)
		p.LeftOut = nil
		if diff := cmp.Diff(Prediction{Hosts: 246, HostsLimit: "open files"}, p); diff != "" || left != 8 {
			t.Errorf("%s was measured, and %d predictions are left out (-want +got):\n%s", name, left, diff)
		}
	}
}

// TestVerdict_IsThatOfTheWorstCheck checks the summary too.
func TestVerdict_IsThatOfTheWorstCheck(t *testing.T) {
	bad, warn := Check{Name: "/dev/net/tun", Verdict: Bad}, Check{Name: "load", Verdict: Warn}
	for _, c := range []struct {
		checks  []Check
		verdict Verdict
		say     string
	}{
		{nil, OK, "Labs can run here."},
		{[]Check{warn}, Warn, "1 warning above says"},
		{[]Check{warn, warn}, Warn, "2 warnings above say"},
		{[]Check{warn, bad, {Name: "tbf", Verdict: Bad}}, Bad, "see /dev/net/tun, tbf above"},
	} {
		r := &Result{Checks: c.checks}
		if r.setVerdict(); r.Verdict != c.verdict || !strings.Contains(r.Summary, c.say) {
			t.Errorf("%v: %s, %s", c.checks, r.Verdict, r.Summary)
		}
	}
}

func TestDigits_KeepsTheFirst(t *testing.T) {
	for _, c := range []struct {
		v    float64
		n    int
		want float64
	}{{123456, 2, 120000}, {0, 3, 0}, {-1, 3, 0}, {999.6, 3, 1000}, {7.849e9, 2, 7.8e9}, {1, 3, 1}} {
		if got := keepDigits(c.v, c.n); got != c.want || math.IsNaN(got) {
			t.Errorf("%v to %d digits: %v, want %v", c.v, c.n, got, c.want)
		}
	}
}

func TestMedian_IsTheLowerOfTwo(t *testing.T) {
	for _, c := range []struct {
		v    []int
		want int
	}{{[]int{5}, 5}, {[]int{9, 1, 5}, 5}, {[]int{4, 3, 2, 1}, 2}} {
		if got := medianValue(c.v); got != c.want {
			t.Errorf("%v: %d, want %d", c.v, got, c.want)
		}
	}
}
