package fabric

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/traffic/workload"
)

// result finds the record of a flow.
func result(t *testing.T, f *Fabric, name string) workload.Result {
	t.Helper()
	for _, r := range f.Results() {
		if r.Flow == name {
			return r
		}
	}
	t.Fatalf("there is no flow %s", name)
	panic("unreachable")
}

// portNamed finds a port by its name.
func portNamed(t *testing.T, f *Fabric, name string) status.Port {
	t.Helper()
	node, index, err := f.Plan.Endpoint(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.PortStatus(node, index)
}

// classNamed finds a class of a port.
func classNamed(t *testing.T, s status.Port, name string) status.Class {
	t.Helper()
	for _, c := range s.Classes {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("%s has no class %s", s.Name, name)
	panic("unreachable")
}

// victimLab is three switches in a row. Host a sends faster than c's link; host
// b sends to d and shares only the path with it.
const victimLab = `
duration: 50ms
topology:
  kinds:
    switch:
      buffer: {size: 2MB}
      classes:
        lossless: {dscp: [26], priority: 3, pfc: {xoff: 50KB, xon: 40KB}}
        default: {weight: 1}
    host: {attach: none}
    link: {rate: 1Gbps, delay: 1us}
  nodes:
    s1: {kind: switch}
    s2: {kind: switch}
    s3: {kind: switch}
    a: {kind: host}
    b: {kind: host}
    c: {kind: host}
    d: {kind: host}
  links:
    - {endpoints: ["a:eth0", "s1:a"]}
    - {endpoints: ["b:eth0", "s1:b"]}
    - {endpoints: ["s1:s2", "s2:s1"]}
    - {endpoints: ["s2:s3", "s3:s2"]}
    - {endpoints: ["c:eth0", "s3:c"], rate: 100Mbps}
    - {endpoints: ["d:eth0", "s3:d"]}
workload:
  - {cbr: {name: culprit, from: a, to: c, rate: 400Mbps, size: 1000B, dscp: 26}}
  - {cbr: {name: victim, from: b, to: d, rate: 300Mbps, size: 1000B, dscp: %d}}
`

// TestPFC_SpreadsPausesToTheHostsOfItsClass: nothing is lost in the fabric, the pause spreads
// back to both senders, and the victim gets about as much as the culprit, though its own path
// is free (Stephens et al., INFOCOM 2014; Zhu et al., SIGCOMM 2015, §2.2). In another class it
// is not affected.
func TestPFC_SpreadsPausesToTheHostsOfItsClass(t *testing.T) {
	f := run(t, parse(t, fmt.Sprintf(victimLab, 26)))
	if a := f.Accounts(); a.Dropped != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
	culprit, victim := result(t, f, "culprit"), result(t, f, "victim")
	if culprit.Goodput < 90e6 || culprit.Goodput > 100e6 || victim.Goodput > 150e6 {
		t.Errorf("the culprit has %.1f Mb/s, the victim %.1f of 300", float64(culprit.Goodput)/1e6, float64(victim.Goodput)/1e6)
	}
	for _, port := range []string{"s2:s3", "s1:s2", "a:eth0", "b:eth0"} {
		if c := classNamed(t, portNamed(t, f, port), "lossless"); c.PauseFramesRx == 0 || c.PausedTime < 10*units.Millisecond {
			t.Errorf("%s was paused %d times for %v", port, c.PauseFramesRx, c.PausedTime)
		}
	}
	if c := classNamed(t, portNamed(t, f, "s3:s2"), "lossless"); len(c.PauseCauses) != 1 || c.PauseCauses[0].Port != "s3:c" || c.PauseCauses[0].Time != c.PausingTime {
		t.Errorf("s3 paused s2 because of %+v", c.PauseCauses)
	}
	if c := classNamed(t, portNamed(t, f, "s2:s1"), "default"); c.Lossless || c.PauseFramesTx != 0 {
		t.Errorf("the default class: %+v", c)
	}

	f = run(t, parse(t, fmt.Sprintf(victimLab, 0)))
	if victim := result(t, f, "victim"); victim.Lost > 2 || victim.Goodput < 299e6 {
		t.Errorf("in another class the victim has %.1f Mb/s and loses %d", float64(victim.Goodput)/1e6, victim.Lost)
	}
	if c := classNamed(t, portNamed(t, f, "b:eth0"), "default"); c.PausedTime != 0 {
		t.Errorf("the victim's class was paused for %v", c.PausedTime)
	}
	if f.Accounts().Dropped != 0 {
		t.Errorf("%+v", f.Accounts())
	}
}

// TestCheckPause_SaysWhyThereWasNoPause checks the explanations of why there was no pause.
func TestCheckPause_SaysWhyThereWasNoPause(t *testing.T) {
	f := run(t, parse(t, fmt.Sprintf(victimLab, 0)))
	check := func(name string) status.PauseCheck {
		t.Helper()
		node, index, err := f.Plan.Endpoint(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.CheckPause(node, index)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	row := check("s1:b").Rows[1]
	if row.Name != "lossless" || row.RxPackets != 0 || row.Pauses != 0 || row.Xoff.Known || row.Xoff.Threshold != 50*units.KB {
		t.Errorf("s1:b, where only other classes come in: %+v", row)
	}
	row = check("s3:s2").Rows[1]
	if row.Pauses == 0 || !row.Xoff.Known || row.Xoff.Used < row.Xoff.Of || row.Headroom == 0 || len(row.Queues) != 1 || row.Queues[0].Port != "s3:c" {
		t.Errorf("s3:s2, which pauses: %+v", row)
	}
	node, index, _ := f.Plan.Endpoint("a:eth0")
	if _, err := f.CheckPause(node, index); err == nil || !strings.Contains(err.Error(), "port of a host") {
		t.Errorf("a host's port: %v", err)
	}
	plain := New(parse(t, "topology: {generate: {star: {hosts: 2}}}"))
	if c, err := plain.CheckPause(0, 0); err != nil || !strings.Contains(c.Reason, "plain ports") {
		t.Errorf("a plain switch: %+v, %v", c, err)
	}
}

// TestDynamicThreshold_SharesTheBufferByAlpha: n ports that are always congested settle at
// alpha/(1+n alpha) of the buffer each (Choudhury and Hahne 1998, equation 3).
func TestDynamicThreshold_SharesTheBufferByAlpha(t *testing.T) {
	for _, c := range []struct {
		alpha float64
		n     int
	}{{0.125, 1}, {0.5, 3}, {1, 2}, {1, 5}, {4, 3}} {
		var nodes, links, flows strings.Builder
		for i := range c.n {
			fmt.Fprintf(&nodes, "    a%d: {kind: host}\n    b%d: {kind: host}\n", i, i)
			fmt.Fprintf(&links, "    - {endpoints: [\"a%d:eth0\", \"s1:a%d\"], rate: 10Gbps}\n    - {endpoints: [\"b%d:eth0\", \"s1:b%d\"], rate: 1Gbps}\n", i, i, i, i)
			fmt.Fprintf(&flows, "  - {poisson: {from: a%d, to: b%d, rate: 3Gbps, size: 500B}}\n", i, i)
		}
		f := run(t, parse(t, fmt.Sprintf(`
duration: 20ms
topology:
  kinds: {switch: {buffer: {size: 1MB, alpha: %v}}, host: {attach: none}, link: {delay: 1us}}
  nodes:
    s1: {kind: switch}
%s  links:
%sworkload:
%s`, c.alpha, nodes.String(), links.String(), flows.String())))
		want := c.alpha / (1 + float64(c.n)*c.alpha) * 1e6
		for i := range c.n {
			if q := float64(portNamed(t, f, fmt.Sprintf("s1:b%d", i)).QueueBytes); math.Abs(q-want) > 0.02*want {
				t.Errorf("alpha %v, %d ports: port %d holds %.0f bytes, want %.0f", c.alpha, c.n, i, q, want)
			}
		}
	}
}

// lostLossless returns the name of a lossless class of a switch that has dropped
// packets for lack of room, although it has no limit and no watchdog; "" if
// there is none. The headroom is the lab file's default for the links.
func lostLossless(f *Fabric) string {
	for n := range f.Plan.Nodes {
		node := &f.Plan.Nodes[n]
		if f.Switches[n] == nil || node.QoS == nil {
			continue
		}
		for i := range node.Ports {
			for j, c := range f.PortStatus(n, i).Classes {
				k := &node.Ports[i].Classes[j]
				guarded := k.PFC != nil && k.PFC.Watchdog.Detect > 0
				judged := k.Mark != (congestion.Choice{}) // which may drop what is not ECN-capable
				if c.Lossless && c.Dropped > 0 && k.Limit == 0 && !guarded && !judged {
					return fmt.Sprintf("%s dropped %d packets of the lossless class %s", f.Plan.PortName(n, i), c.Dropped, c.Name)
				}
			}
		}
	}
	return ""
}

// runLossless runs a lab and fails if a lossless class of a switch has lost packets.
func runLossless(t rapid.TB, text string) status.Accounts {
	t.Helper()
	p := parse(t, text)
	f := New(p)
	if err := f.Run(context.Background(), p.Duration); err != nil {
		t.Fatal(err)
	}
	if lost := lostLossless(f); lost != "" {
		t.Fatalf("%s\n%s", lost, text)
	}
	return f.Accounts()
}

// TestLosslessClasses_LoseNothing: over links that lose no pause frames, a lossless class with
// the default headroom of the lab file loses nothing in any switch, whatever the topology, the
// rates, the thresholds and the traffic.
func TestLosslessClasses_LoseNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := regexp.MustCompile(`loss: [0-9.]+%, corrupt: [0-9]+%`).ReplaceAllString(fabrictest.DrawQoSLab(rt), "loss: 0%")
		head, tail, _ := strings.Cut(text, "events:")
		_, workload, _ := strings.Cut(tail, "workload:")
		runLossless(rt, head+"workload:"+workload)
	})
}

// qosLab is a lab of two switches with some settings, whose links have others, with traffic
// of three senders to h4, which may have a slow link, in the classes with DSCPs 3 and 1.
func qosLab(settings, link string, slow bool) string {
	rate := "1Gbps"
	if slow {
		rate = "10Mbps"
	}
	return fmt.Sprintf(`
duration: 2ms
topology:
  kinds: {host: {attach: none}, switch: {%s}}
  generate: {dumbbell: {left: 3, right: 2, rate: 1Gbps, delay: 1us%s}}
events: [{at: 0, from: "s2:h4", set: {rate: %s}}]
workload:
  - {cbr: {from: [h1, h2], to: h4, rate: 700Mbps, size: 1000B, ect: true, dscp: 3}}
  - {on-off: {from: [h2, h3], to: h4, rate: 900Mbps, size: 1200B, ect: true, dscp: 1, on: 50us, off: 40us}}
  - {poisson: {from: h5, to: h1, rate: 200Mbps, size: 100B, ip: 6, dscp: 3}}
`, settings, link, rate)
}

// qosClasses is switches' settings in which the class with DSCP 3 has some settings.
func qosClasses(guarded string) string {
	return "buffer: {size: 2MB}, classes: {guarded: {dscp: [3], priority: 3, " + guarded + "}, bulk: {dscp: [1], priority: 1, limit: 20KB}, default: {}}"
}

// flowControls are the ways to hold a sender off before a class loses packets.
var flowControls = map[string]string{
	"a PFC threshold":         qosClasses("pfc: {xoff: 6KB, xon: 3KB}"),
	"a dynamic PFC threshold": qosClasses("pfc: {alpha: 1/64, offset: 2KB}"),
	"PFC and cut-through":     "cut-through: true, " + qosClasses("pfc: {xoff: 6KB, xon: 3KB}"),
	"PAUSE of the whole link": "buffer: {size: 2MB}, pause: {xoff: 7KB, xon: 4KB}",
	"credits of the link":     qosClasses("credits: {buffer: 7KB}"),
}

// TestFlowControl_HoldsSendersOffAndLosesNothing: senders that offer twice the link's rate are
// held off by each kind of flow control, and their class loses nothing.
func TestFlowControl_HoldsSendersOffAndLosesNothing(t *testing.T) {
	for name, settings := range flowControls {
		t.Run(name, func(t *testing.T) {
			if a := runLossless(t, qosLab(settings, "", false)); a.Consumed == 0 || a.Delivered == 0 {
				t.Errorf("nobody was held off: %+v", a)
			}
		})
	}
}

// TestQoS_AccountsForEveryPacket: whatever the settings of the switches, every packet
// is accounted for at any time, and neither the number of workers nor the times of inspections
// change anything.
func TestQoS_AccountsForEveryPacket(t *testing.T) {
	fabrictest.Check(t, 50, func(rt *rapid.T) {
		runSound(rt, fabrictest.DrawQoSLab(rt), soundness{workers: 3, outcome: outcome})
	})
}

// TestQoS_AccountsForEveryFate: the same, for labs in which packets have each of these
// fates.
func TestQoS_AccountsForEveryFate(t *testing.T) {
	trimmed := func(trim string) string {
		return "classes: {cut: {dscp: [3], priority: 3, limit: 5KB, trim: {" + trim + ", dscp: 12}}, headers: {dscp: [12], priority: 7, limit: 1600B}, default: {limit: 20KB}}"
	}
	for name, c := range map[string]struct {
		settings, link string
		slow           bool
		fates          []string
	}{
		"a full queue drops":                {settings: qosClasses("limit: 20KB"), fates: []string{"queue-full"}},
		"an ingress limit drops":            {settings: "buffer: {size: 600KB}, classes: {default: {ingress: {limit: 10KB}}}", fates: []string{"buffer-full"}},
		"RED marks":                         {settings: qosClasses("mark: {red: {kmin: 2KB, kmax: 9KB, pmax: 0.3}}"), fates: []string{"marked"}},
		"NDP trims, and sends headers back": {settings: trimmed("preset: ndp"), slow: true, fates: []string{"trimmed", "returned"}},
		"UEC trims, and drops headers":      {settings: trimmed("preset: uec"), slow: true, fates: []string{"trimmed", "header-full"}},
		"PFC pauses":                        {settings: flowControls["a PFC threshold"], fates: []string{"paused"}},
		"a watchdog drops":                  {settings: qosClasses("pfc: {xoff: 6KB, xon: 3KB, watchdog: {detect: 100us, restore: 100us}}"), slow: true, fates: []string{"paused", "watchdog"}},
		"links lose and damage":             {settings: qosClasses("limit: 20KB"), link: ", loss: 2%, corrupt: 2%", fates: []string{"link-loss", "bad-fcs"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := runSound(t, qosLab(c.settings, c.link, c.slow), soundness{workers: 3, outcome: outcome}).Accounts()
			seen := map[string]bool{"trimmed": a.Trimmed > 0, "returned": a.Returned > 0, "marked": a.Marked > 0, "paused": a.Consumed > 0}
			for reason := range a.Drops {
				seen[reason] = true
			}
			for _, fate := range c.fates {
				if !seen[fate] {
					t.Errorf("no packet is %s: %+v", fate, a)
				}
			}
		})
	}
}

// soundness is the parameters of runSound.
type soundness struct {
	workers int                                       // at most
	watch   func(t rapid.TB, f *Fabric) (stop func()) // of every second run; may be nil
	outcome func(f *Fabric) []any                     // must be the same in all runs
}

// runSound runs a lab once without inspection before its end, and then in one shard
// and in several with inspections in between: every packet is accounted for each
// time, and the outcome is the same. It returns the first run.
func runSound(t rapid.TB, text string, s soundness) (first *Fabric) {
	t.Helper()
	p := parse(t, text)
	var want []any
	for n := 0; n <= s.workers; n++ {
		f, err := NewWithWorkers(p, max(n, 1))
		if err != nil {
			continue // links too short to be cut
		}
		stops := []units.Time{300 * units.Microsecond, 600 * units.Microsecond, 2 * units.Millisecond}
		stop := func() {}
		if n == 0 {
			stops = stops[2:]
		} else if n%2 == 0 && s.watch != nil {
			stop = s.watch(t, f)
		}
		for _, until := range stops {
			if err := f.Run(context.Background(), until); err != nil {
				t.Fatal(err)
			}
			live := 0
			for _, shard := range f.Shards {
				live += shard.Pool.LivePackets()
			}
			for _, n := range f.nics {
				live -= n.WaitingPackets() // they have not entered the fabric yet
			}
			if a := f.Accounts(); !a.Balanced() || n <= 1 && a.Held != uint64(live) {
				t.Fatalf("%d workers, %v: %d live, %+v\n%s", n, until, live, a, text)
			}
			s.outcome(f)
		}
		stop()
		if got := s.outcome(f); n == 0 {
			want, first = got, f
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d workers (-unwatched +got):\n%s\n%s", n, diff, text)
		}
	}
	return first
}

// TestQoSHop_DoesNotAllocate: packets through switches with all features make no garbage.
func TestQoSHop_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	f := New(parse(t, `
duration: 1h
topology:
  kinds:
    switch:
      buffer: {size: 2MB, alpha: 1}
      classes:
        guarded: {dscp: [3], priority: 3, pfc: {xoff: 20KB, xon: 15KB}, mark: {red: {kmin: 5KB, kmax: 50KB, pmax: 0.1}}}
        bulk: {dscp: [1], priority: 1, order: fair, weight: 1}
        cut: {dscp: [2], priority: 2, weight: 2, limit: 10KB, trim: {preset: ndp, dscp: 12}}
        credited: {dscp: [4], priority: 4, weight: 1, credits: {buffer: 10KB}}
        headers: {dscp: [12], priority: 7, limit: 20KB}
        default: {}
    host: {attach: none}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 3, rate: 10Gbps, delay: 1us}}
workload:
  - {poisson: {from: [h1, h2, h3], to: h4, rate: 4Gbps, size: 1000B, ect: true, dscp: 3}}
  - {poisson: {from: [h1, h2, h3], to: h5, rate: 1Gbps, size: 1000B, dscp: 1}}
  - {poisson: {from: [h1, h2, h3], to: h6, rate: 4Gbps, size: 1000B, dscp: 2}}
  - {poisson: {from: [h1, h2, h3], to: h5, rate: 4Gbps, size: 1000B, dscp: 4}}
`))
	at := 20 * units.Millisecond
	step := func() {
		at += units.Millisecond
		if err := f.Run(context.Background(), at); err != nil {
			t.Fatal(err)
		}
	}
	step()
	step()
	a := f.Accounts()
	if n := testing.AllocsPerRun(10, step); n > 50 {
		// The check for deadlocks every millisecond makes a few allocations.
		t.Errorf("%.1f allocations in a millisecond", n)
	}
	if b := f.Accounts(); b.Trimmed == a.Trimmed || b.Consumed == a.Consumed || b.Marked == a.Marked {
		t.Errorf("nothing was trimmed, paused or marked: %+v", b)
	}
}

