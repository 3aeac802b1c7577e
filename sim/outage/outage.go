// Package outage keeps how long deliveries stood still while links were down.
package outage

import "github.com/weftlab/weft/sim/units"

// Window is the latest stretch of emulated time in which the network had lost a link
// and had not got over it: until the link came back or the tables left it out. All
// that one engine delivers shares one. What was delivered last before or in a window
// is followed by a gap that may be an outage.
type Window struct {
	Number int        // counts windows, from 1
	From   units.Time // when the first link went down
	To     units.Time // when it was over; units.Never while it lasts, -1 if there was none
}

// None is what a window is before any link goes down.
var None = Window{To: -1}

// Open begins a window, unless one lasts.
func (w *Window) Open(now units.Time) {
	if w.To != units.Never {
		w.Number, w.From, w.To = w.Number+1, now, units.Never
	}
}

// Close ends the window, if it lasts.
func (w *Window) Close(now units.Time) {
	if w.To == units.Never {
		w.To = now
	}
}

// Gap is a time without delivery.
type Gap struct {
	Window     int // in which it was
	Start, End units.Time
	Lost       uint64 // packets that were missing at its end; 0 where that is not known
}

// Log keeps the longest gap of each window. Its zero value is ready.
type Log struct{ gaps []Gap }

// maxGaps is how many windows a log keeps gaps of. More are only in a run whose links
// go up and down all the time.
const maxGaps = 1000

// Note takes a gap, which ended in a window or began in one. Those that begin and end
// outside of w are none of its.
func (l *Log) Note(w *Window, start, end units.Time, lost uint64) {
	if end < w.From || start > w.To {
		return
	}
	g := Gap{w.Number, start, end, lost}
	if n := len(l.gaps); n > 0 && l.gaps[n-1].Window == w.Number {
		if last := &l.gaps[n-1]; end-start > last.End-last.Start {
			*last = g
		}
		return
	}
	if len(l.gaps) < maxGaps {
		l.gaps = append(l.gaps, g)
	}
}

// Gaps gives the longest gap of each window that had any, in their order.
func (l *Log) Gaps() []Gap { return l.gaps }
