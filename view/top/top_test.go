package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

var update = flag.Bool("update", false, "write the views as they are to testdata")

// samples returns two samples of an incast, a second apart: two hosts send
// through s1:3 to a third, and s1 pauses them.
func samples() (before, now *report.Sample) {
	link := func(r units.Rate) *status.Link { return &status.Link{Rate: r, State: links.Up} }
	ports := func(t uint64) []status.Port {
		host := func(n int, rx, tx uint64) status.Port {
			return status.Port{Name: fmt.Sprintf("h%d:eth0", n), Peer: fmt.Sprintf("s1:%d", n), Node: fmt.Sprintf("h%d", n), Kind: "host", Link: link(units.Gbps), RxPackets: rx / 1000, RxBytes: rx, TxPackets: tx / 1000, TxBytes: tx, QueueLimit: units.MB}
		}
		sw := func(n int, rx, tx uint64) status.Port {
			p := host(n, rx, tx)
			p.Name, p.Peer, p.Node, p.Kind = p.Peer, p.Name, "s1", "switch"
			return p
		}
		list := []status.Port{
			host(1, t*1_000_000, t*62_500_000), host(2, t*1_000_000, t*62_500_000), host(3, t*122_000_000, t*2_000_000),
			sw(1, t*62_500_000, t*1_000_000), sw(2, t*62_500_000, t*1_000_000), sw(3, t*2_000_000, t*122_000_000), sw(4, 0, 0),
		}
		full := &list[5]
		full.QueueBytes, full.QueueMax, full.QueuePackets = 123_456, 900_000, 124
		full.Marked, full.Dropped, full.Trimmed = t*1500, t*37, t*4
		full.Drops = map[string]uint64{"queue-full": t * 30, "link-loss": t * 7}
		full.Classes = []status.Class{
			{Name: "default", TxPackets: t * 2000, TxBytes: t * 2_000_000, Dropped: t * 37, QueueLimit: 100_000},
			{Name: "lossless", Priority: 3, TxPackets: t * 120_000, TxBytes: t * 120_000_000, QueueBytes: 123_456, QueueMax: 900_000, QueueLimit: 900_000, Marked: t * 1500, Trimmed: t * 4, Lossless: true},
		}
		into := &list[3]
		into.Classes = []status.Class{
			{Name: "default"},
			{Name: "lossless", Priority: 3, TxBytes: t * 1_000_000, TxPackets: t * 1000, Lossless: true, Pausing: true, PausingTime: units.Time(t) * 420 * units.Millisecond, PausingCount: t * 70, PauseFramesTx: t * 210},
		}
		from := &list[0]
		from.Classes = []status.Class{
			{Name: "default"},
			{Name: "lossless", Priority: 3, TxBytes: t * 62_500_000, TxPackets: t * 62_500, Paused: true, PausedTime: units.Time(t) * 415 * units.Millisecond, PausedCount: t * 70, PauseFramesRx: t * 210},
		}
		list[6].Link.State = links.Down
		return list
	}
	nics := func(t uint64) []status.NIC {
		n := status.NIC{Name: "h1:eth0", Node: "h1"}
		for _, c := range nicemu.CounterInfos() {
			n.Counters = append(n.Counters, map[string]uint64{"rp_cnp_handled": t * 1200, "retransmitted_packets": t * 17}[c.Name])
		}
		return []status.NIC{n}
	}
	at := func(t uint64) *report.Sample {
		return &report.Sample{
			NICs: nics(t),
			Lab:  "incast", Clock: "wall", Emulated: units.Time(t) * units.Second, Ports: ports(t),
			Accounts:      status.Accounts{Marked: t * 1500, Dropped: t * 37},
			Timing:        report.Timing{Lateness: status.Lateness{Count: t * 10_000, P50: 12 * units.Microsecond, P99: 80 * units.Microsecond, Limit: units.Millisecond, Beyond: t * 5, Share: 0.0005}},
			CPUTime:       units.Time(t) * 520 * units.Millisecond,
			EngineCPUTime: units.Time(t) * 410 * units.Millisecond,
		}
	}
	return at(9), at(10)
}

