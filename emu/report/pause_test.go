package report

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestWritePause_SaysHowManyFoundNoRoom: and what the link needs, or that it needs no more.
func TestWritePause_SaysHowManyFoundNoRoom(t *testing.T) {
	check := status.PauseCheck{Port: "s1:1", Rows: []status.PauseClass{
		{Name: "roce", Priority: 3, Lossless: true, RxPackets: 9, Pauses: 2, PauseFrames: 5, PausingTime: units.Millisecond, Headroom: 2000, HeadroomMax: 1080, Refused: 3098, Needed: 10948, Follows: "how it follows"},
		{Name: "copies", Priority: 4, Lossless: true, Headroom: 20000, Refused: 1, Needed: 10948},
		{Name: "default"},
	}}
	var b strings.Builder
	WritePause(&b, &check)
	for _, want := range []string{
		"3098 packets of roce found no room in its headroom of 2KB: the link needs 10.9KB, which is how it follows.",
		"1 packets of copies found no room in its headroom of 20KB, though the link needs no more than 10.9KB",
		"It paused: roce for 1ms.",
		"pauses  frames  for", "found no room\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestWritePauses_CountsPausesAndFrames: and lists ports that ignored pauses.
func TestWritePauses_CountsPausesAndFrames(t *testing.T) {
	var b strings.Builder
	WritePauses(&b, []status.Port{
		{Name: "h1:eth0", Peer: "s1:1", Classes: []status.Class{{Name: "roce", Priority: 3, PausedCount: 39, PauseFramesRx: 1794, PausedTime: 5 * units.Millisecond}}},
		{Name: "h2:eth0", Peer: "s1:2", PauseIgnored: 12, Classes: []status.Class{{Name: "a", PauseIgnored: 12}, {Name: "b"}}},
		{Name: "h3:eth0", Peer: "s1:3", PauseIgnored: 13},
	}, 10*units.Millisecond)
	for _, want := range []string{
		"paused   class  for  of the run  pauses  frames  by    because of\nh1:eth0  roce   5ms  50%         39      1794    s1:1  \n",
		"h3:eth0         13      s1:3  none of its own\nh2:eth0         12      s1:2  a\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestHeadrooms_ShowWhatEachPortHasAndNeeds for static and dynamic thresholds, PFC and PAUSE.
func TestHeadrooms_ShowWhatEachPortHasAndNeeds(t *testing.T) {
	of := func(sw string) SwitchMemory {
		t.Helper()
		p, err := resolve.Parse("lab.yaml", []byte("topology:\n  generate: {star: {hosts: 2, rate: 25Gbps, delay: 1us}}\n  kinds: {host: {attach: none}, switch: {"+sw+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		all := Headrooms(p)
		if len(all) != 1 || len(all[0].Ports) != 2 {
			t.Fatalf("%s: %+v", sw, all)
		}
		return all[0]
	}
	const follows = "25Gbps · (2us + 519.04ns) + 2 · 1.538KB"
	m := of("classes: {roce: {dscp: 26, priority: 3, pfc: {xoff: 100KB, headroom: 2KB}}}")
	want := PortHeadroom{Port: "s1:h1", Peer: "h1:eth0", Class: "roce", Priority: 3, Headroom: 2000, Needed: 10948, Follows: follows, Xoff: 100_000, Xon: 3000, Obeyed: true}
	if m.Ports[0] != want || m.Buffer != 0 || m.Headroom != 4000 {
		t.Errorf("%+v", m)
	}
	m = of("buffer: {size: 1MB, alpha: 1/8}, pause: {}, classes: {a: {dscp: 26, priority: 3, ingress: {reserve: 1KB}}}")
	shared := units.Bytes(1_000_000 - 2*10948 - 2*1000)
	want = PortHeadroom{Port: "s1:h1", Peer: "h1:eth0", Headroom: 10948, Needed: 10948, Follows: follows, Alpha: 0.125, Alone: shared / 9, Xon: 3000, Obeyed: true}
	if m.Ports[0] != want || m.Shared != shared || m.Reserve != 2000 {
		t.Errorf("%+v, want %+v and %v to share", m, want, shared)
	}
	var b strings.Builder
	WriteHeadrooms(&b, []SwitchMemory{m, of("classes: {roce: {dscp: 26, priority: 3, pfc: {xoff: 100KB, headroom: 2KB}}}")})
	for _, want := range []string{
		"s1: a buffer of 1MB = 21.9KB headroom + 2KB ingress reserves + 976KB to share\n",
		"s1:h1  h1:eth0  all    alpha 0.125: 108KB alone  3KB less  10.9KB    10.9KB = " + follows,
		"s1: a buffer without limit, of it 4KB headroom\n", "too small",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestWritePause_NamesClassesAsTheFileDoes: no sentence begins with the name of a class, which would
// get a capital letter.
func TestWritePause_NamesClassesAsTheFileDoes(t *testing.T) {
	c := status.PauseCheck{Port: "s1:1", Rows: []status.PauseClass{{Name: "roce", Lossless: true, RxPackets: 5}}}
	c.Rows[0].Xoff.Known, c.Rows[0].Xoff.Used, c.Rows[0].Xoff.Of = true, 30, 60
	var b strings.Builder
	WritePause(&b, &c)
	if got := b.String(); !strings.Contains(got, "\nClass roce reached 50% of the threshold.\n") || strings.Contains(got, "Roce") {
		t.Error(got)
	}
}
