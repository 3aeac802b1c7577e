package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

func peer(t *testing.T) []flow {
	t.Helper()
	flows, err := readPeer("peer.csv")
	if err != nil {
		t.Fatal(err)
	}
	return flows
}

// TestFlowsMatchPeer: completion times are those of the peer within the bounds that README.md
// gives. A single flow depends on chance: its bounds are relative to how far runs with
// different seeds are apart.
func TestFlowsMatchPeer(t *testing.T) {
	flows := peer(t)
	for i := range controls {
		c := &controls[i]
		runs, err := runSeeds(".", flows, c, variant{}, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range compareRuns(flows, c, runs) {
			t.Log(r.markdown(c.name))
			mean := 0.05
			switch {
			case c.name == "hpcc":
			case r.size == "to 10 KB":
				mean = 0.15 // 75 flows: two of our runs differ by 10%
			case c.name == "dcqcn":
				mean = 0.06
			}
			if math.Abs(r.means-1) > mean {
				t.Errorf("%s, %s: mean FCT is %.3f of the peer's, want 1 within %.2f", c.name, r.size, r.means, mean)
			}
			if math.Abs(r.p50-1) > 0.03 {
				t.Errorf("%s, %s: the median flow takes %.3f of the peer's, want 1 within 0.03", c.name, r.size, r.p50)
			}
			if r.size == "all" && (c.name == "hpcc" && r.off50 > 0.03 || r.off95 > 1.5*r.self95) {
				t.Errorf("%s: a flow is off by %.3f at the median and %.3f at the 95th percentile, and by %.3f between two runs", c.name, r.off50, r.off95, r.self95)
			}
		}
	}
}

// TestListsAreScaled: labs/*.flows are what -write writes, and their packets occupy a link as long
// as the peer's do, to a byte, where a size allows it.
func TestListsAreScaled(t *testing.T) {
	flows := peer(t)
	for i := range controls {
		c := &controls[i]
		text, err := os.ReadFile(filepath.Join("labs", c.name+".flows"))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != formatList(flows, c) {
			t.Errorf("labs/%s.flows differs: go run ./papers/crosscheck -write", c.name)
		}
		for _, f := range flows {
			size := c.scaleSize(f.size)
			packets := (size + payload - 1) / payload
			ours, want := line.TimeOf(size+packets*c.header+immediate), c.peerTime(f.size)
			if late := ours - want; late > line.TimeOf(c.header+immediate) || late < -line.TimeOf(c.header+units.Byte) {
				t.Errorf("%s: %v takes %v, %v of the peer takes %v", c.name, size, ours, f.size, want)
			}
		}
	}
}

// TestPeerClock: the peer's first flow is alone, and takes the time of its packets, of one more at
// the switch, of its acknowledgement's 60 bytes at two ports and of four links, if each packet's
// time is in whole nanoseconds.
func TestPeerClock(t *testing.T) {
	f := peer(t)[0]
	for _, c := range controls[1:] {
		packet := line.TimeOf(payload+c.peerHeader) / units.Nanosecond
		want := c.peerTime(f.size)/units.Nanosecond + packet + 2*4 + 4000
		if got := f.fct[c.name]; got != float64(want) {
			t.Errorf("%s: %v ns, want %d", c.name, got, int64(want))
		}
	}
}

// TestStart: with 39 flows, the command prints all tables; errors name what is wrong.
func TestStart(t *testing.T) {
	if err := start([]string{"-seeds", "1"}, nil); err == nil || !strings.Contains(err.Error(), "2 or more") {
		t.Error(err)
	}
	if err := start([]string{"-dir", t.TempDir()}, nil); err == nil || !strings.Contains(err.Error(), "peer.csv") {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("peer.csv")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.Join(slices.Collect(strings.Lines(string(text)))[:40], "")
	if err := os.WriteFile(filepath.Join(dir, "peer.csv"), []byte(short), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := start([]string{"-dir", dir, "-seeds", "2", "-variants"}, &out); err != nil {
		t.Fatal(err)
	}
	// A table has two lines before its rows.
	if got, want := strings.Count(out.String(), "\n|"), len(controls)*len(ranges)+1+len(variants)*(len(ranges)+2); got != want {
		t.Errorf("%d lines of tables, want %d:\n%s", got, want, out.String())
	}
}