// press sends keys to the view as the terminal would.
func press(m *model, keys ...string) (last tea.Cmd) {
	special := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
		"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "backspace": {Code: tea.KeyBackspace},
		"space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, k := range keys {
		key, ok := special[k]
		if !ok {
			key = tea.Key{Code: rune(k[0]), Text: k}
		}
		_, last = m.Update(tea.KeyPressMsg(key))
	}
	return last
}

// viewOf returns a view that has received these samples.
func viewOf(width, height int, list ...*report.Sample) *model {
	m := newModel(nil, time.Second)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, s := range list {
		m.Update(sampled{s, nil})
	}
	return m
}

// screen returns what a terminal shows, without styles and trailing blanks.
func screen(m *model) string {
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestView_IsAsInItsGoldenFile(t *testing.T) {
	before, now := samples()
	busy := *now
	busy.Trouble = "the machine does not keep up: 27.9% of 4680 deliveries in the last 1s were later than 1ms. The engine is full at 110k packets/s (1Gbps). It could carry about 88k packets/s (800Mbps at this packet size) on time: lower the rates, send larger packets, or give it more --workers."
	for _, c := range []struct {
		name          string
		width, height int
		samples       []*report.Sample
		keys          []string
	}{
		{"first", 80, 24, []*report.Sample{now}, nil},
		{"busiest", 80, 24, []*report.Sample{before, now}, nil},
		{"wide", 200, 16, []*report.Sample{before, now}, nil},
		{"classes", 80, 24, []*report.Sample{before, now}, []string{"c", "down", "down", "down", "down", "down", "enter"}},
		{"plan-order", 80, 24, []*report.Sample{before, now}, []string{"<", "<"}},
		{"reversed", 80, 24, []*report.Sample{before, now}, []string{"left", "left", "r"}},
		{"by-drops", 80, 24, []*report.Sample{before, now}, []string{">", ">", ">", ">"}},
		{"switches", 80, 24, []*report.Sample{before, now}, []string{"t"}},
		{"hosts", 80, 24, []*report.Sample{before, now}, []string{"t", "t"}},
		{"typing", 80, 24, []*report.Sample{before, now}, []string{"/", "S", "1", "q", "backspace"}},
		{"filtered", 80, 24, []*report.Sample{before, now}, []string{"/", "s", "1", "enter"}},
		{"unfiltered", 80, 24, []*report.Sample{before, now}, []string{"/", "s", "1", "enter", "esc"}},
		{"still", 80, 24, []*report.Sample{before, now}, []string{"space"}},
		{"trouble", 80, 24, []*report.Sample{before, &busy}, nil},
		{"low", 80, 8, []*report.Sample{before, now}, []string{"down", "down", "down", "pgdown"}},
		{"nothing", 80, 10, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := viewOf(c.width, c.height, c.samples...)
			press(m, c.keys...)
			golden(t, c.name, screen(m))
		})
	}
}

// For any terminal size and any keys, no line is wider than the
// terminal, there are not too many lines, and the selected line is visible.
func TestView_FitsAnyTerminal(t *testing.T) {
	before, now := samples()
	for i := range now.Ports {
		if now.Ports[i].Name == "s1:2" {
			now.Ports[i].Name, now.Ports[i].Node = "a-switch-with-a-very-long-name:1", "a-switch-with-a-very-long-name"
		}
	}
	keys := []string{"<", ">", "r", "/", "esc", "t", "c", "enter", "p", "up", "down", "pgup", "pgdown", "home", "end", "s", "1", "backspace"}
	rapid.Check(t, func(t *rapid.T) {
		size := func() tea.WindowSizeMsg {
			return tea.WindowSizeMsg{Width: rapid.IntRange(0, 250).Draw(t, "width"), Height: rapid.IntRange(0, 40).Draw(t, "height")}
		}
		m := newModel(nil, time.Second)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var last tea.WindowSizeMsg
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				last = size()
				m.Update(last)
			case 1:
				m.Update(sampled{before, nil})
			case 2:
				m.Update(sampled{now, nil})
			case 3:
				m.Update(sampled{nil, errors.New(strings.Repeat("bad ", 50))})
			default:
				press(m, rapid.SampledFrom(keys).Draw(t, "key"))
			}
			lines := m.screenLines()
			if len(lines) > max(m.height, 0) {
				t.Fatalf("%d lines on a screen of %d", len(lines), m.height)
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > m.width {
					t.Fatalf("%d cells on a screen of %d: %q", w, m.width, l)
				}
			}
			if len(m.list) > 0 && (m.at < m.top || m.at >= m.top+m.portLines() || m.at >= len(m.list)) {
				t.Fatalf("line %d of %d is chosen, %d from %d are shown", m.at, len(m.list), m.portLines(), m.top)
			}
		}
	})
}

