package main

import (
	"bufio"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"
)

// play feeds a stage the output of go test -json.
func play(t *testing.T, lines ...string) (*suite, *stage, *outcome) {
	t.Helper()
	st := &stage{name: "tests", packages: []string{module + "/a"}}
	o := &outcome{start: time.Unix(0, 0), tests: map[testID]*testRun{}}
	s := &suite{start: time.Unix(0, 0), stages: map[*stage]*outcome{st: o}, order: []*stage{st}}
	if err := s.readEvents(strings.NewReader(strings.Join(lines, "\n")), o); err != nil {
		t.Fatal(err)
	}
	return s, st, o
}

const pkg = `"Package":"github.com/weftlab/weft/a"`

func TestFollow_CountsTestsAndTheirParts(t *testing.T) {
	_, _, o := play(t,
		`{"Action":"run",`+pkg+`,"Test":"TestOne"}`, `{"Action":"run",`+pkg+`,"Test":"TestOne/part"}`,
		`{"Action":"pass",`+pkg+`,"Test":"TestOne/part","Elapsed":1}`, `{"Action":"pass",`+pkg+`,"Test":"TestOne","Elapsed":1}`,
		`{"Action":"fail",`+pkg+`,"Test":"TestTwo"}`, `{"Action":"skip",`+pkg+`,"Test":"TestThree"}`, `{"Action":"fail",`+pkg+`}`)
	if o.passed != 2 || o.failed != 1 || o.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped", o.passed, o.failed, o.skipped)
	}
}

func TestFailures_HaveTheOutputOfWhatFailedOnly(t *testing.T) {
	_, _, o := play(t,
		`{"Action":"output",`+pkg+`,"Test":"TestGood","Output":"all is well\n"}`, `{"Action":"pass",`+pkg+`,"Test":"TestGood"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestBad","Output":"the reason\n"}`, `{"Action":"fail",`+pkg+`,"Test":"TestBad"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestHangs","Output":"it waits\n"}`,
		`{"ImportPath":"`+module+`/b","Action":"build-output","Output":"b.go:1: no such thing\n"}`, `not JSON`)
	o.verdict = failed
	got := strings.Join(o.failedOutput(), "\n")
	for _, want := range []string{"the reason", "it waits", "b.go:1: no such thing", "not JSON"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "all is well") {
		t.Errorf("the output of a good test is there:\n%s", got)
	}
}

func TestSkips_AreGroupedByReason(t *testing.T) {
	s, _, _ := play(t,
		`{"Action":"output",`+pkg+`,"Test":"TestX","Output":"=== RUN   TestX\n"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestX","Output":"    x_test.go:7: SKIPPED: it needs root\n"}`, `{"Action":"skip",`+pkg+`,"Test":"TestX"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestY","Output":"    y_test.go:123: SKIPPED: it needs root\n"}`, `{"Action":"skip",`+pkg+`,"Test":"TestY"}`,
		`{"Action":"skip",`+pkg+`,"Test":"TestZ"}`)
	want := []string{"tests: SKIPPED: it needs root: 2 tests: a TestX, a TestY", "tests: no reason given: 1 tests: a TestZ"}
	if got := s.listSkips(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestProgress_NamesWhatHasRunLongest(t *testing.T) {
	s, _, o := play(t)
	at := func(sec int64) time.Time { return time.Unix(sec, 0) }
	for i, name := range []string{"TestA", "TestB", "TestC", "TestD", "TestE"} {
		o.addEvent(&event{Action: "run", Package: module + "/a", Test: name}, at(int64(10*i)))
	}
	o.addEvent(&event{Action: "pause", Package: module + "/a", Test: "TestA"}, at(50)) // it waits for its turn
	o.addEvent(&event{Action: "pass", Package: module + "/a", Test: "TestB"}, at(50))
	want := "[1:40] 1 passed, 0 failed, 0 skipped; tests: a TestC (1:20), a TestD (1:10), a TestE (1:00)"
	if got := s.progressLine(at(100)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.addEvent(&event{Action: "cont", Package: module + "/a", Test: "TestA"}, at(95))
	if got := s.progressLine(at(100)); !strings.HasSuffix(got, ", a TestA (0:05)") {
		t.Errorf("%q", got)
	}
}

func TestSlowest_AreSortedByTheirTime(t *testing.T) {
	s, _, _ := play(t,
		`{"Action":"pass",`+pkg+`,"Test":"TestShort","Elapsed":0.5}`, `{"Action":"pass",`+pkg+`,"Test":"TestLong","Elapsed":30}`,
		`{"Action":"pass",`+pkg+`,"Test":"TestLong/part","Elapsed":29}`, `{"Action":"fail",`+pkg+`,"Test":"TestLonger","Elapsed":100.25}`)
	want := []string{" 100.2 s  a TestLonger (tests)", "  30.0 s  a TestLong (tests)"}
	if got := s.listSlowest(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestLongOf_RefusesWhatIsNoPart(t *testing.T) {
	for _, part := range []string{"", "3", "0/8", "9/8", "x/y"} {
		if _, err := longOf(part); err == nil {
			t.Errorf("%q is taken", part)
		}
	}
}

func TestCut_KeepsTheWidthOfATerminal(t *testing.T) {
	for _, c := range []struct {
		line, want string
		width      int
	}{{"short", "short", 10}, {"a longer line", "a lon…", 6}, {"ähm, more", "ähm…", 4}} {
		if got := cutLine(c.line, c.width); got != c.want {
			t.Errorf("%q in %d columns is %q", c.line, c.width, got)
		}
	}
}

func TestExec_InterruptReachesWhatACommandHasStarted(t *testing.T) {
	// As in main: what is started takes the signal, also if this process began with it ignored,
	// as what a script puts into the background does.
	ctx, interrupt := signal.NotifyContext(t.Context(), os.Interrupt)
	c := commandStage("sleep", "").newCommand(ctx, "sh", "-c", "sh -c 'echo runs; exec sleep 1000'; echo goes on; sleep 1000")
	pipe, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "runs\n" {
		t.Fatalf("%q, %v", line, err)
	}
	interrupt()
	all, _ := io.ReadAll(out) // until all that has the pipe open has ended
	if err := c.Wait(); err == nil || len(all) > 0 {
		t.Errorf("%v, %q", err, all)
	}
}

func TestFollow_WaitingForATurnIsNoPartOfATest(t *testing.T) {
	s, _, o := play(t)
	at := func(sec int64) time.Time { return time.Unix(sec, 0) }
	add := func(sec int64, action, output string) {
		o.addEvent(&event{Action: action, Package: module + "/a", Test: "TestA", Output: output, Elapsed: 100}, at(sec))
	}
	add(0, "run", "")
	add(10, "output", "    turn.go:60: waits for its turn\n")
	if got := s.progressLine(at(50)); strings.Contains(got, "TestA") {
		t.Errorf("%q", got)
	}
	add(70, "output", "    turn.go:70: has its turn\n")
	if got := s.progressLine(at(80)); !strings.HasSuffix(got, "a TestA (0:10)") {
		t.Errorf("%q", got)
	}
	add(100, "pass", "")
	if got := s.listSlowest(); len(got) != 1 || !strings.Contains(got[0], "30.0 s") {
		t.Errorf("%q", got)
	}
}
