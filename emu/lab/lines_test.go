package lab

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLines_ArePassedOnAsTheyEnd(t *testing.T) {
	var got []string
	l := &lines{say: func(s string) { got = append(got, s) }, await: regexp.MustCompile("^ready>")}
	for _, part := range []string{"a", "b\r\nc\n", "", "\n", "rea", "dy"} {
		if l.Write([]byte(part)); l.hasMatched() {
			t.Fatalf("matched after %q", part)
		}
	}
	told := l.matchedSignal()
	if tail := l.lastLines(); tail != "  ab\n  c\n  \n  ready" {
		t.Errorf("tail %q", tail)
	}
	l.Write([]byte("> "))
	select {
	case <-told:
	default:
		t.Error("a prompt without an end of line does not match")
	}
	l.flushLine()
	l.flushLine()
	if diff := cmp.Diff([]string{"ab", "c", "", "ready> "}, got); diff != "" || !l.hasMatched() {
		t.Error(diff)
	}
	<-l.matchedSignal()
}

// However the output is split, all of it is passed on once, in order; lines without an
// end are cut, and the tail is the end of the output.
func TestLines_LoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 200, -1).Draw(t, "text") + strings.Repeat("x", rapid.SampledFrom([]int{0, 5, 40_000}).Draw(t, "long"))
		var got []string
		l := &lines{say: func(s string) { got = append(got, s) }}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			l.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		l.flushLine()
		want := strings.TrimSuffix(text, "\n")
		if len(text) < longestLine && strings.Join(got, "\n") != want || strings.Join(got, "") != strings.ReplaceAll(text, "\n", "") {
			t.Fatalf("%d lines of %q: %q", len(got), text, got)
		}
		last := got[max(len(got)-lastLines, 0):]
		if len(last) > 0 && l.lastLines() != "  "+strings.Join(last, "\n  ") {
			t.Fatalf("tail %q of %q", l.lastLines(), got)
		}
	})
}
