package lab

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

const (
	// longestLine is the length at which a line without an end is cut.
	longestLine = 16 << 10
	// lastLines is how many lines are kept for an error.
	lastLines = 20
)

// lines splits the output of a program into lines. The zero value with say set is ready for use.
type lines struct {
	say   func(line string)
	await *regexp.Regexp // nil means nothing

	mu    sync.Mutex
	rest  []byte   // of the last, incomplete line
	last  []string // the last lines
	found bool     // a line matched await
	told  chan struct{}
}

// Write takes output of the program. It never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		switch {
		case i >= 0:
			l.addLine(string(l.rest[:i]))
			l.rest = l.rest[i+1:]
		case len(l.rest) > longestLine:
			l.addLine(string(l.rest[:longestLine]))
			l.rest = l.rest[longestLine:]
		default:
			l.matchLine(string(l.rest)) // a prompt has no newline
			return len(b), nil
		}
	}
}

// flushLine takes the remaining output as a line.
func (l *lines) flushLine() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.addLine(string(l.rest))
		l.rest = nil
	}
}

func (l *lines) addLine(text string) {
	text = strings.TrimSuffix(text, "\r")
	l.matchLine(text)
	if l.last = append(l.last, text); len(l.last) > lastLines {
		l.last = l.last[1:]
	}
	l.say(text)
}

func (l *lines) matchLine(text string) {
	if l.await == nil || l.found || !l.await.MatchString(text) {
		return
	}
	l.found = true
	if l.told != nil {
		close(l.told)
	}
}

// matchedSignal returns a channel that is closed when a line has matched.
func (l *lines) matchedSignal() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = make(chan struct{})
		if l.found {
			close(l.told)
		}
	}
	return l.told
}

func (l *lines) hasMatched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}

// lastLines returns the last lines, including an incomplete one, each indented.
func (l *lines) lastLines() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.last
	if len(l.rest) > 0 {
		all = append(all[:len(all):len(all)], string(l.rest))
	}
	if len(all) == 0 {
		return ""
	}
	return "  " + strings.Join(all, "\n  ")
}
