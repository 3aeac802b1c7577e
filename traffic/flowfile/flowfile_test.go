package flowfile

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/sizes"
	"pgregory.net/rapid"
)

func TestReadHPCC(t *testing.T) {
	f, err := ReadHPCC(strings.NewReader("3 \n2 1 3 100 200000000 2\n\n0 1 3 100 1 2.000000001\n1 0 3 10 5 0.5\n9 9 notes, as in HPCC's own\n\nFirst line: # of flows\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := File{Priority: 3, Flows: []pattern.Listed{
		{From: 2, To: 1, Size: 200_000_000, At: 2 * units.Second, Line: 2},
		{From: 0, To: 1, Size: 1, At: 2*units.Second + units.Nanosecond, Line: 4},
		{From: 1, To: 0, Size: 5, At: units.Second / 2, Line: 5},
	}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v, want %+v", f, want)
	}
	p, err := f.FlowList([]int{10, 20, 30}).Make()
	if err != nil {
		t.Fatal(err)
	}
	var from []int
	for f := range pattern.PlayFlows(p, units.Never) {
		from = append(from, f.From)
	}
	if !slices.Equal(from, []int{20, 30, 10}) {
		t.Errorf("flows come from %v", from)
	}
}

func TestReadHPCCSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "line 1: the file is empty",
		"2 1 3 100 5 2\n":             "line 1: the first line must be the number of flows",
		"x\n":                         "line 1: the first line must be the number of flows",
		"2\n1 0 3 100 5 2\n":          "line 2: the file ends after 1 flows, but its first line announces 2",
		"1\n1 0 3 100 5\n":            "line 2: 5 fields where SOURCE",
		"1\na 0 3 100 5 2\n":          `line 2: "a" is not the number of a host`,
		"1\n1 -1 3 100 5 2\n":         `line 2: "-1" is not the number of a host`,
		"1\n1 0 8 100 5 2\n":          `line 2: "8" is not a priority group`,
		"1\n1 0 3 70000 5 2\n":        `line 2: "70000" is not a port`,
		"1\n1 0 3 100 0 2\n":          `line 2: "0" is not a size`,
		"1\n1 0 3 100 5.5 2\n":        `line 2: "5.5" is not a size`,
		"1\n1 0 3 100 5 soon\n":       `line 2: "soon" is not a time in seconds`,
		"1\n1 0 3 100 5 2m\n":         `line 2: "2m" is not a time in seconds`,
		"1\n1 0 3 100 5 -2\n":         `line 2: "-2" is not a time in seconds`,
		"2\n1 0 3 9 5 2\n1 0 4 9 5 2": "line 3: priority group 4, but the flows before it have 3",
	} {
		if _, err := ReadHPCC(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	f, err := ReadHPCC(strings.NewReader("1\n\n1 5 3 100 5 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.FlowList([]int{1, 2}).Make(); err == nil || !strings.Contains(err.Error(), "line 3: there is no host 5: hosts are 0 to 1") {
		t.Errorf("too few hosts: %v", err)
	}
}

// TestWriteHPCC: generated flows are the same when they are read back, except that
// the format rounds to nanoseconds.
func TestWriteHPCC(t *testing.T) {
	web, err := sizes.FindNamed("websearch")
	if err != nil {
		t.Fatal(err)
	}
	hosts := []int{7, 3, 12, 5}
	p, err := pattern.Arrivals{Hosts: hosts, Sizes: web, Rate: 10 * units.Gbps, Flows: 200, Start: 2 * units.Second}.Make()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteHPCC(&text, pattern.PlayFlows(p, units.Never), hosts, 3); err != nil {
		t.Fatal(err)
	}
	f, err := ReadHPCC(&text)
	if err != nil {
		t.Fatal(err)
	}
	if f.Priority != 3 || len(f.Flows) != 200 {
		t.Fatalf("priority %d, %d flows", f.Priority, len(f.Flows))
	}
	i := 0
	for want := range pattern.PlayFlows(p, units.Never) {
		got := f.Flows[i]
		off := got.At - want.At
		if hosts[got.From] != want.From || hosts[got.To] != want.To || got.Size != want.Size || off > units.Nanosecond/2 || off < -units.Nanosecond/2 {
			t.Fatalf("line %d: %+v, want %+v", got.Line, got, want)
		}
		i++
	}
}

// TestHPCCRoundTrip: any list in nanoseconds is the same after writing and reading.
func TestHPCCRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flow := rapid.Custom(func(t *rapid.T) pattern.Listed {
			from := rapid.IntRange(0, 5).Draw(t, "from")
			return pattern.Listed{
				From: from, To: (from + rapid.IntRange(1, 5).Draw(t, "hop")) % 6,
				Size: units.Bytes(rapid.Int64Range(1, math.MaxUint32).Draw(t, "size")),
				At:   units.Time(rapid.Int64Range(0, 1e13).Draw(t, "at")) / units.Nanosecond * units.Nanosecond,
			}
		})
		hosts := []int{6, 5, 4, 3, 2, 1}
		list := rapid.SliceOfN(flow, 1, 20).Draw(t, "flows")
		write := func(flows []pattern.Listed) string {
			p, err := File{Flows: flows}.FlowList(hosts).Make()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := WriteHPCC(&text, pattern.PlayFlows(p, units.Never), hosts, 5); err != nil {
				t.Fatal(err)
			}
			return text.String()
		}
		text := write(list)
		f, err := ReadHPCC(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Flows) != len(list) || f.Priority != 5 {
			t.Fatalf("%d flows of %d", len(f.Flows), len(list))
		}
		for _, want := range list {
			if !slices.ContainsFunc(f.Flows, func(got pattern.Listed) bool { got.Line = 0; return got == want }) {
				t.Fatalf("%+v is not in\n%s", want, text)
			}
		}
		if again := write(f.Flows); again != text {
			t.Fatalf("written again:\n%s\nand before:\n%s", again, text)
		}
	})
}

