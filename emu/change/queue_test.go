package change

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

const everyQueueSetting = "limit=200KB alpha=0.125 weight=3 kmin=10KB kmax=40KB pmax=20% k=30KB xoff=100KB pause-alpha=none xon=90KB offset=5KB"

// TestQueueAssignments_SetEverything: what is read prints as it was written, from arguments and
// from JSON.
func TestQueueAssignments_SetEverything(t *testing.T) {
	p, err := ParseQueueAssignments(strings.Fields(everyQueueSetting))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.String(); got != everyQueueSetting {
		t.Errorf("prints as %s", got)
	}
	q, err := ReadQueuePatch(strings.NewReader(`{"limit": "200KB", "alpha": 0.125, "weight": 3, "pause-alpha": "none"}`))
	if got := q.String(); err != nil || got != "limit=200KB alpha=0.125 weight=3 pause-alpha=none" {
		t.Errorf("%s, %v", got, err)
	}
	for _, c := range []struct{ args, want string }{
		{"limit", `"limit" sets nothing: write setting=value`},
		{"limit=1KB limit=2KB", "limit is set twice"},
		{"limit=1KB loss=1%", "loss is a setting of links: change links and queues one after the other"},
		{"xof=1KB", `there is no setting "xof": did you mean "xoff"?`},
		{"weight=0", `weight: "0" must be a number from 1 to 1000`},
		{"alpha=0", "alpha: 0 must be above 0"},
	} {
		if _, err := ParseQueueAssignments(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	if _, err := ParseAssignments([]string{"loss=1%", "limit=1KB"}); err == nil || !strings.Contains(err.Error(), "limit is a setting of queues") {
		t.Errorf("a link with a limit: %v", err)
	}
	if !SetsQueue([]string{"xoff=1KB"}) || SetsQueue([]string{"loss=1%"}) || SetsQueue(nil) {
		t.Error("links and queues are confused")
	}
}

// TestQueuePatch_ChangesWhatAQueueHas: each setting applies to the queues that have it, and errors
// name the setting and the queue.
func TestQueuePatch_ChangesWhatAQueueHas(t *testing.T) {
	plain := Queue{Name: "s1:1", Frame: 1514, Limit: 100_000}
	lossless := Queue{
		Name: "class roce of s1:1", Frame: 1514, Class: true, Buffer: units.MB, Pauses: true, Xoff: 100_000, Offset: 20_000,
		Mark: &congestion.RED{KMin: 10_000, KMax: 40_000, PMax: 0.2}, Adjusts: true,
	}
	for _, c := range []struct {
		from  Queue
		patch string
		want  func(q *Queue) // nil if Apply fails
		err   string
	}{
		{plain, "limit=50KB", func(q *Queue) { q.Limit = 50_000 }, ""},
		{plain, "limit=1513B", nil, "limit 1.513KB is less than one packet"},
		{plain, "weight=2", nil, "weight needs a class, which s1:1 is not"},
		{plain, "xoff=2KB", nil, "xoff needs a class with pfc"},
		{plain, "kmin=2KB", nil, "s1:1 has no mark with kmin"},
		{lossless, "weight=2 alpha=1/8", func(q *Queue) { q.Weight, q.Alpha = 2, 0.125 }, ""},
		{lossless, "xoff=50KB", func(q *Queue) { q.Xoff = 50_000 }, ""},
		{lossless, "xoff=10KB", func(q *Queue) { q.Xoff, q.Offset = 10_000, 10_000 }, ""},
		{lossless, "xoff=50KB xon=20KB", func(q *Queue) { q.Xoff, q.Offset = 50_000, 30_000 }, ""},
		{lossless, "offset=3KB", func(q *Queue) { q.Offset = 3000 }, ""},
		{lossless, "pause-alpha=1/4", func(q *Queue) { q.Xoff, q.PauseAlpha = 0, 0.25 }, ""},
		{lossless, "pause-alpha=1/4 xon=5KB", nil, "xon needs xoff"},
		{lossless, "pause-alpha=none", nil, "set xoff instead"},
		{lossless, "pause-alpha=1 xoff=5KB", nil, "set one of them"},
		{lossless, "xoff=2MB", nil, "never reached: the buffer holds 1MB"},
		{lossless, "xoff=0B", nil, "pause forever"},
		{lossless, "xon=200KB", nil, "xon 200KB is above xoff 100KB"},
		{lossless, "offset=200KB", nil, "offset 200KB is above xoff 100KB"},
		{lossless, "xon=20KB offset=1KB", nil, "set one of them"},
		{lossless, "kmin=20KB pmax=50%", func(q *Queue) { q.Mark = &congestion.RED{KMin: 20_000, KMax: 40_000, PMax: 0.5} }, ""},
		{lossless, "kmin=50KB", nil, "at most kmax"},
		{lossless, "limit=10KB", nil, "kmin"},
		{lossless, "k=50KB", nil, "has no mark with k: kmin, kmax and pmax are of red"},
	} {
		p, err := ParseQueueAssignments(strings.Fields(c.patch))
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Apply(c.from)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s of %s: %v, want %q", c.patch, c.from.Name, err, c.err)
			}
			continue
		}
		want := c.from
		if c.want(&want); err != nil || !sameQueue(got, want) {
			t.Errorf("%s of %s: %+v, %v, want %+v", c.patch, c.from.Name, got, err, want)
		}
	}
	if red := lossless.Mark.(*congestion.RED); red.KMin != 10_000 || red.PMax != 0.2 {
		t.Errorf("the settings that were changed are %+v", *red)
	}
}

func sameQueue(a, b Queue) bool {
	x, y := a.Mark, b.Mark
	a.Mark, b.Mark = nil, nil
	if (x == nil) != (y == nil) || a != b {
		return false
	}
	return x == nil || *x.(*congestion.RED) == *y.(*congestion.RED)
}

// TestReadQueuePatch_ErrorsSpeakOfQueues: what is wrong with JSON for a queue is not explained with
// settings of links.
func TestReadQueuePatch_ErrorsSpeakOfQueues(t *testing.T) {
	for text, want := range map[string]string{
		"[]":              `a list cannot change a queue: write an object of settings, such as {"limit": "200KB"}`,
		"":                `empty input: write an object of settings, such as {"limit": "200KB"}`,
		`{"loss": "1%"}`:  "loss is a setting of links: change links and queues one after the other",
		`{"limit": [1]}`:  "limit must be a single value, not a list",
		`{"limti": "1B"}`: `there is no setting "limti": did you mean "limit"?`,
	} {
		if _, err := ReadQueuePatch(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
