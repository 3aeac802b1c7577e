package change

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

const everySetting = "rate=1Gbps delay=50us mtu=9000 loss=1% corrupt=0.1% duplicate=2% reorder=3% reorder-by=1ms " +
	"jitter=10us jitter-distribution=pareto jitter-reorder=true drop-match=ip-id=0x*fff state=down"

func TestAssignmentsSetEverything(t *testing.T) {
	p, err := ParseAssignments(strings.Fields(everySetting))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.String(); got != everySetting {
		t.Errorf("prints as %s", got)
	}
	got, err := p.Apply(DefaultLink)
	if err != nil {
		t.Fatal(err)
	}
	match, err := links.ParseMatch("ip-id=0x*fff")
	if err != nil {
		t.Fatal(err)
	}
	want := links.Settings{
		Rate: units.Gbps, Delay: 50 * units.Microsecond, MTU: 9000,
		Loss: 0.01, Corrupt: 0.001, Duplicate: 0.02, Reorder: 0.03, ReorderBy: units.Millisecond,
		Jitter: 10 * units.Microsecond, JitterDistribution: links.Pareto, JitterReorder: true,
		DropMatch: match,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b links.Match) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
}

func TestPatchSurvivesJSON(t *testing.T) {
	p, err := ParseAssignments(strings.Fields(everySetting))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back LinkPatch
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if back.String() != p.String() {
		t.Errorf("%s comes back as %v", b, back)
	}
	d = json.NewDecoder(strings.NewReader(`{"los": "1%"}`))
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err == nil {
		t.Error("an unknown field passes")
	}
	if b, err := json.Marshal(LinkPatch{}); err != nil || string(b) != "{}" {
		t.Errorf("the empty patch is %s, %v", b, err)
	}
}

func TestBadAssignments(t *testing.T) {
	for arg, want := range map[string]string{
		"los=1%":                    `there is no setting "los": did you mean "loss"?`,
		"bandwidth=1Gbps":           `there is no setting "bandwidth": a link has rate, delay`,
		"loss":                      `"loss" sets nothing: write setting=value, such as loss=1%`,
		"rate=10":                   `rate: "10" has no unit`,
		"mtu=big":                   `mtu: "big" does not begin with a number`,
		"state=sideways":            `state: "sideways" must be one of up, down`,
		"jitter-reorder=maybe":      `jitter-reorder: "maybe" is neither true nor false`,
		"loss=1":                    `loss: "1" may mean 1% or 100%: write one of them`,
		"corrupt=1":                 `corrupt: "1" may mean 1% or 100%`,
		"duplicate=1.0":             `duplicate: "1.0" may mean 1% or 100%`,
		"reorder=1":                 `reorder: "1" may mean 1% or 100%`,
		"loss=1% loss=2%":           `loss is set twice`,
		"jitter-distribution=gauss": `is not a distribution of jitter`,
	} {
		if _, err := ParseAssignments(strings.Fields(arg)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// TestSwitchingOff checks that 0 switches a setting off without its companions.
func TestSwitchingOff(t *testing.T) {
	s := DefaultLink
	for _, args := range []string{
		"jitter=1ms jitter-distribution=normal", "jitter=0", "reorder=1% reorder-by=1ms", "reorder=0", "state=down", "state=up", "rate=unlimited",
	} {
		p, err := ParseAssignments(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = p.Apply(s); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
	}
	if s.Jitter != 0 || s.Reorder != 0 || !s.Up || s.Rate != 0 {
		t.Errorf("left is %+v", s)
	}
}