// 80 by 24 cells show all that matters, even with long names;
// more cells show more.
func TestView_Shows80CellsOfEssentials(t *testing.T) {
	before, now := samples()
	long := strings.Repeat("x", 30) + ":leaf12"
	before.Ports[5].Name, now.Ports[5].Name = long, long
	m := viewOf(80, 24, before, now)
	text := screen(m)
	for _, want := range []string{"PORT", "IN Mb/s", "OUT Mb/s", "USE%", "QUEUE", "MAX", "DROP/s", "MARK/s", "TRIM/s", "PAUSED", "PAUSES", "~xxxx:leaf12", "976.0", "123K"} {
		if !strings.Contains(text, want) {
			t.Errorf("80 cells do not show %q:\n%s", want, text)
		}
	}
	shown := 0
	for _, width := range []int{20, 40, 80, 120, 160, 200, 400} {
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		if n := len(m.shownColumns()); n < shown {
			t.Errorf("%d cells show %d columns, fewer had %d", width, n, shown)
		} else {
			shown = n
		}
	}
	if shown != len(columns) {
		t.Errorf("400 cells show %d of %d columns", shown, len(columns))
	}
}

// Rates are over emulated time, shares over the link's rate.
func TestRates_AreOverEmulatedTime(t *testing.T) {
	before := &report.Sample{Emulated: units.Second, Ports: []status.Port{
		{Name: "a:1", Peer: "b:1", Link: &status.Link{Rate: 100 * units.Mbps}, RxBytes: 1000, TxBytes: 1000, TxPackets: 10, Dropped: 4, Drops: map[string]uint64{"queue-full": 3, "bad-fcs": 1}},
		{Name: "b:1", Peer: "a:1", Link: &status.Link{Rate: 50 * units.Mbps}},
	}}
	now := &report.Sample{Emulated: 1500 * units.Millisecond, Ports: []status.Port{
		{
			Name: "a:1", Peer: "b:1", Link: &status.Link{Rate: 100 * units.Mbps}, RxBytes: 626_000, RxPackets: 625, TxBytes: 1_251_000, TxPackets: 1260, Marked: 50, Trimmed: 5, Dropped: 14,
			Drops: map[string]uint64{"queue-full": 4, "bad-fcs": 10}, QueueBytes: 7, QueueMax: 9,
			Classes: []status.Class{{Name: "x", TxBytes: 100, PausedTime: 125 * units.Millisecond}, {Name: "y", PausedTime: 250 * units.Millisecond, PausingTime: units.Second, Pausing: true, PausedCount: 3, PausingCount: 4, PauseFramesTx: 5, PauseFramesRx: 1}},
		},
		{Name: "b:1", Peer: "a:1", Link: &status.Link{Rate: 50 * units.Mbps}},
		{Name: "c:1"},
	}}
	rows := rowsOf(before, now)
	a, x, y, c := rows[0], rows[1], rows[2], rows[4]
	for _, v := range []struct {
		what      string
		got, want float64
	}{
		{"in", a.in, 10e6}, {"out", a.out, 20e6}, {"packets in", a.inPackets, 1250}, {"packets out", a.outPackets, 2500},
		{"use in", a.inUse, (10e6 + 1250*24*8) / 50e6}, {"use out", a.outUse, (20e6 + 2500*24*8) / 100e6},
		{"drops", a.drops, 20}, {"marks", a.marks, 100}, {"trims", a.trims, 10}, {"dropped", a.dropped, 14}, {"queue", a.queue, 7}, {"most", a.maxQueue, 9},
		{"paused", a.paused, 0.5}, {"pausing", a.pausing, 1}, {"pauses in", a.pausesIn, 6}, {"pauses out", a.pausesOut, 8}, {"frames in", a.xoffIn, 2}, {"frames out", a.xoffOut, 10},
		{"class x out", x.out, 1600}, {"class x paused", x.paused, 0.25}, {"class y paused", y.paused, 0.5}, {"class in", x.in, none},
		{"use without a link", c.outUse, none}, {"paused without classes", c.paused, none}, {"a port that is new", c.in, 0},
	} {
		if math.Abs(v.got-v.want) > 1e-9 || math.IsNaN(v.got) != math.IsNaN(v.want) {
			t.Errorf("%s: %v, want %v", v.what, v.got, v.want)
		}
	}
	if a.reason != "bad-fcs" || !a.pausingNow || a.pausedNow || c.reason != "" {
		t.Errorf("%+v", a)
	}
	for _, r := range rowsOf(nil, now) {
		if !math.IsNaN(r.in) || !math.IsNaN(r.drops) || !math.IsNaN(r.outUse) {
			t.Errorf("one sample gives rates: %+v", r)
		}
	}
}

