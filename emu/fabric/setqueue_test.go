package fabric

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// pausedLab has a link of 10 Gb/s that leads to one of 1 Gb/s, %s events, for 20 ms.
const pausedLab = `
name: changes
duration: 20ms
topology:
  kinds:
    host: {attach: none, queue: {limit: 50MB}}
    switch:
      buffer: {size: 4MB}
      classes:
        lossless: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB, xon: 80KB}}
        other: {dscp: 10, priority: 1, weight: 1, mark: {step: {k: 30KB}}}
        default: {weight: 1}
    link: {rate: 10Gbps, delay: 1us}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 1Gbps}
workload:
  - {cbr: {name: a, from: h1, to: h2, rate: 4Gbps, size: 1000B, dscp: 26}}
  - {cbr: {name: b, from: h1, to: h2, rate: 4Gbps, size: 1000B, dscp: 10, ect: true}}
EVENTS`

func changedLab(t *testing.T, events string) *Fabric {
	return run(t, parse(t, strings.ReplaceAll(pausedLab, "EVENTS", events)))
}

// TestQueueEvent_ChangesThresholds: from the time of an event on, pauses, limits, marks and shares
// are those of the event, and the timeline has it.
func TestQueueEvent_ChangesThresholds(t *testing.T) {
	row := func(f *Fabric, port, class string) status.Class { return classNamed(t, portNamed(t, f, port), class) }
	plainly := changedLab(t, "")
	if c := row(plainly, "s1:1", "lossless"); c.IngressMax > 110*units.KB || c.Xoff != 100*units.KB {
		t.Fatalf("without events %v came in, xoff %v", c.IngressMax, c.Xoff)
	}

	f := changedLab(t, `events: [{at: 10ms, port: "s1:1", class: lossless, queue: {xoff: 300KB, xon: 250KB}}]`)
	if c := row(f, "s1:1", "lossless"); c.IngressMax < 295*units.KB || c.IngressMax > 310*units.KB || c.Xoff != 300*units.KB || c.NoHeadroom != 0 {
		t.Errorf("with xoff 300KB %v came in, xoff %v, %d found no room", c.IngressMax, c.Xoff, c.NoHeadroom)
	}
	node, index, _ := f.Plan.Endpoint("s1:1")
	want := LogEntry{At: 10 * units.Millisecond, Event: status.QueueSet, By: status.ByEvent, Link: -1, Node: node, Port: index, Text: "class lossless: xoff=300KB xon=250KB"}
	if m := f.Log(); len(m) != 1 || m[0] != want {
		t.Errorf("the log is %+v", m)
	}

	f = changedLab(t, `events: [{at: 10ms, port: "s1:1", class: lossless, queue: {pause-alpha: 1/8, offset: 10KB}}]`)
	if c := row(f, "s1:1", "lossless"); c.IngressMax < 150*units.KB || c.Xoff == 100*units.KB {
		t.Errorf("with alpha 1/8 %v came in, xoff %v", c.IngressMax, c.Xoff)
	}

	f = changedLab(t, `events: [{at: 1ms, port: "s1:2", class: other, queue: {limit: 50KB}}]`)
	if c := row(f, "s1:2", "other"); c.QueueBytes > 50*units.KB || c.QueueLimit != 50*units.KB || c.QueueMax < 60*units.KB {
		t.Errorf("with a limit of 50KB %v wait, limit %v", c.QueueBytes, c.QueueLimit)
	}

	f = changedLab(t, `events: [{at: 0s, port: "s1:2", class: other, queue: {k: 3MB}}]`)
	if c, was := row(f, "s1:2", "other"), row(plainly, "s1:2", "other"); c.Marked*10 > was.Marked {
		t.Errorf("with k 3MB %d are marked, %d before", c.Marked, was.Marked)
	}

	f = changedLab(t, `events: [{at: 10ms, port: "s1:2", class: lossless, queue: {weight: 9}}]`)
	a, b := row(f, "s1:2", "lossless").TxPackets, row(f, "s1:2", "other").TxPackets
	if share := float64(a) / float64(a+b); share < 0.68 || share > 0.72 { // half of 10 ms at 50%, half at 90%
		t.Errorf("with a weight of 9 from half of the run on, lossless has %.3f of the packets", share)
	}
	if a := f.Accounts(); !a.Balanced() {
		t.Errorf("%+v", a)
	}
}

// TestQueueEvent_GivesEqualRunsWithAnyWorkers: events of queues belong to the engine of their node.
func TestQueueEvent_GivesEqualRunsWithAnyWorkers(t *testing.T) {
	const events = `events:
  - {at: 5ms, port: "s1:1", class: lossless, queue: {xoff: 200KB}}
  - {at: 5ms, port: "s1:2", class: other, queue: {limit: 80KB, k: 10KB}}
  - {at: 9ms, port: "h1:eth0", class: other, queue: {limit: 1MB, weight: 3}}`
	first := changedLab(t, events)
	p := parse(t, strings.ReplaceAll(pausedLab, "EVENTS", events))
	p.Engine.Workers = 2
	again := run(t, p)
	if first.Trace() != again.Trace() || first.Trace() == changedLab(t, "").Trace() {
		t.Errorf("traces %x, %x, without events %x", first.Trace(), again.Trace(), changedLab(t, "").Trace())
	}
}