// ringLab is three switches in a ring whose static routes send every flow two
// hops clockwise, so that each link waits for the next (%s is for a watchdog).
const ringLab = `
duration: 100ms
topology:
  kinds:
    switch:
      buffer: {size: 2MB}
      classes: {lossless: {dscp: [26], priority: 3, pfc: {xoff: 20KB, xon: 15KB%s}}}
    link: {rate: 1Gbps, delay: 1us}
    host: {attach: none}
  nodes:
    s1: {kind: switch, routes: [{to: h3, via: s2}]}
    s2: {kind: switch, routes: [{to: h1, via: s3}]}
    s3: {kind: switch, routes: [{to: h2, via: s1}]}
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["h2:eth0", "s2:h2"]}
    - {endpoints: ["h3:eth0", "s3:h3"]}
    - {endpoints: ["s1:s2", "s2:s1"]}
    - {endpoints: ["s2:s3", "s3:s2"]}
    - {endpoints: ["s3:s1", "s1:s3"]}
workload:
  - {poisson: {from: h1, to: h3, rate: 900Mbps, size: 1000B, dscp: 26, for: 20ms}}
  - {poisson: {from: h2, to: h1, rate: 900Mbps, size: 1000B, dscp: 26, for: 20ms}}
  - {poisson: {from: h3, to: h2, rate: 900Mbps, size: 1000B, dscp: 26, for: 20ms}}
`

