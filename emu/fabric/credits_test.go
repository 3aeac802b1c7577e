package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// creditIncastLab is four NICs that write to a fifth, with packets of 256 B and 2.5 KB an
// input port, as in the network of ACCurate's paper (§III).
const creditIncastLab = `
duration: 2ms
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, mtu: 256, cc: none}}
    switch:
      %s
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, credits: {buffer: 2.5KB}}
        default: {weight: 1}
    link: {rate: 10Gbps, delay: 100ns}
  generate: {star: {hosts: 5}}
workload:
  - {incast: {to: h5, from: "h[1-4]", size: 10MB}}
`

// TestCredits_KeepAnIncastLosslessAtFullRate: with 39 blocks for each input port nothing is
// lost and the link is full, whether the buffer is bounded or not, and with store-and-forward
// as with cut-through.
func TestCredits_KeepAnIncastLosslessAtFullRate(t *testing.T) {
	for _, buffer := range []string{"", "buffer: {size: 20KB}", "buffer: {preset: per-port, size: 2.5KB}", "cut-through: true"} {
		f := run(t, parse(t, fmt.Sprintf(creditIncastLab, buffer)))
		if a := f.Accounts(); a.Dropped != 0 || !a.Balanced() {
			t.Errorf("%q: %+v", buffer, a)
		}
		out := classNamed(t, portNamed(t, f, "s1:h5"), "roce")
		// A packet takes 338 B of the link.
		const full = 2e-3 * 10e9 / 8 / 338
		if float64(out.TxPackets) < 0.985*full {
			t.Errorf("%q: %d packets in 2 ms, a full link carries %.0f", buffer, out.TxPackets, full)
		}
		for i := range 4 {
			in := classNamed(t, portNamed(t, f, fmt.Sprintf("s1:h%d", i+1)), "roce")
			g := in.CreditGiven
			if !in.Lossless || g == nil || g.Buffer != 39*64 || g.HeldMax > g.Buffer || g.HeldMax < g.Buffer/2 || g.Updates == 0 || g.Lost+g.Surplus != 0 || in.IngressMax > 2500 {
				t.Errorf("%q: s1:h%d gives %+v, at most %v waited", buffer, i+1, g, in.IngressMax)
			}
			from := classNamed(t, portNamed(t, f, fmt.Sprintf("h%d:eth0", i+1)), "roce")
			s := from.CreditSpent
			if s == nil || s.Buffer != 39*64 || s.Waits < 100 || s.Updates == 0 || from.PausedTime < units.Millisecond || from.PauseFramesRx != 0 {
				t.Errorf("%q: h%d waited for %v: %+v", buffer, i+1, from.PausedTime, s)
			}
			if from.CreditGiven != nil || in.CreditSpent != nil {
				t.Errorf("%q: the switch needs credit of a host: %+v, %+v", buffer, from.CreditGiven, in.CreditSpent)
			}
		}
	}
}

// TestCredits_ComeBackAsFastAsTheyAreSpentOnAFreePath: if hardly anything waits in the switch,
// credit comes back as fast as it is spent, whatever the period.
func TestCredits_ComeBackAsFastAsTheyAreSpentOnAFreePath(t *testing.T) {
	p := parse(t, strings.Replace(fmt.Sprintf(creditIncastLab, ""), "buffer: 2.5KB", "buffer: 2.5KB, period: 1s", 1))
	p.Transfers = p.Transfers[:1]
	f := run(t, p)
	const full = 2e-3 * 10e9 / 8 / 338
	if out := classNamed(t, portNamed(t, f, "s1:h5"), "roce"); float64(out.TxPackets) < 0.985*full {
		t.Errorf("%d packets in 2 ms, a full link carries %.0f", out.TxPackets, full)
	}
	if g := classNamed(t, portNamed(t, f, "s1:h1"), "roce").CreditGiven; g.HeldMax > g.Buffer {
		t.Errorf("more has waited than there is room for: %+v", g)
	}
}

// TestCredits_AreAllBackWhenARunEnds: a run of a lab whose links have credits ends when
// everything is sent. All credit is back, and no more frames are sent afterwards.
func TestCredits_AreAllBackWhenARunEnds(t *testing.T) {
	p := parse(t, strings.Replace(fmt.Sprintf(creditIncastLab, ""), "duration: 2ms", "", 1))
	for i := range p.Transfers {
		p.Transfers[i].Size = 100_000
	}
	f := New(p)
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if f.Now() > units.Millisecond {
		t.Errorf("it ended at %v", f.Now())
	}
	creditIsBack(t, f)
}

