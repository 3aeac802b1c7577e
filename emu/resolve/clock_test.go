package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// clocksOf returns the clocks of a plan by node.
func clocksOf(t *testing.T, p *plan.Plan, err error) map[string]nodeclock.Settings {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]nodeclock.Settings{}
	for i := range p.Nodes {
		all[p.Nodes[i].Name] = p.Nodes[i].Clock
	}
	return all
}

const twoNodes = "topology: {nodes: {h1: {kind: host}, s1: {kind: switch}}, links: [{endpoints: [\"h1:eth0\", \"s1:1\"]}]}\n"

// TestClock_DefaultFollowsTheTime: clocks are exact in virtual time and real in wall-clock time, where the
// file says nothing; what it says holds in both.
func TestClock_DefaultFollowsTheTime(t *testing.T) {
	seed := uint64(5)
	virtual := func(text string) map[string]nodeclock.Settings {
		p, err := ParseSeed("lab.yaml", []byte(text), seed)
		return clocksOf(t, p, err)
	}
	wall := func(text string) map[string]nodeclock.Settings {
		p, err := ParseWallClock("lab.yaml", []byte(text), &seed)
		return clocksOf(t, p, err)
	}
	drawn := func(node string) nodeclock.Settings {
		return nodeclock.Settings{Error: nodeclock.DrawError(seed, node, nodeclock.Real.Error), Jitter: nodeclock.Real.Jitter}
	}
	exact, real := map[string]nodeclock.Settings{"h1": {}, "s1": {}}, map[string]nodeclock.Settings{"h1": drawn("h1"), "s1": drawn("s1")}
	for _, c := range []struct {
		text          string
		virtual, wall map[string]nodeclock.Settings
	}{
		{twoNodes, exact, real},
		{"clock: exact\n" + twoNodes, exact, exact},
		{"clock: real\n" + twoNodes, real, real},
	} {
		if diff := cmp.Diff(c.virtual, virtual(c.text)); diff != "" {
			t.Errorf("%sin virtual time (-want +got):\n%s", c.text, diff)
		}
		if diff := cmp.Diff(c.wall, wall(c.text)); diff != "" {
			t.Errorf("%sin wall-clock time (-want +got):\n%s", c.text, diff)
		}
	}
}

// TestClock_NodeOverridesKindAndLab: a node takes ppm and jitter from its kind, and that from the lab,
// where it does not set them. A preset sets both.
func TestClock_NodeOverridesKindAndLab(t *testing.T) {
	p, err := Parse("lab.yaml", []byte(`
clock: {ppm: 20, jitter: 3us}
topology:
  kinds: {host: {clock: {jitter: 5us}}, switch: {clock: exact}}
  nodes:
    h1: {kind: host}
    h2: {kind: host, clock: {ppm: -12.5}}
    h3: {kind: host, clock: real}
    h4: {kind: host, clock: exact}
    h5: {kind: host, clock: {jitter: packet}}
    s1: {kind: switch}
    s2: {kind: switch, clock: {ppm: +1000}}
`))
	want := map[string]nodeclock.Settings{
		"h1": {Error: 20_000, Jitter: nodeclock.Jitter{Time: 5 * units.Microsecond}},
		"h2": {Error: -12_500, Jitter: nodeclock.Jitter{Time: 5 * units.Microsecond}},
		"h3": {Error: nodeclock.DrawError(1, "h3", nodeclock.Real.Error), Jitter: nodeclock.Real.Jitter},
		"h4": {},
		"h5": {Error: 20_000, Jitter: nodeclock.Jitter{Packet: true}},
		"s1": {},
		"s2": {Error: nodeclock.MaxError},
	}
	if diff := cmp.Diff(want, clocksOf(t, p, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClock_HeadroomCoversIt: the headroom of a port covers what jitter and fast clocks add: at 10 Gb/s, 1 us of
// each clock is 1.25 KB each.
func TestClock_HeadroomCoversIt(t *testing.T) {
	headroom := func(clock string) units.Bytes {
		p, err := Parse("lab.yaml", []byte("clock: "+clock+`
topology:
  kinds: {switch: {buffer: {size: 1MB}, classes: {a: {dscp: [3], priority: 3, pfc: {xoff: 100KB}}, default: {}}}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {h1: {kind: host}, s1: {kind: switch}}
  links: [{endpoints: ["h1:eth0", "s1:1"]}]
`))
		if err != nil {
			t.Fatal(err)
		}
		return p.Nodes[1].Ports[0].Headroom[3]
	}
	exact := headroom("exact")
	if got := headroom("{jitter: 1us}"); got != exact+2500 {
		t.Errorf("the headroom is %d B, with jitters of 1 us %d B", exact, got)
	}
	if got := headroom("{ppm: 1000}"); got <= exact {
		t.Errorf("the headroom is %d B, with fast clocks %d B", exact, got)
	}
}
