package accurate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// newControl returns a reaction point at a port of 10 Gb/s, which sends FRPs 5 us after the
// beginning of a period.
func newControl(_ testing.TB, change func(*Config)) *Control {
	c := Preset("paper", 10*gbps)
	if change != nil {
		change(&c)
	}
	r := New(&c, 10*gbps, rand.New(rand.NewPCG(1, 1)))
	r.offset = 5 * us
	return r
}

// script plays inputs to a reaction point, and records its messages and its rate.
type script struct {
	r   *Control
	out strings.Builder
}

// at runs the timer until a time and then gives an input.
func (s *script) at(now units.Time, do func(r *Control)) {
	for s.r.NextTimer() < now {
		at := s.r.NextTimer()
		s.r.OnTimer(at)
		s.note(at)
	}
	do(s.r)
	s.note(now)
}

func (s *script) note(now units.Time) {
	for s.r.SendsMessages() {
		var f FRP
		s.r.NextMessage(queuePair, &f)
		counted := ""
		if f.Counted {
			counted = ", counted"
		}
		fmt.Fprintf(&s.out, "%v %v of period %d: CR %v, DR %v%s\n", now, f.Kind, f.Period, f.CR, f.DR, counted)
	}
	fmt.Fprintf(&s.out, "%v rate %v\n", now, s.r.Rate())
}

func begin(r units.Time) func(*Control) { return func(x *Control) { x.SetActive(r, true) } }

// responds delivers the response to the FRP of a period.
func responds(now units.Time, period uint16, cr, dr units.Rate, short bool) func(*Control) {
	return func(r *Control) {
		r.OnMessage(now, &FRP{Response: true, Short: short, Period: period, CR: cr, DR: dr, Flow: queuePair})
	}
}