// creditIsBack checks that all credit in a fabric has returned.
func creditIsBack(t *testing.T, f *Fabric) {
	t.Helper()
	n := 0
	for _, p := range f.Status() {
		for _, c := range p.Classes {
			if s := c.CreditSpent; s != nil {
				n++
				if s.Available != s.Buffer || c.Paused {
					t.Errorf("%s class %s: %+v", p.Name, c.Name, s)
				}
			}
			if g := c.CreditGiven; g != nil && g.Held != 0 {
				t.Errorf("%s class %s holds %+v", p.Name, c.Name, g)
			}
		}
	}
	if n == 0 {
		t.Error("no port needs credit")
	}
}

// TestCredits_SpreadCongestionToTheSendersOfTheirClass: the congestion of a link spreads back
// to the senders as with pauses, nothing is lost, and another class does not notice.
func TestCredits_SpreadCongestionToTheSendersOfTheirClass(t *testing.T) {
	lab := strings.Replace(victimLab, "pfc: {xoff: 50KB, xon: 40KB}", "credits: {buffer: 50KB}", 1)
	f := run(t, parse(t, fmt.Sprintf(lab, 26)))
	if a := f.Accounts(); a.Dropped != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
	culprit, victim := result(t, f, "culprit"), result(t, f, "victim")
	if culprit.Goodput < 90e6 || culprit.Goodput > 100e6 || victim.Goodput > 150e6 {
		t.Errorf("the culprit has %.1f Mb/s, the victim %.1f of 300", float64(culprit.Goodput)/1e6, float64(victim.Goodput)/1e6)
	}
	for _, port := range []string{"s2:s3", "s1:s2", "a:eth0", "b:eth0"} {
		if c := classNamed(t, portNamed(t, f, port), "lossless"); c.CreditSpent.Waits == 0 || c.PausedTime < 10*units.Millisecond {
			t.Errorf("%s waited %d times for %v", port, c.CreditSpent.Waits, c.PausedTime)
		}
	}
	f = run(t, parse(t, fmt.Sprintf(lab, 0)))
	if victim := result(t, f, "victim"); victim.Lost > 2 || victim.Goodput < 299e6 {
		t.Errorf("in another class the victim has %.1f Mb/s and loses %d", float64(victim.Goodput)/1e6, victim.Lost)
	}
	node, index, err := f.Plan.Endpoint("s2:s1")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.CheckPause(node, index); err != nil || !strings.Contains(c.Reason, "credits") {
		t.Errorf("why no pause: %+v, %v", c, err)
	}
}

// TestCreditsBesidePFC_EachHoldsOffItsOwnClass: a class with credits and one with PFC on the
// same links. Each is held off by its own mechanism, and loses nothing.
func TestCreditsBesidePFC_EachHoldsOffItsOwnClass(t *testing.T) {
	lab := strings.Replace(victimLab, "        default:", "        credited: {dscp: [27], priority: 5, weight: 1, credits: {buffer: 30KB}}\n        default:", 1)
	lab = strings.Replace(lab, "priority: 3,", "priority: 3, weight: 1,", 1)
	lab = fmt.Sprintf(lab, 27) + "  - {cbr: {name: other, from: b, to: c, rate: 100Mbps, size: 300B, dscp: 27}}\n"
	f := run(t, parse(t, lab))
	if a := f.Accounts(); a.Dropped != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
	s := portNamed(t, f, "s2:s3")
	if c := classNamed(t, s, "lossless"); c.PauseFramesRx == 0 || c.PausedTime == 0 || c.CreditSpent != nil {
		t.Errorf("the class with pfc: %+v", c)
	}
	if c := classNamed(t, s, "credited"); c.PauseFramesRx != 0 || c.CreditSpent.Waits == 0 || c.PausedTime == 0 {
		t.Errorf("the class with credits: %+v, %+v", c, c.CreditSpent)
	}
	if a, b := result(t, f, "culprit"), result(t, f, "other"); a.Goodput < 30e6 || b.Goodput < 30e6 || a.Goodput+b.Goodput < 86e6 {
		t.Errorf("c's link of 100 Mb/s, of which headers take an eighth, brings %.1f and %.1f Mb/s", float64(a.Goodput)/1e6, float64(b.Goodput)/1e6)
	}
}

