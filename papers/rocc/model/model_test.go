package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestRun draws all pictures in all formats, and prints rows that are sound.
func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if err := run([]string{"-o", dir, "-formats", "png,svg,pdf"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fig5", "fig6", "fig7", "tuned"} {
		checkPicture(t, filepath.Join(dir, name))
	}
	for _, want := range []string{
		"| phase margin of 0.3:3, N = 2 | 50.0° (§5.2, Fig. 6) | 49.3° | -0.7° | agrees |",
		"| -62.6° | -12.6° | differs: both of the paper's margins come out with 92% of our loop gain: 50.9° and -50.0°",
		"| 0.3:1.5 | 42.0° | 3.1° | ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
}

// checkPicture reads a picture in its three formats.
func checkPicture(t *testing.T, name string) {
	t.Helper()
	read := func(format string) []byte {
		b, err := os.ReadFile(name + "." + format)
		if err != nil {
			t.Error(err)
		}
		return b
	}
	if i, err := png.Decode(bytes.NewReader(read("png"))); err != nil || i.Bounds().Dx() < 900 {
		t.Errorf("%s.png: %v", name, err)
	}
	if b := read("pdf"); !bytes.HasPrefix(b, []byte("%PDF-")) {
		t.Errorf("%s.pdf is no PDF", name)
	}
	d := xml.NewDecoder(bytes.NewReader(read("svg")))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s.svg: %v", name, err)
			break
		}
	}
}

// TestThePictures: the pictures in the repository are what the command draws.
func TestThePictures(t *testing.T) {
	for name, f := range paperFigures() {
		var now bytes.Buffer
		if err := f.Write(&now, "png"); err != nil {
			t.Fatal(err)
		}
		drawn, err := png.Decode(&now)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile("../figures/" + name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		// Compare pixels: compression is Go's and may change.
		if kept, err := png.Decode(bytes.NewReader(file)); err != nil || !reflect.DeepEqual(kept, drawn) {
			t.Errorf("papers/rocc/figures/%s.png is another picture: run go run ./papers/rocc/model", name)
		}
	}
}

// TestRows: each row agrees with the paper, or differs as far as its note explains.
func TestRows(t *testing.T) {
	for _, r := range paperRows() {
		if !r.isExplained() {
			t.Errorf("%s: %v, the paper has %v", r.what, r.ours, r.paper)
		}
		if r.known != nil && r.agreesWithPaper() {
			t.Errorf("%s: it is said to differ and agrees", r.what)
		}
	}
}

// TestSound: a row that is off is not sound unless its note explains by how much.
func TestSound(t *testing.T) {
	for _, c := range []struct {
		row   row
		sound bool
	}{
		{row{paper: 50, ours: 50.9, tolerance: 1}, true},
		{row{paper: 50, ours: 48.9, tolerance: 1}, false},
		{row{paper: 20, ours: 20, relation: above}, false},
		{row{paper: 20, ours: 21, relation: above}, true},
		{row{paper: 20, ours: 20, relation: atLeast}, true},
		{row{paper: 20, ours: 19, relation: atLeast}, false},
		{row{paper: 50, ours: 30, known: &[2]float64{29, 31}, note: "so"}, true},
		{row{paper: 50, ours: 30, known: &[2]float64{29, 31}}, false},
		{row{paper: 50, ours: 28, known: &[2]float64{29, 31}, note: "so"}, false},
	} {
		if c.row.isExplained() != c.sound {
			t.Errorf("%+v is sound: %v", c.row, c.row.isExplained())
		}
	}
}

// TestOwnSettings evaluates settings from flags, and draws them if asked to.
func TestOwnSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-alpha 0.3 -beta 3 -flows 2,10", []string{
			"α = 0.3, β = 3, T = 40us, ΔF = 10Mbps, ΔQ = 600B, so κ = 2083/s.",
			"Stable with up to 5 flows with fixed gains; stable with up to 183 flows with auto-tuning.",
			"| 2 | 49.3° | 13330 rad/s (2122 Hz) | 0.3:3 | 49.3° | 13330 rad/s (2122 Hz) |",
			"| 10 | -62.6° | 65670 rad/s (10450 Hz) | 0.0375:0.375 |",
		}},
		// §6.2's interval: the margins are those of 0.3:1.5.
		{"-interval 100us -flows 2", []string{"α = 0.12, β = 0.6, T = 100us", "| 2 | 42.0° |", "up to 333 flows"}},
		{"-delta-q 1200B -flows 2", []string{"α = 0.6, β = 3,", "| 2 | 42.0° |"}},
		{"-delta-f 20Mbps -flows 2", []string{"α = 0.15, β = 0.75,", "| 2 | 42.0° |"}},
		{"-alpha 3 -beta 1", []string{"Unstable with any number of flows with fixed gains; unstable", "| 128 |"}},
		{"-flows 2 -o here -formats pdf,png,svg", []string{"α = 0.3, β = 1.5"}},
	} {
		var out bytes.Buffer
		if err := run(strings.Fields(c.args), &out); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in:\n%s", c.args, want, out.String())
			}
		}
	}
	checkPicture(t, "here/settings")
	entries, err := os.ReadDir(".")
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: without -o nothing is drawn", entries, err)
	}
}

// TestFlags: errors name the fix, and nothing is printed or drawn with them.
func TestFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"-alpha 0.3", "give both, or neither"},
		{"-beta 3 -flows 2", "give both, or neither"},
		{"-alpha 0 -beta 3", "alpha is 0: choose a gain above 0, up to 1000"},
		{"-alpha x -beta 3", `invalid value "x" for flag -alpha`},
		{"-interval 0", "the interval is 0s: choose a time above 0, up to 1s, such as 40us"},
		{"-interval 40", "unit"},
		{"-interval 1ps", "ask for gains of 1.2e+07:6e+07, which are out of range: take a longer -interval"},
		{"-delta-f unlimited", "ΔF is 0 b/s: choose a rate above 0, such as 10Mbps"},
		{"-delta-q 0B", "ΔQ is 0 B: choose a size above 0, such as 600B"},
		{"-flows 2,,3", `-flows has "": give numbers from 1 to 1000000 with commas between, such as 2,10,100`},
		{"-flows 0", "give numbers from 1"},
		{"-flows 1000001", "give numbers from 1"},
		{"-formats gif", `-formats has "gif": choose from pdf, png, svg`},
		{"-flows 2 -formats pdf", "add -o DIR"},
		{"figures", "write -o figures"},
		{"-nonsense", "flag provided but not defined"},
	} {
		var out bytes.Buffer
		err := run(strings.Fields(c.args), &out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s prints %s", c.args, out.String())
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v: flags that are wrong leave pictures", entries, err)
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	for _, want := range []string{"-alpha", "-beta", "-interval", "-delta-f", "-delta-q", "-flows", "-formats", "-o", "(default 40us)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in:\n%s", want, out.String())
		}
	}
}

// TestNext: the numbers of flows that are drawn are all up to 128, and few beyond.
func TestNext(t *testing.T) {
	var all []int
	for n := 1; n <= maxFlows; n = nextCount(n) {
		all = append(all, n)
	}
	if i := slices.Index(all, 128); i != 127 || len(all) > 2000 {
		t.Errorf("128 is the %d. of %d", i+1, len(all))
	}
}