func (s *script) expect(t *testing.T, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimPrefix(want, "\n"), "\t", "")
	if diff := cmp.Diff(want, s.out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFlow: a flow begins at line rate with a flow-init, sends one FRP in each period, follows
// CR or a DR above it, and ends with a flow-stop that carries its last CR.
func TestFlow(t *testing.T) {
	s := script{r: newControl(t, nil)}
	s.at(3*us, begin(3*us))
	s.at(4*us, responds(4*us, 0, 4*gbps, 4*gbps, true))
	s.at(5*us, responds(5*us, 0, 5*gbps, 5*gbps, true)) // another point on the path allows more
	s.at(6*us, responds(6*us, 0, 3*gbps, 3*gbps, false))
	s.at(27*us, responds(27*us, 1, 3*gbps, 6*gbps, false))
	s.at(30*us, responds(30*us, 0, 9*gbps, 9*gbps, false)) // overtaken
	s.at(31*us, func(r *Control) { r.OnMessage(31*us, &FRP{CR: 1, Flow: queuePair}) })
	s.at(46*us, func(r *Control) { r.SetActive(46*us, false) })
	s.at(47*us, responds(47*us, 2, 3*gbps, 3*gbps, false)) // too late
	s.at(100*us, begin(100*us))
	s.expect(t, `
		3us flow-init of period 0: CR 10Gbps, DR 10Gbps
		3us rate 10Gbps
		4us rate 4Gbps
		5us rate 4Gbps
		6us rate 3Gbps
		25us frp of period 1: CR 3Gbps, DR 10Gbps
		25us rate 3Gbps
		27us rate 6Gbps
		30us rate 6Gbps
		31us rate 6Gbps
		45us frp of period 2: CR 6Gbps, DR 10Gbps
		45us rate 6Gbps
		46us flow-stop of period 2: CR 6Gbps, DR 10Gbps, counted
		46us rate 10Gbps
		47us rate 10Gbps
		100us flow-init of period 5: CR 10Gbps, DR 10Gbps
		100us rate 10Gbps
	`)
	if got, want := cctest.FormatGauges(t, "accurate", s.r), "known 1yes/no cr 1e+10b/s frps 5 responses 2 shorts 2 stale 1"; got != want {
		t.Errorf("gauges %s, want %s", got, want)
	}
}

// TestStopBeforeThePeriodsFRP: contention points have not counted the flow in it.
func TestStopBeforeThePeriodsFRP(t *testing.T) {
	s := script{r: newControl(t, nil)}
	s.at(3*us, begin(3*us))
	s.at(22*us, func(r *Control) { r.SetActive(22*us, false) })
	s.expect(t, `
		3us flow-init of period 0: CR 10Gbps, DR 10Gbps
		3us rate 10Gbps
		22us flow-stop of period 1: CR 10Gbps, DR 10Gbps
		22us rate 10Gbps
	`)
}

// TestSmallFlows: small flows send no FRPs, unless it is known that they are not small, by what
// waits or by what was sent.
func TestSmallFlows(t *testing.T) {
	small := func(c *Config) { c.Small = 4 * units.KB }
	s := script{r: newControl(t, small)}
	s.at(1*us, begin(1*us))
	s.at(2*us, func(r *Control) { r.OnDataQueued(2*us, 3999) })
	s.at(3*us, func(r *Control) { r.OnPacketSent(3*us, 3999) })
	s.at(4*us, func(r *Control) { r.SetActive(4*us, false) })
	s.at(5*us, begin(5*us))
	s.at(6*us, func(r *Control) { r.OnPacketSent(6*us, 3999) })
	s.at(7*us, func(r *Control) { r.OnPacketSent(7*us, 1) })
	s.expect(t, `
		1us rate 10Gbps
		2us rate 10Gbps
		3us rate 10Gbps
		4us rate 10Gbps
		5us rate 10Gbps
		6us rate 10Gbps
		7us flow-init of period 0: CR 10Gbps, DR 10Gbps
		7us rate 10Gbps
	`)
	s = script{r: newControl(t, small)}
	s.at(1*us, begin(1*us))
	s.at(1*us, func(r *Control) { r.OnDataQueued(1*us, 4000) })
	s.expect(t, "1us rate 10Gbps\n1us flow-init of period 0: CR 10Gbps, DR 10Gbps\n1us rate 10Gbps\n")
}

// TestSmallFlowsThatRest: a flow that pauses for less than linger is the same flow, and what it
// sent before counts; one that pauses for longer is a new one.
func TestSmallFlowsThatRest(t *testing.T) {
	for _, c := range []struct {
		rest units.Time
		want bool
	}{{29 * us, true}, {30 * us, false}} {
		r := newControl(t, func(c *Config) { c.Small, c.Linger = 4*units.KB, 30*us })
		r.SetActive(us, true)
		r.OnPacketSent(us, 2000)
		r.SetActive(2*us, false)
		r.SetActive(2*us+c.rest, true)
		r.OnPacketSent(2*us+c.rest, 2000)
		if r.SendsMessages() != c.want {
			t.Errorf("after a rest of %v an FRP is sent: %v", c.rest, r.SendsMessages())
		}
	}
}

// TestLinger: a flow that pauses for less than linger continues unchanged, with FRPs; one that
// pauses for longer stops.
func TestLinger(t *testing.T) {
	s := script{r: newControl(t, func(c *Config) { c.Linger = 30 * us })}
	s.at(1*us, begin(1*us))
	s.at(2*us, responds(2*us, 0, 3*gbps, 3*gbps, false))
	s.at(10*us, func(r *Control) { r.SetActive(10*us, false) })
	s.at(39*us, begin(39*us))
	s.at(41*us, func(r *Control) { r.SetActive(41*us, false) })
	s.at(72*us, func(*Control) {})
	s.expect(t, `
		1us flow-init of period 0: CR 10Gbps, DR 10Gbps
		1us rate 10Gbps
		2us rate 3Gbps
		10us rate 3Gbps
		25us frp of period 1: CR 3Gbps, DR 10Gbps
		25us rate 3Gbps
		39us rate 3Gbps
		41us rate 3Gbps
		45us frp of period 2: CR 3Gbps, DR 10Gbps
		45us rate 3Gbps
		65us frp of period 3: CR 3Gbps, DR 10Gbps
		65us rate 3Gbps
		71us flow-stop of period 3: CR 3Gbps, DR 10Gbps, counted
		71us rate 10Gbps
		72us rate 10Gbps
	`)
	if at := s.r.NextTimer(); at != units.Never {
		t.Errorf("a flow that has stopped has a timer at %v", at)
	}
}

// TestLateTick: only one of the FRPs of several periods is sent.
func TestLateTick(t *testing.T) {
	s := script{r: newControl(t, nil)}
	s.at(1*us, begin(1*us))
	s.r.OnTimer(95 * us)
	s.note(95 * us)
	s.expect(t, "1us flow-init of period 0: CR 10Gbps, DR 10Gbps\n1us rate 10Gbps\n95us frp of period 4: CR 10Gbps, DR 10Gbps\n95us rate 10Gbps\n")
	if at := s.r.NextTimer(); at != 105*us {
		t.Errorf("the next one is due at %v, want 105us", at)
	}
}

// TestRatesHaveBounds: r_min and the line rate.
func TestRatesHaveBounds(t *testing.T) {
	s := script{r: newControl(t, nil)}
	s.at(1*us, begin(1*us))
	s.at(2*us, responds(2*us, 0, 0, 0, false))
	s.at(3*us, func(r *Control) { r.SetLineRate(3*us, 5*gbps) })
	s.at(4*us, responds(4*us, 0, 9*gbps, 9*gbps, false))
	s.at(26*us, func(r *Control) { r.SetLineRate(26*us, 40*gbps) })
	s.at(46*us, func(*Control) {})
	s.expect(t, `
		1us flow-init of period 0: CR 10Gbps, DR 10Gbps
		1us rate 10Gbps
		2us rate 1Mbps
		3us rate 1Mbps
		4us rate 5Gbps
		25us frp of period 1: CR 5Gbps, DR 5Gbps
		25us rate 5Gbps
		26us rate 9Gbps
		45us frp of period 2: CR 9Gbps, DR 40Gbps
		45us rate 9Gbps
		46us rate 9Gbps
	`)
}

// TestOffsets: FRPs are sent in the second quarter of periods, spread over it.
func TestOffsets(t *testing.T) {
	c := Preset("paper", 10*gbps)
	random := rand.New(rand.NewPCG(1, 1))
	minGap, maxGap := units.Never, units.Time(0)
	for range 1000 {
		r := New(&c, 10*gbps, random)
		minGap, maxGap = min(minGap, r.offset), max(maxGap, r.offset)
	}
	if minGap < 5*us || minGap > 5100*units.Nanosecond || maxGap >= 10*us || maxGap < 9900*units.Nanosecond {
		t.Errorf("offsets from %v to %v", minGap, maxGap)
	}
}

// TestControls_DoNotAllocate: reaction points do not allocate after creation.
func TestControls_DoNotAllocate(t *testing.T) {
	r := newControl(t, nil)
	m := &FRP{Response: true, CR: gbps, Flow: queuePair}
	var body packet.Body = new(FRP)
	now := units.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 100 * us
		r.SetActive(now, true)
		r.OnMessage(now, m)
		r.OnTimer(now + 50*us)
		r.SetActive(now+60*us, false)
		for r.SendsMessages() {
			r.NextMessage(queuePair, body)
		}
	}); n != 0 {
		t.Errorf("%v allocations a flow", n)
	}
}

