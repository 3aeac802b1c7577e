package pattern

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

// TestTriggers: each kind of trigger starts its flows at the right time.
func TestTriggers(t *testing.T) {
	h := hosts(4)
	n := run(t, must(List{Hosts: h, Offset: 5,
		Triggers: []Trigger{{Kind: Oneshot}, {Kind: Barrier, Count: 3}, {Kind: Multishot}},
		Flows: []Listed{
			0: {From: 0, To: 1, Size: 1000, At: 10, Sent: 1},
			1: {From: 0, To: 2, Size: 1000, Trigger: 1, Received: 2},
			2: {From: 0, To: 3, Size: 1000, Trigger: 1},
			3: {From: 1, To: 2, Size: 1000, At: 20, Received: 2},
			4: {From: 2, To: 1, Size: 1000, At: 30, Sent: 2},
			5: {From: 2, To: 3, Size: 1000, Trigger: 2, Sent: 3},
			6: {From: 2, To: 0, Size: 1000, Trigger: 2, Sent: 3},
			7: {From: 2, To: 1, Size: 1000, Trigger: 3},
			8: {From: 2, To: 3, Size: 1000, Trigger: 3},
			9: {From: 2, To: 3, Size: 1000, At: units.Millisecond, Sent: 2}, // once more than is needed
		}}), 1, 1e6)
	started, arrived, done := map[uint32]units.Time{}, map[uint32]units.Time{}, map[uint32]units.Time{}
	for _, f := range n.started {
		if _, twice := started[f.Tag]; twice {
			t.Errorf("flow %d starts twice", f.Tag)
		}
		started[f.Tag] = f.At
	}
	for _, f := range n.arrived {
		arrived[f.Tag] = f.At
	}
	for _, f := range n.done {
		done[f.Tag] = f.At
	}
	barrier := max(arrived[1], arrived[3], done[4])
	for tag, want := range map[uint32]units.Time{
		0: 15, 1: done[0], 2: done[0], 3: 25, 4: 35, 5: barrier, 6: barrier,
		7: min(done[5], done[6]), 8: max(done[5], done[6]),
	} {
		if got, ok := started[tag]; !ok || got != want {
			t.Errorf("flow %d starts at %v, want %v", tag, got, want)
		}
	}
}

// TestTriggers_ActAtOtherHosts: the end of a flow at its sender and its arrival start flows of other
// hosts at that instant, and these hosts are one set; others are not in it.
func TestTriggers_ActAtOtherHosts(t *testing.T) {
	h := hosts(7)
	p := must(List{Hosts: h,
		Triggers: []Trigger{{Kind: Oneshot}, {Kind: Barrier, Count: 2}, {Kind: Multishot}},
		Flows: []Listed{
			0: {From: 0, To: 1, Size: 1000, At: 10, Sent: 1},
			1: {From: 2, To: 1, Size: 1000, Trigger: 1, Received: 2},
			2: {From: 3, To: 0, Size: 1000, Trigger: 1, Sent: 2},
			3: {From: 1, To: 0, Size: 1000, Trigger: 2, Received: 3},
			4: {From: 0, To: 2, Size: 1000, Trigger: 2, Sent: 3},
			5: {From: 3, To: 2, Size: 1000, Trigger: 3},
			6: {From: 2, To: 3, Size: 1000, Trigger: 3},
			7: {From: 4, To: 5, Size: 1000, At: 20},
		}})
	if diff := cmp.Diff([][]int{{h[0], h[1], h[2], h[3]}}, Together(p)); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	n := run(t, p, 1, 1e6)
	started, arrived, done := map[uint32]units.Time{}, map[uint32]units.Time{}, map[uint32]units.Time{}
	for _, f := range n.started {
		started[f.Tag] = f.At
	}
	for _, f := range n.arrived {
		arrived[f.Tag] = f.At
	}
	for _, f := range n.done {
		done[f.Tag] = f.At
	}
	barrier := max(arrived[1], done[2])
	want := map[uint32]units.Time{0: 10, 1: done[0], 2: done[0], 3: barrier, 4: barrier, 5: min(arrived[3], done[4]), 6: max(arrived[3], done[4]), 7: 20}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

// TestTriggersThatDoNotWork are refused, with the line and the reason.
func TestTriggersThatDoNotWork(t *testing.T) {
	two := func(trigger Trigger, a, b Listed) List {
		a.Size, b.Size, a.Line, b.Line = 1, 1, 4, 5
		return List{Hosts: hosts(4), Flows: []Listed{a, b}, Triggers: []Trigger{trigger}}
	}
	for name, c := range map[string]struct {
		list List
		want string
	}{
		"no activation": {two(Trigger{}, Listed{From: 0, To: 1}, Listed{From: 0, To: 2, Trigger: 1}),
			"line 5: it never starts"},
		"short barrier": {two(Trigger{Barrier, 2}, Listed{From: 0, To: 1, Sent: 1}, Listed{From: 0, To: 2, Trigger: 1}),
			"line 5: it never starts: its trigger is not activated often enough"},
		"circle": {two(Trigger{}, Listed{From: 0, To: 1, Trigger: 1, Sent: 1}, Listed{From: 0, To: 2}),
			"line 4: it never starts"},
		"twice": {two(Trigger{}, Listed{From: 0, To: 1, Sent: 1}, Listed{From: 0, To: 2, Sent: 1}),
			"line 5: it activates a oneshot trigger that another flow activates too"},
	} {
		_, err := c.list.Make()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