// Every column sorts, the largest or alphabetically first row first,
// rows without a value last, and classes stay with their ports.
func TestSort_OrdersByEveryColumn(t *testing.T) {
	before, now := samples()
	rows := rowsOf(before, now)
	all := func(*row) bool { return true }
	for i := range columns {
		for _, reverse := range []bool{false, true} {
			list := arrangeRows(rows, &columns[i], reverse, all)
			if len(list) != len(rows) {
				t.Fatalf("%s: %d of %d rows", columns[i].title, len(list), len(rows))
			}
			var last *row
			for _, k := range list {
				r := &rows[k]
				if r.class != "" {
					if r.port != last.port {
						t.Errorf("%s: class %s of %s stands under %s", columns[i].title, r.class, r.port.Name, last.port.Name)
					}
					continue
				}
				if last != nil && columns[i].compareRows(last, r, reverse) > 0 {
					t.Errorf("%s, reverse %v: %s before %s", columns[i].title, reverse, last.port.Name, r.port.Name)
				}
				last = r
			}
		}
	}
	for _, c := range []struct{ title, first, reversed, last string }{
		{"PORT", "h1:eth0", "s1:4", ""},
		{"OUT Mb/s", "s1:3", "s1:4", ""},
		{"PAUSED", "h1:eth0", "s1:1", "s1:4"},
		{"REASON", "s1:3", "s1:3", "s1:4"},
	} {
		by := slices.IndexFunc(columns, func(x column) bool { return x.title == c.title })
		for _, reverse := range []bool{false, true} {
			list := arrangeRows(rows, &columns[by], reverse, func(r *row) bool { return r.class == "" })
			first, last, want := rows[list[0]].port.Name, rows[list[len(list)-1]].port.Name, c.first
			if reverse {
				want = c.reversed
			}
			if first != want {
				t.Errorf("by %s, reverse %v: %s is first, want %s", c.title, reverse, first, want)
			}
			if c.last != "" && last != c.last {
				t.Errorf("by %s, reverse %v: %s is last, want %s, which has no value", c.title, reverse, last, c.last)
			}
		}
	}
}

// The lab has trouble, ends, and starts again.
func TestView_FollowsTheLifeOfALab(t *testing.T) {
	before, now := samples()
	m := viewOf(80, 24, before, now)
	says := func(want string, rates bool) {
		t.Helper()
		text := screen(m)
		if !strings.Contains(text, want) {
			t.Errorf("the view does not say %q:\n%s", want, text)
		}
		if strings.Contains(text, "976.0") != rates {
			t.Errorf("rates are shown: %v\n%s", !rates, text)
		}
	}
	m.Update(sampled{nil, errors.New("the control socket: timeout")})
	says("no sample: the control socket: timeout", true)
	m.Update(sampled{nil, fmt.Errorf("%w: gone", status.ErrEnded)})
	says("the lab has ended", true)
	_, next := m.Update(sampled{nil, status.ErrEnded})
	if next == nil {
		t.Error("the view does not look for the lab's return")
	}
	again := *before
	again.Emulated = units.Second
	m.Update(sampled{&again, nil})
	says("lab incast  1s emulated", false)
	m = viewOf(80, 24)
	m.Update(sampled{nil, status.ErrEnded})
	says("the lab has ended", false)
}

