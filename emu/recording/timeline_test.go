package recording

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// twoWays is two leaves and two spines; ECMP uses only one path for one flow.
const twoWays = `
name: ways
seed: 3
duration: 100ms
topology:
  %s
  kinds: {host: {attach: none%s}}
  nodes: {h1: {kind: host}, h2: {kind: host}, l1: {kind: switch}, l2: {kind: switch}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "l1:1"], rate: 1Gbps, delay: 1us}
    - {endpoints: ["h2:eth0", "l2:1"], rate: 1Gbps, delay: 1us}
    - {endpoints: ["l1:2", "l2:2"], rate: 1Gbps, delay: 2us}
    - {endpoints: ["l1:3", "s1:1"], rate: 1Gbps, delay: 2us}
    - {endpoints: ["s1:2", "l2:3"], rate: 1Gbps, delay: 2us}
events:
  - {at: 20ms, link: "l1:2", set: {state: down}}
  - {at: 50ms, link: "l1:2", set: {state: up, rate: 500Mbps}}
  - {at: 60ms, from: "l1:2", set: {loss: 10%%}}
workload:
%s
`

func timelineOf(t *testing.T, text string, workers int) (*fabric.Fabric, []status.Moment, []workload.Outage) {
	p := fabrictest.Parse(t, text)
	f, err := fabric.NewWithWorkers(p, workers)
	if err != nil {
		t.Fatal(err)
	}
	f.Failed = func(err error) { t.Errorf("event: %v", err) }
	if err := f.Run(context.Background(), p.Duration); err != nil {
		t.Fatal(err)
	}
	return f, Timeline(f), f.Outages()
}

func at(name, where, peer, text string, t units.Time) status.Moment {
	return status.Moment{At: t, Event: name, Where: where, Peer: peer, By: status.ByEvent, Text: text}
}

// TestTimeline_HasLinkChangesAndOutages: the changes of links and how long flows stood still,
// exactly; and the same with several workers.
func TestTimeline_HasLinkChangesAndOutages(t *testing.T) {
	const ms = units.Millisecond
	flows := "  - {cbr: {name: a, from: h1, to: h2, rate: 8Mbps, size: 1000B, for: 90ms}}\n" + // one each ms
		"  - {on-off: {name: silent, from: h2, to: h1, rate: 8Mbps, size: 1000B, on: 1ms, off: 8ms, for: 15ms}}\n"
	loss := at(status.LinkSet, "l1:2", "l2:2", "loss=10%", 60*ms)
	loss.OneWay = true
	events := []status.Moment{
		at(status.LinkDown, "l1:2", "l2:2", "", 20*ms), at(status.LinkUp, "l1:2", "l2:2", "", 50*ms), at(status.LinkSet, "l1:2", "l2:2", "rate=500Mbps", 50*ms), loss,
	}
	rerouted := func(t units.Time) status.Moment { return status.Moment{At: t, Event: status.Rerouted} }
	for _, c := range []struct {
		name, reroute string
		events        []status.Moment
		lost          uint64
	}{
		{"tables that stay", "", events, 30},
		{"tables that follow", "reroute: {after: 5ms}", []status.Moment{events[0], rerouted(25 * ms), events[1], events[2], rerouted(55 * ms), loss}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(twoWays, c.reroute, "", flows)
			f, events, outages := timelineOf(t, text, 1)
			if diff := cmp.Diff(c.events, events); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(outages) != 1 {
				t.Fatalf("%+v", outages)
			}
			o := outages[0]
			// Packets leave at whole milliseconds and take the same time; the one at
			// 20 ms is the first that is lost.
			if o.Flow != "a" || o.Window != 1 || !o.Over || o.Lost < c.lost || o.Lost > c.lost+1 || (o.Length-units.Time(o.Lost+1)*ms).Micros() > 50 || o.Start < 18*ms || o.Start > 21*ms {
				t.Errorf("%+v", o)
			}
			r := f.Results()
			if r[0].Outages != 1 || r[0].OutageLongest != o.Length.Micros() || r[1].Outages != 0 {
				t.Errorf("records: %+v", r)
			}
			_, e, u := timelineOf(t, text, 2)
			if diff := cmp.Diff(events, e) + cmp.Diff(outages, u); diff != "" {
				t.Errorf("two workers:\n%s", diff)
			}
		})
	}
}

// TestOutages_OfTransfersLeaveOutIdleTime: a transfer whose payload stood still reports for
// how long, and one that waited for its next message does not.
func TestOutages_OfTransfersLeaveOutIdleTime(t *testing.T) {
	text := fmt.Sprintf(twoWays, "reroute: {after: 5ms}", ", nic: roce", `
  - {write: {name: busy, from: h1, to: h2, size: 4MB}}
  - {write: {name: idle, from: h2, to: h1, size: 1KB, every: 60ms, count: 2}}
`)
	_, _, outages := timelineOf(t, text, 1)
	if len(outages) != 1 || outages[0].Of != "busy" || !outages[0].Over || outages[0].Window != 1 ||
		outages[0].Start > 20100*units.Microsecond || outages[0].Length < 5*units.Millisecond {
		t.Errorf("%+v", outages)
	}
	if _, _, u := timelineOf(t, text, 2); !cmp.Equal(outages, u) {
		t.Errorf("two workers: %+v", u)
	}
}

// TestOutage_ToTheEndIsNotOver: an outage that lasts to the end of the run is not over.
func TestOutage_ToTheEndIsNotOver(t *testing.T) {
	_, _, outages := timelineOf(t, `
duration: 50ms
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, delay: 1us, rate: 1Gbps}}}
events:
  - {at: 10ms, link: "s1:h2", set: {state: down}}
workload:
  - {cbr: {name: cut, from: h1, to: h2, rate: 8Mbps, size: 1000B, for: 40ms}}
  - {cbr: {name: late, from: h3, to: h2, rate: 8Mbps, size: 1000B, at: 20ms, for: 10ms}}
  - {cbr: {name: fine, from: h1, to: h3, rate: 8Mbps, size: 1000B, for: 50ms}}
`, 1)
	if len(outages) != 2 || outages[0].Flow != "cut" || outages[0].Over || outages[0].Lost != 30 || outages[1].Flow != "late" || outages[1].Lost != 10 || outages[1].Start != 20*units.Millisecond {
		t.Errorf("%+v", outages)
	}
}

// TestTimeline_MarksChangesFromOutside: changes from outside are marked as such, and a change
// that leaves a link's state as it was is no event of it.
func TestTimeline_MarksChangesFromOutside(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 2}}}"))
	down, up := links.Down, links.Up
	rate := units.Gbps
	for _, s := range []change.LinkPatch{{State: &up}, {State: &down, Rate: &rate}, {State: &down}, {State: &up}} {
		if err := f.Set(0, [2]bool{true, true}, s); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, m := range Timeline(f) {
		if m.By != status.BySet || m.OneWay {
			t.Errorf("%+v", m)
		}
		got = append(got, m.Event+" "+m.Text)
	}
	if diff := cmp.Diff([]string{"link-down ", "link-set rate=1Gbps", "link-up "}, got); diff != "" {
		t.Error(diff)
	}
}
