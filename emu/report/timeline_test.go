package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

var happened = []status.Moment{
	{At: 1500 * units.Millisecond, Event: status.LinkDown, Where: "s1:3", Peer: "s2:1", By: status.ByEvent},
	{At: 1501 * units.Millisecond, Event: status.Rerouted},
	{At: 2 * units.Second, Event: status.LinkSet, Where: "s1:1", Peer: "h1:eth0", OneWay: true, By: status.BySet, Text: "loss=1% rate=1Gbps"},
	{At: 3*units.Second + 1, Event: status.Watchdog, Where: "s1:1", Text: "class roce"},
	{At: 4 * units.Second, Event: status.HostLost, Where: "v1", Text: "it powered off"},
}

func TestTimeline(t *testing.T) {
	r := &Report{
		Timeline: happened,
		Outages: []workload.Outage{
			{Flow: "a", From: "h1", To: "h2", Start: 1499 * units.Millisecond, Length: 2 * units.Millisecond, Over: true, Lost: 2},
			{Of: "b", From: "h3", To: "h4", Start: 1500 * units.Millisecond, Length: 1200 * units.Microsecond, Over: true},
			{Flow: "c", From: "h5", To: "h6", Start: 1500 * units.Millisecond, Length: units.Millisecond, Lost: 30},
		},
	}
	var b strings.Builder
	r.writeTimeline(&b)
	r.writeOutages(&b)
	want := `at event where
1.5s link-down s1:3 - s2:1
1.501s rerouted
2s link-set s1:1 -> h1:eth0 loss=1% rate=1Gbps (weft set)
3s watchdog s1:1 class roce
4s host-lost v1 it powered off
stood still from to since for lost
c h5 h6 1.5s to the end 30
a h1 h2 1.499s 2ms 2
b h3 h4 1.5s 1.2ms -
`
	if diff := cmp.Diff(want, strings.ReplaceAll(squeeze(b.String()), " \n", "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 100 {
		r.Timeline = append(r.Timeline, happened[1])
	}
	b.Reset()
	if r.writeTimeline(&b); strings.Count(b.String(), "\n") != maxMoments+2 || !strings.Contains(b.String(), "and 75 more") {
		t.Errorf("%s", b.String())
	}
}

// TestEvents: events written beside a series are read back unchanged.
func TestEvents(t *testing.T) {
	series := filepath.Join(t.TempDir(), "q.csv")
	if all, err := ReadEvents(series); all != nil || err != nil {
		t.Errorf("of a series without events: %v, %v", all, err)
	}
	for _, events := range [][]status.Moment{happened, nil} {
		if err := WriteEvents(series, events); err != nil {
			t.Fatal(err)
		}
		all, err := ReadEvents(series)
		if diff := cmp.Diff(events, all); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for _, text := range []string{"", "a,b\n", strings.Join(eventColumns, ",") + "\nsoon,link-down,,,,,\n", strings.Join(eventColumns, ",") + "\n1\n"} {
		if err := os.WriteFile(EventsFile(series), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEvents(series); err == nil {
			t.Errorf("%q was read without an error", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := units.Time(rapid.Int64Range(0, 1<<62).Draw(t, "at"))
		if got, err := units.ParseTime(exactSeconds(at) + "s"); err != nil || got != at {
			t.Fatalf("%s of %d is read as %d, %v", exactSeconds(at), at, got, err)
		}
	})
}