// TestCreditDeadlock_IsNamedAndEndsTheRun: a cycle of links, each waiting for credit of the
// next, is found and named, and ends a run that nothing else would end.
func TestCreditDeadlock_IsNamedAndEndsTheRun(t *testing.T) {
	p := parse(t, strings.Replace(fmt.Sprintf(ringLab, ""), "pfc: {xoff: 20KB, xon: 15KB}", "credits: {buffer: 20KB}", 1))
	f := run(t, p)
	d := f.Deadlocks()
	if len(d) != 1 || d[0].String() != "s1:s2 -> s2:s3 -> s3:s1 -> s1:s2" || d[0].Class != "lossless" || d[0].Ended != 0 {
		t.Fatalf("%+v", d)
	}
	at := f.Accounts()
	if at.Dropped != 0 || !at.Balanced() || at.Held < 1000 {
		t.Errorf("%+v", at)
	}
	if err := f.Run(context.Background(), 200*units.Millisecond); err != nil {
		t.Fatal(err)
	}
	if f.Accounts().Delivered != at.Delivered {
		t.Error("a deadlock in which something is delivered")
	}
	f = New(p)
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if len(f.Deadlocks()) != 1 || f.Now() > units.Second {
		t.Errorf("ended at %v with %+v", f.Now(), f.Deadlocks())
	}
}

// TestCredits_RecoverFromLossAndFailures: loss and damage of packets and of credit frames,
// copies, and cut links cost credit for a while. In the end all credit is back, and a switch
// has dropped only damaged packets.
func TestCredits_RecoverFromLossAndFailures(t *testing.T) {
	for _, faults := range []string{"loss: 20%", "corrupt: 20%", "duplicate: 5%", "loss: 1%, corrupt: 1%, duplicate: 1%, jitter: 2us", "delay: 30us, loss: 5%"} {
		p := parse(t, fmt.Sprintf(`
topology:
  kinds:
    switch: {buffer: {size: 1MB}, classes: {lossless: {dscp: [26], priority: 3, credits: {buffer: 5KB}}}}
    host: {attach: none}
    link: {rate: 1Gbps, delay: 1us}
  generate: {dumbbell: {left: 3, right: 3, %s}}
workload:
  - {poisson: {from: [h1, h2, h3], to: h4, rate: 400Mbps, size: 1000B, dscp: 26, for: 20ms}}
  - {poisson: {from: [h4, h5], to: h1, rate: 400Mbps, size: 200B, dscp: 26, for: 20ms}}
events:
  - {at: 5ms, link: "h1:eth0", set: {state: down}}
  - {at: 7ms, link: "h1:eth0", set: {state: up}}
`, faults))
		for p.Seed = range uint64(8) {
			recoversCredit(t, p, faults)
		}
	}
}

// recoversCredit runs a lab with faults of its links and checks that all credit has returned.
func recoversCredit(t *testing.T, p *plan.Plan, faults string) {
	t.Helper()
	f := New(p)
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	a := f.Accounts()
	if !a.Balanced() || a.Held != 0 || a.Drops["headroom-full"]+a.Drops["buffer-full"] != 0 {
		t.Errorf("%s: %+v", faults, a)
	}
	creditIsBack(t, f)
	var lost, surplus units.Bytes
	for _, p := range f.Status() {
		for _, c := range p.Classes {
			if g := c.CreditGiven; g != nil {
				lost, surplus = lost+g.Lost, surplus+g.Surplus
			}
		}
	}
	if !strings.HasPrefix(faults, "duplicate") && lost == 0 || strings.Contains(faults, "duplicate") != (surplus > 0) {
		t.Errorf("%s: %v are said to be lost, %v doubled", faults, lost, surplus)
	}
}

// TestCredits_RefuseReordering: settings that reorder packets are rejected while a lab runs.
func TestCredits_RefuseReordering(t *testing.T) {
	f := New(parse(t, fmt.Sprintf(creditIncastLab, "")))
	reorder, by := units.Fraction(0.1), units.Microsecond
	err := f.Set(0, [2]bool{true, true}, linkPatch(reorder, by))
	if err == nil || !strings.Contains(err.Error(), "credits") {
		t.Errorf("%v", err)
	}
}

func linkPatch(reorder units.Fraction, by units.Time) change.LinkPatch {
	return change.LinkPatch{Reorder: &reorder, ReorderBy: &by}
}
