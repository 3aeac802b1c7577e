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
		Checks: good().checks()[:3],
		Measured: Measured{
			ClockRead: 37*units.Nanosecond + 400*units.Picosecond,
			Sleep:     &Sleep{50 * us, 120 * us, 3160 * us}, SleepFIFO: &Sleep{30 * us, 70 * us, 90 * us}, WakeUp: &wake,
			Devices: &Devices{Small: 200_000, Large: 190_000, TCP1500: 2 * units.Gbps, TCP9000: 6 * units.Gbps, Offload: 20 * units.Gbps, Nice: true},
			Virtual: &VirtualTime{2_500_000},
		},
	}
	r.Predict = predict(&r.Measured, room{files: 1000, memory: units.GiB, namespaces: 500})
	r.judge()
	return r
}

// TestPredict checks the arithmetic against results computed by hand.
func TestPredict(t *testing.T) {
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

// TestPredictFromLess: what is not measured is not predicted, and there is no
// division by zero.
func TestPredictFromLess(t *testing.T) {
	wake := 30 * us
	r := room{files: 1000, memory: units.GiB, namespaces: 500}
	for name, c := range map[string]struct {
		m    Measured
		want Prediction
	}{
		"nothing":       {Measured{}, Prediction{}},
		"wake-up":       {Measured{WakeUp: &wake}, Prediction{}},
		"devices":       {Measured{Devices: &Devices{TCP9000: units.Gbps}}, Prediction{TCP9000: 850 * units.Mbps}},
		"virtual":       {Measured{Virtual: &VirtualTime{1e6}}, Prediction{VirtualHops: 1e6, RoundPerHop: 2 * us}},
		"no offload":    {Measured{Virtual: &VirtualTime{1e6}, Devices: &Devices{}}, Prediction{VirtualHops: 1e6, RoundPerHop: 2 * us}},
		"ordinary only": {Measured{Sleep: &Sleep{us, 2 * us, 3 * us}}, Prediction{LatenessP99: 2 * us}},
		"no devices":    {Measured{WakeUp: &wake, Virtual: &VirtualTime{1e6}}, Prediction{VirtualHops: 1e6, RoundPerHop: 2 * us, RoundTrip: 64 * us}},
	} {
		c.want.Hosts, c.want.HostsLimit = 246, "open files"
		if diff := cmp.Diff(c.want, predict(&c.m, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestJudge(t *testing.T) {
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
		if r.judge(); r.Verdict != c.verdict || !strings.Contains(r.Summary, c.say) {
			t.Errorf("%v: %s, %s", c.checks, r.Verdict, r.Summary)
		}
	}
}

func TestDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		n    int
		want float64
	}{{123456, 2, 120000}, {0, 3, 0}, {-1, 3, 0}, {999.6, 3, 1000}, {7.849e9, 2, 7.8e9}, {1, 3, 1}} {
		if got := digits(c.v, c.n); got != c.want || math.IsNaN(got) {
			t.Errorf("%v to %d digits: %v, want %v", c.v, c.n, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []int
		want int
	}{{[]int{5}, 5}, {[]int{9, 1, 5}, 5}, {[]int{4, 3, 2, 1}, 2}} {
		if got := median(c.v); got != c.want {
			t.Errorf("%v: %d, want %d", c.v, got, c.want)
		}
	}
}