// TestPFCDeadlock_IsNamedAndBrokenByAWatchdog: a cyclic dependency deadlocks and is named;
// nothing moves any more and nothing is lost. A watchdog breaks it, and its drops are counted.
func TestPFCDeadlock_IsNamedAndBrokenByAWatchdog(t *testing.T) {
	f := run(t, parse(t, fmt.Sprintf(ringLab, "")))
	const cycle = "s1:s2 -> s2:s3 -> s3:s1 -> s1:s2"
	d := f.Deadlocks()
	if len(d) != 1 || d[0].String() != cycle || d[0].Class != "lossless" || d[0].Priority != 3 || d[0].Ended != 0 {
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

	for _, action := range []string{"drop", "forward"} {
		p := parse(t, fmt.Sprintf(ringLab, ", watchdog: {detect: 5ms, restore: 5ms, action: "+action+"}"))
		p.Duration = units.Second
		f = run(t, p)
		d = f.Deadlocks()
		if len(d) == 0 || d[0].String() != cycle || d[0].Ended == 0 || d[0].Ended-d[0].Since > 10*units.Millisecond {
			t.Errorf("%s: %+v", action, d)
		}
		if a := f.Accounts(); a.Held != 0 || !a.Balanced() || action == "drop" && a.Drops["watchdog"] == 0 {
			t.Errorf("%s: %+v", action, a)
		}
	}
}

// TestPFCDeadlock_EndsARunWithoutADuration: without a duration a run ends when only a deadlock
// is left.
func TestPFCDeadlock_EndsARunWithoutADuration(t *testing.T) {
	p := parse(t, fmt.Sprintf(ringLab, ""))
	f := New(p)
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if len(f.Deadlocks()) != 1 || f.Now() > units.Second {
		t.Errorf("ended at %v with %+v", f.Now(), f.Deadlocks())
	}
}