func TestWriteHPCCRefuses(t *testing.T) {
	one := func(f pattern.Flow) func(func(pattern.Flow) bool) {
		return func(yield func(pattern.Flow) bool) { yield(f) }
	}
	for want, err := range map[string]error{
		"priority group 8":     WriteHPCC(&strings.Builder{}, one(pattern.Flow{}), nil, 8),
		"host 1 to host 2":     WriteHPCC(&strings.Builder{}, one(pattern.Flow{From: 1, To: 2, Size: 1}), []int{1}, 3),
		"supports sizes up to": WriteHPCC(&strings.Builder{}, one(pattern.Flow{From: 1, To: 2, Size: 1 << 32}), []int{1, 2}, 3),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestReadHtsim(t *testing.T) {
	f, err := ReadHtsim(strings.NewReader(`# all-to-all in steps
Nodes 4
Connections 4
Triggers 2

0->1 id 1 start 0 size 2000000 send_done_trigger 7
0->2 id 2 trigger 7 size 1000  recv_done_trigger 3
1->2 start 0.000000 size 5
2->3 id 9 size 1 trigger 3
trigger id 7 oneshot
trigger id 3 barrier count 1
`))
	if err != nil {
		t.Fatal(err)
	}
	want := File{
		Nodes:    4,
		Triggers: []pattern.Trigger{{Kind: pattern.Oneshot}, {Kind: pattern.Barrier, Count: 1}},
		Flows: []pattern.Listed{
			{From: 0, To: 1, Size: 2_000_000, Sent: 1, Line: 6},
			{From: 0, To: 2, Size: 1000, Trigger: 1, Received: 2, Line: 7},
			{From: 1, To: 2, Size: 5, Line: 8},
			{From: 2, To: 3, Size: 1, Trigger: 2, Line: 9},
		},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v, want %+v", f, want)
	}
	if _, err := f.FlowList([]int{3, 2, 1, 0}).Make(); err != nil {
		t.Error(err)
	}
}

// TestRingOfHtsim: in the ring of htsim's generator the end of a send starts another host's flow,
// and connections have ranks, which have no effect.
func TestRingOfHtsim(t *testing.T) {
	ring := "Nodes 2\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 1 prio 3\n1->0 id 2 trigger 1 size 5\ntrigger id 1 oneshot\n"
	for _, text := range []string{ring, strings.ReplaceAll(ring, "send_done", "recv_done")} {
		f, err := ReadHtsim(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.FlowList([]int{0, 1}).Make()
		if err != nil {
			t.Fatal(err)
		}
		if sets := len(pattern.Together(p)); (sets == 1) != (text == ring) {
			t.Errorf("%d sets of hosts between which triggers act, of\n%s", sets, text)
		}
	}
}

func TestReadHtsimSaysWhatIsWrong(t *testing.T) {
	const head = "Nodes 4\nConnections 1\n"
	for text, want := range map[string]string{
		"": "line 1: a file without connections",
		"Nodes 4\nConnections 2\n0->1 start 0 size 5\n":               "line 3: the file says Connections 2, but has 1",
		"Connections 1\n0->1 start 0 size 5\n":                        `line 2: a line "Nodes N" must stand before`,
		"Nodes\n":                                                     "line 1: Nodes takes one number",
		"Nodes 4\nNodes 5\n":                                          "line 2: duplicate Nodes",
		"nodes 4\n":                                                   `line 1: "nodes": a line begins with`,
		"Failures 2\n":                                                "line 1: failures are not supported",
		"failure switch_type TOR\n":                                   "line 1: failures are not supported",
		head + "0->1 start 0 size 5\nNodes 4\n":                       "line 4: Nodes must come before",
		head + "0->4 start 0 size 5\n":                                "line 3: there is no host 4: the file has 4 hosts, numbered from 0",
		head + "0->b start 0 size 5\n":                                `line 3: "b" is not the number of a host`,
		head + "0->1 start 0\n":                                       "line 3: a connection without a size",
		head + "0->1 start 0 size 0\n":                                "line 3: a connection without a size",
		head + "0->1 size 5\n":                                        "line 3: neither start nor trigger",
		head + "0->1 size 5 start x\n":                                `line 3: "x" is not a time in picoseconds`,
		head + "0->1 size 5 start\n":                                  `line 3: "" is not a time in picoseconds`,
		head + "0->1 size\n":                                          "line 3: size without a number",
		head + "0->1 start 0 size 5 prio\n":                           "line 3: prio without a number",
		head + "0->1 start 0 size 5 addon\n":                          "line 3: addon is not supported",
		head + "0->1 start 0 size 5 speed 3\n":                        `line 3: "speed": a connection has`,
		head + "0->1 start 0 size 5 id 0\n":                           "line 3: id 0: it must be at least 1",
		head + "0->1 start 0 size 5 id 1\n1->0 start 0 size 5 id 1\n": "line 4: id 1 is already used by the connection in line 3",
		head + "0->1 start 0 trigger 1 size 5\n":                      "line 3: both start and trigger",
		head + "0->1 trigger 1 size 5\n":                              "line 3: there is no trigger with id 1",
		head + "0->1 start 0 size 5\ntrigger id 1 oneshot\n":          "line 4: the file says Triggers 0, but has 1",
		"trigger oneshot\n":                                           "line 1: a trigger without id",
		"trigger id 1\n":                                              "line 1: a trigger must be one of",
		"trigger id 1 oneshot barrier count 1\n":                      "line 1: a trigger must be one of",
		"trigger id 1 barrier\n":                                      "line 1: a barrier needs a count",
		"trigger id 1 sometimes\n":                                    `line 1: "sometimes": a trigger has`,
		"trigger id 1 oneshot\ntrigger id 1 oneshot\n":                "line 2: trigger 1 already exists, in line 1",
	} {
		if _, err := ReadHtsim(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzHtsim(f *testing.F) {
	f.Add("Nodes 4\nConnections 1\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 7\ntrigger id 7 oneshot\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ReadHtsim(strings.NewReader(text))
		if err != nil {
			return
		}
		if p, err := file.FlowList([]int{1, 2, 3, 4}).Make(); err == nil {
			for range pattern.PlayFlows(p, units.Never) {
			}
		}
	})
}

func FuzzHPCC(f *testing.F) {
	f.Add("1\n1 0 3 100 5 2.000000001\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ReadHPCC(strings.NewReader(text))
		if err != nil {
			return
		}
		if p, err := file.FlowList([]int{1, 2, 3, 4}).Make(); err == nil {
			if got := len(slices.Collect(pattern.PlayFlows(p, units.Never))); got != len(file.Flows) {
				t.Errorf("%d flows of %d", got, len(file.Flows))
			}
		}
	})
}