// A frozen view takes no samples, and can continue.
func TestView_TakesNoSamplesWhileFrozen(t *testing.T) {
	taken := 0
	_, now := samples()
	m := newModel(func(context.Context) (*report.Sample, error) { taken++; return now, nil }, time.Nanosecond)
	step := func() {
		t.Helper()
		_, next := m.Update(due{})
		if next == nil {
			t.Fatal("nothing follows")
		}
		msg := next()
		if _, tick := msg.(due); tick != m.still {
			t.Fatalf("still: %v, and what follows is %T", m.still, msg)
		}
		m.Update(msg)
	}
	step()
	press(m, "p")
	before := m.now
	step()
	m.Update(sampled{nil, errors.New("late")}) // was in progress
	if taken != 1 || m.now != before {
		t.Errorf("a view that stands still has taken %d samples", taken)
	}
	press(m, "p")
	step()
	if taken != 2 {
		t.Errorf("%d samples", taken)
	}
}

func TestView_QuitsOnItsKeys(t *testing.T) {
	quits := func(cmd tea.Cmd) bool {
		if cmd == nil {
			return false
		}
		_, ok := cmd().(tea.QuitMsg)
		return ok
	}
	before, now := samples()
	m := viewOf(80, 24, before, now)
	for _, c := range []struct {
		keys []string
		want bool
	}{{[]string{"q"}, true}, {[]string{"ctrl+c"}, true}, {[]string{"/", "q"}, false}, {[]string{"ctrl+c"}, true}, {[]string{"esc", "q"}, true}, {[]string{"x"}, false}} {
		if got := quits(press(m, c.keys...)); got != c.want {
			t.Errorf("%v quits: %v, want %v", c.keys, got, c.want)
		}
	}
}

// The table for programs. Time is virtual.
func TestOnce_PrintsATableForPrograms(t *testing.T) {
	synctest.Test(t, checkOnce)
}

func checkOnce(t *testing.T) {
	before, now := samples()
	list := []*report.Sample{before, now}
	take := func(context.Context) (*report.Sample, error) {
		if len(list) == 0 {
			return nil, status.ErrEnded
		}
		s := list[0]
		list = list[1:]
		return s, nil
	}
	var b strings.Builder
	start := time.Now()
	if err := PrintOnce(t.Context(), take, time.Second, &b); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took != time.Second {
		t.Errorf("two samples a second apart took %v", took)
	}
	golden(t, "once", b.String())
	for line := range strings.Lines(b.String()) {
		if n := len(strings.Fields(line)); !strings.HasPrefix(line, "#") && n != len(columns) {
			t.Errorf("%d fields, want %d: %s", n, len(columns), line)
		}
	}
	if err := PrintOnce(t.Context(), take, time.Millisecond, &b); !errors.Is(err, status.ErrEnded) {
		t.Errorf("an ended lab: %v", err)
	}
}

// Numbers fit their columns.
func TestNumbers_FitTheirColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Pow(10, rapid.Float64Range(-9, 18).Draw(t, "exponent"))
		if s := formatAmount(v); len(s) > 4 {
			t.Fatalf("%v is %q", v, s)
		}
		if s := formatPercent(v); len(s) > 4 {
			t.Fatalf("%v is %q", v, s)
		}
		if s := formatRate(min(v, 9e6)); len(s) > 7 {
			t.Fatalf("%v is %q", v, s)
		}
	})
	for _, c := range []struct{ got, want string }{
		{formatAmount(0), "0"}, {formatAmount(0.04), "<0.1"}, {formatAmount(0.25), "0.2"}, {formatAmount(7), "7"}, {formatAmount(999.4), "999"}, {formatAmount(999.6), "1.0K"}, {formatAmount(9400), "9.4K"}, {formatAmount(123456), "123K"}, {formatAmount(2.5e6), "2.5M"},
		{formatPercent(0.05), "<0.1"}, {formatPercent(1.25), "1.2"}, {formatPercent(99.7), "100"},
		{formatRate(0), "0"}, {formatRate(0.834), "0.83"}, {formatRate(94.13), "94.1"}, {formatRate(9413.2), "9413"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
