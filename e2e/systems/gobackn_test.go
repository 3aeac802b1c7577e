package systems

import (
	"fmt"
	"math"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// goBackN is one RC flow over a switch. Packets with data are lost on the first
// link with probability p, and acknowledgements on the path back with
// probability back.
type goBackN struct {
	delay   units.Time // of each of the two links
	timeout uint8      // code of the local ACK timeout
	p, back float64
}

const (
	gbnRate   = 40e9
	gbnPacket = 8 * (14 + 20 + 8 + 12 + 1024 + 4 + 24) / gbnRate // s: a middle packet of a WRITE on the wire
	gbnAck    = 8 * (14 + 20 + 8 + 12 + 4 + 4 + 24) / gbnRate    // s: an ACK or NAK
)

// window returns N: how many packets leave from a lost one, included, until its
// NAK arrives. The packet behind the lost one is what is answered; the switch
// stores and forwards it and the NAK.
func (g goBackN) window() float64 {
	return math.Ceil((gbnPacket + 2*gbnPacket + 2*gbnAck + 4*g.delay.Seconds()) / gbnPacket)
}

// cost returns the expected number of packets that leave for each delivered one,
// and its variance. Time is counted in packets, because the sender never rests.
//
// A loss costs N packets: the lost one and those that the receiver drops behind
// it. Textbooks assume that for every loss, which gives (1-p)/(1-p+pN) of the
// line. But a responder answers a gap with one NAK and is then silent until the
// expected packet arrives (IBTA §9.7.4.1), so only the timeout detects that a
// packet is lost again: T packets after the NAK arrived or the previous timeout
// expired. With geometrically many such losses
//
//	cost = 1 + p·(N + T·p/(1-p))
//
// If the NAK is lost, the timeout runs from the last acknowledgement, which one
// packet in 64 asks for (ask-every). The one before the loss arrives N-1 packets
// after its packet was sent, on average 32.5 packets before the loss.
func (g goBackN) cost() (mean, variance float64) {
	p, n := g.p, g.window()
	t := transport.AckTimeout(g.timeout).Seconds() / gbnPacket
	again, againSquared := p/(1-p), p*(1+p)/(1-p)/(1-p) // moments of a geometric law
	first := [...]struct{ weight, packets float64 }{{1 - g.back, n}, {g.back, n - 1 - 32.5 + t}}
	var squares float64
	for _, f := range first {
		mean += p * f.weight * (f.packets + t*again)
		squares += p * f.weight * (f.packets*f.packets + 2*f.packets*t*again + t*t*againSquared)
	}
	return 1 + mean, squares - mean*mean
}

// goodput runs the flow and returns what is delivered, as a share of the line.
func (g goBackN) goodput(t *testing.T, length units.Time) float64 {
	t.Helper()
	f, err := fabric.NewParallel(fabrictest.Parse(t, fmt.Sprintf(`
duration: %v
topology:
  kinds: {host: {attach: none, nic: {timeout: %v}}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 40Gbps, delay: %v, from: {"h1:eth0": {loss: %v}, "s1:1": {loss: %v}}}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 40Gbps, delay: %v}
workload:
  - {write: {from: h1, to: h2, size: 1GB, count: unlimited}}
`, length, transport.AckTimeout(g.timeout), g.delay, g.p, g.back, g.delay)), 1)
	if err != nil {
		t.Fatal(err)
	}
	runTo(t, f, length)
	r := f.Transfers()[0]
	if r.Failed > 0 {
		t.Errorf("%d messages failed: %s", r.Failed, r.FirstFailure)
	}
	// The first packet arrives after the delay of the path.
	return float64(r.Received) / 1024 * gbnPacket / (length.Seconds() - 2*g.delay.Seconds() - 2*gbnPacket)
}

// TestGoBackN_GoodputFollowsTheFormula: goodput against loss follows the formula, within four
// standard deviations for a run of that length, and 0.1% for the pipe, whose content at the
// end is not counted. With seven retries none of these flows fails.
func TestGoBackN_GoodputFollowsTheFormula(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const short, long = units.Microsecond, 20 * units.Microsecond // 5 and 81 us of round trip
	var rows []goBackN
	for _, p := range []float64{0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1} {
		rows = append(rows, goBackN{short, 4, p, 0}, goBackN{long, 6, p, 0})
	}
	rows = append(rows,
		goBackN{short, 8, 1e-2, 0},                                                               // 1 ms
		goBackN{short, 4, 1e-2, 1e-2}, goBackN{short, 4, 1e-2, 0.2}, goBackN{long, 6, 1e-3, 0.5}, // also on the path back
	)
	length := 100 * ms
	if testing.Short() {
		length = 20 * ms
	}
	for _, g := range rows {
		got := g.goodput(t, length)
		cost, variance := g.cost()
		want, n := 1/cost, g.window()
		delivered := length.Seconds() / gbnPacket * want
		tolerance := want * (4*math.Sqrt(variance/delivered)/cost + 0.001)
		t.Logf("delay %-4v timeout %9v loss %-6g back %-4g N %3.0f: %.4f of the line, formula %.4f ± %.4f, textbook %.4f",
			g.delay, transport.AckTimeout(g.timeout), g.p, g.back, n, got, want, tolerance, (1-g.p)/(1-g.p+g.p*n))
		if math.Abs(got-want) > tolerance {
			t.Errorf("%+v: %.4f of the line, want %.4f ± %.4f", g, got, want, tolerance)
		}
		if tolerance > 0.3*want && !testing.Short() {
			t.Errorf("%+v: a tolerance of %.4f tests nothing", g, tolerance)
		}
	}
}
