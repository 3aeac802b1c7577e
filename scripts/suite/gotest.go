package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// outcome is what a stage has done so far. The suite's lock guards it.
type outcome struct {
	start   time.Time
	took    time.Duration
	verdict verdict
	err     error
	output  []byte // of a command; of tests, what is not output of a test

	tests                   map[testID]*testRun
	passed, failed, skipped int // tests, parts of tests included
}

// testID names a test, or with an empty name the whole of a package's tests.
type testID struct{ pkg, test string }

func (t testID) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(t.pkg, module+"/")+" "+t.test, " ")
}

// What tests with labs print around their wait for a turn (e2e/testlab), which is no part of what
// they take.
const (
	waitsForTurn = "waits for its turn\n"
	hasTurn      = "has its turn\n"
)

// testRun is one test.
type testRun struct {
	began   time.Time // zero if it waits for a slot or a turn
	hadTurn bool
	took    time.Duration
	verdict verdict
	output  []string // lines
}

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// runTests runs go test and follows its events.
func (st *stage) runTests(ctx context.Context, s *suite, o *outcome) error {
	argv := slices.Concat([]string{"go", "test", "-json", "-vet=off", "-timeout=60m"}, st.flags, st.packages)
	c := st.newCommand(ctx, argv...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	readErr := s.readEvents(out, o)
	err = c.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	o.output = append(o.output, stderr.Bytes()...)
	if err != nil {
		return err
	}
	return readErr
}

// readEvents reads the events of go test -json.
func (s *suite) readEvents(r io.Reader, o *outcome) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "build-output", Output: string(line)}
			}
			s.mu.Lock()
			failed := o.addEvent(&e, time.Now())
			s.mu.Unlock()
			if failed != nil {
				s.printLine("FAIL  %s (%.1f s)", testID{e.Package, e.Test}, failed.took.Seconds())
				printEnd(os.Stdout, failed.outputLines(), maxFailureLines)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

// addEvent counts an event. It returns the test if that has failed.
func (o *outcome) addEvent(e *event, now time.Time) (bad *testRun) {
	if e.Action == "build-output" {
		o.output = append(o.output, e.Output...)
		return nil
	}
	id := testID{e.Package, e.Test}
	t := o.tests[id]
	if t == nil {
		t = &testRun{began: now}
		o.tests[id] = t
	}
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		switch {
		case strings.HasSuffix(e.Output, waitsForTurn):
			t.began = time.Time{}
		case strings.HasSuffix(e.Output, hasTurn):
			t.began, t.hadTurn = now, true
		}
	case "cont": // a parallel test has waited for a slot of go test
		t.began = now
	case "pass", "fail", "skip":
		t.took = time.Duration(e.Elapsed * float64(time.Second))
		if t.hadTurn {
			t.took = now.Sub(t.began)
		}
		t.verdict = map[string]verdict{"pass": passed, "fail": failed, "skip": skipped}[e.Action]
		if e.Test == "" {
			break
		}
		switch t.verdict {
		case passed:
			o.passed++
			t.output = nil
		case failed:
			o.failed++
			bad = t
		case skipped:
			o.skipped++
		}
	case "pause":
		t.began = time.Time{} // it does not run now
	}
	return bad
}

// outputLines returns the output of a test.
func (t *testRun) outputLines() (all []string) {
	for _, l := range t.output {
		all = append(all, strings.TrimSuffix(l, "\n"))
	}
	return all
}

// failedOutput returns the output of a stage that failed: of its command, or of its failed tests.
func (o *outcome) failedOutput() (all []string) {
	ids := make([]testID, 0, len(o.tests))
	for id, t := range o.tests {
		if t.verdict == failed || t.verdict == running && o.verdict == failed {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b testID) int {
		if c := strings.Compare(a.pkg, b.pkg); c != 0 {
			return c
		}
		return strings.Compare(b.test, a.test) // the package's own lines last
	})
	for _, id := range ids {
		all = append(all, o.tests[id].outputLines()...)
	}
	for l := range strings.Lines(string(o.output)) {
		all = append(all, strings.TrimSuffix(l, "\n"))
	}
	if o.err != nil {
		all = append(all, o.err.Error())
	}
	return all
}