func TestPresets(t *testing.T) {
	cctest.CheckPresets(t, "accurate", 100*units.Mbps, units.Gbps, 10*units.Gbps, 40*units.Gbps, 100*units.Gbps, 400*units.Gbps)
}

// TestErrors: each mistake has one error that says what would be right.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.RRP = 0 }, "rrp: 0s is out of range: give a time from 1us to 3600s, such as 50us"},
		{func(c *Config) { c.Skew = -1 }, "skew: -1ps is out of range: give a time from 0 to 3600s, such as 50us"},
		{func(c *Config) { c.Drift = 0.5 }, "drift: 50% is out of range: give a share from 0% to 1%"},
		{func(c *Config) { c.RMin = 0 }, "r_min: 0 is out of range: give a rate above 0, such as 1Mbps"},
		{func(c *Config) { c.RMin = 20 * gbps }, "r_min: 20Gbps is out of range: give a rate up to the link's, 10Gbps"},
		{func(c *Config) { c.Small = -1 }, "small: -1B is out of range: give 0 or more, such as 4KB"},
		{func(c *Config) { c.Linger = -1 }, "linger: -1ps is out of range: give a time from 0 to 3600s, such as 50us"},
		{func(c *Config) { c.DSCP = 64 }, "dscp: 64 is out of range: give a number from 0 to 63"},
	} {
		x := Preset("paper", 10*gbps)
		c.change(&x)
		got := ""
		if err := x.Validate(10 * gbps); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	x := Preset("programs", 0)
	if err := x.Validate(0); err == nil || !strings.HasPrefix(err.Error(), "ACCurate needs the rate of the port's link") {
		t.Errorf("without a line rate: %v", err)
	}
}