// TestSetQueue_ChangesNothingAfterAnError: an error names the setting and the queue.
func TestSetQueue_ChangesNothingAfterAnError(t *testing.T) {
	f := changedLab(t, "")
	node, index, err := f.Plan.Endpoint("s1:2")
	if err != nil {
		t.Fatal(err)
	}
	before := f.PortStatus(node, index)
	at := plan.End{Node: node, Port: index}
	class, err := f.Plan.ClassIndex(node, index, "other")
	if err != nil {
		t.Fatal(err)
	}
	for patch, want := range map[string]string{
		"limit=100KB xoff=100KB": "xoff needs a class with pfc, or a switch with pause, which class other of s1:2 is not",
		"limit=20KB k=25KB":      "k: 25KB is out of range",
		"weight=2 kmin=1KB":      "class other of s1:2 has no mark with kmin",
	} {
		p, err := change.ParseQueueAssignments(strings.Fields(patch))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.SetQueue(at, class, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
	after := f.PortStatus(node, index)
	if c, d := classNamed(t, before, "other"), classNamed(t, after, "other"); c.QueueLimit != d.QueueLimit || len(f.Log()) != 0 {
		t.Errorf("the limit was %v and is %v; %+v", c.QueueLimit, d.QueueLimit, f.Log())
	}
}

// TestPause_OfAClassWithoutPFCIsIgnored: a switch whose neighbour has no pfc for the class pauses
// it in vain: the class goes on, the frames are counted, and hosts with pfc: none do the same.
func TestPause_OfAClassWithoutPFCIsIgnored(t *testing.T) {
	lab := strings.ReplaceAll(pausedLab, "EVENTS", "")
	f := run(t, parse(t, lab))
	if c := classNamed(t, portNamed(t, f, "h1:eth0"), "lossless"); c.PausedCount == 0 || c.PauseIgnored != 0 || c.PausedCount > c.PauseFramesRx {
		t.Errorf("with pfc at both ends: %+v", c)
	}
	ignoring := strings.ReplaceAll(lab, "h1: {kind: host}", "h1: {kind: host, classes: {lossless: {dscp: 26, priority: 3, weight: 1, pfc: none}, other: {dscp: 10, priority: 1, weight: 1}, default: {weight: 1}}}")
	p := parse(t, ignoring)
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "s1:1 asks h1:eth0 for pauses of class lossless") {
		t.Errorf("warnings: %q", p.Warnings)
	}
	f = run(t, p)
	port := portNamed(t, f, "h1:eth0")
	c := classNamed(t, port, "lossless")
	if c.PausedCount != 0 || c.PausedTime != 0 || c.PauseFramesRx != 0 || c.PauseIgnored == 0 || port.PauseIgnored != c.PauseIgnored {
		t.Errorf("with pfc: none at the host: %+v", c)
	}
	in := classNamed(t, portNamed(t, f, "s1:1"), "lossless")
	if in.NoHeadroom == 0 || in.PauseFramesTx != c.PauseIgnored {
		t.Errorf("the switch asked %d times and dropped %d", in.PauseFramesTx, in.NoHeadroom)
	}
	node, index, _ := f.Plan.Endpoint("s1:1")
	if check, err := f.CheckPause(node, index); err != nil || check.Rows[2].Refused != in.NoHeadroom || check.Rows[2].Needed == 0 || check.Rows[2].Pauses > check.Rows[2].PauseFrames {
		t.Errorf("%+v, %v", check.Rows, err)
	}
}

// TestPause_StopsNICsAndEdgeServicesWithPFCOnly: what an emulated NIC and an edge service send is
// paused like packets of the host's own, and not where the host's class has pfc: none.
func TestPause_StopsNICsAndEdgeServicesWithPFCOnly(t *testing.T) {
	const lab = `
duration: 5ms
topology:
  kinds:
    host: {attach: none}
    switch:
      classes:
        lossless: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 50KB}}
        default: {weight: 1}
    link: {rate: 10Gbps, delay: 1us}
  nodes: {h1: {kind: host, HOST}, h2: {kind: host, nic: {dscp: 26}}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 1Gbps}
workload: [TRAFFIC]`
	const ignoring = "classes: {lossless: {dscp: 26, priority: 3, weight: 1, pfc: none}, default: {weight: 1}}"
	for _, c := range []struct{ name, host, traffic string }{
		{"a NIC", "nic: {dscp: 26, cc: none}", `{write: {from: h1, to: h2, size: 2MB}}`},
		{"an edge service", "edge: {limit: {rate: 8Gbps}}", `{cbr: {from: h1, to: h2, rate: 9Gbps, size: 1000B, dscp: 26}}`},
	} {
		for _, classes := range []string{"", ignoring} {
			text := strings.NewReplacer("HOST", strings.TrimSuffix(c.host+", "+classes, ", "), "TRAFFIC", c.traffic).Replace(lab)
			f := run(t, parse(t, text))
			k := classNamed(t, portNamed(t, f, "h1:eth0"), "lossless")
			in := classNamed(t, portNamed(t, f, "s1:1"), "lossless")
			obeys := classes == ""
			if (k.PausedCount > 0) != obeys || (k.PauseIgnored > 0) == obeys || (in.NoHeadroom > 0) == obeys || in.PauseFramesTx == 0 {
				t.Errorf("%s, obeys %v: paused %d times, ignored %d, %d found no room", c.name, obeys, k.PausedCount, k.PauseIgnored, in.NoHeadroom)
			}
		}
	}
}
