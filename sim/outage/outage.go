// Package outage records how long deliveries stopped while links were down.
//
// Every shard of a fabric keeps a Window, from the loss of a link until it is over. When a
// packet has arrived, a record compares one number with it.
package outage

import "github.com/weftlab/weft/sim/units"

// Window is the latest period of emulated time in which the network had lost a link
// and had not recovered: until the link came back or the tables no longer used it.
// All deliveries of one engine share one Window. A gap after the last delivery
// before or in a window may be an outage.
type Window struct {
	Number int        // counts windows, from 1
	From   units.Time // when its first link went down
	To     units.Time // when it ended; units.Never while it lasts, -1 if there was none
}

// None is the window before any link has gone down.
var None = Window{To: -1}

// Open begins a window, unless one is open.
func (w *Window) Open(now units.Time) {
	if w.To != units.Never {
		w.Number, w.From, w.To = w.Number+1, now, units.Never
	}
}

// Close ends the window, if it is open.
func (w *Window) Close(now units.Time) {
	if w.To == units.Never {
		w.To = now
	}
}

// Gap is a period without delivery.
type Gap struct {
	Window     int // number of its window
	Start, End units.Time
	Lost       uint64 // packets missing at its end; 0 if unknown
}

// Log keeps the longest gap of each window. The zero Log is ready for use.
type Log struct{ gaps []Gap }

// maxGaps is the number of windows for which a log keeps gaps. Only a run whose links
// go up and down all the time has more.
const maxGaps = 1000

// RecordGap records a gap. It ignores gaps that do not overlap w.
func (l *Log) RecordGap(w *Window, start, end units.Time, lost uint64) {
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

// Gaps returns the longest gap of each window that had any, in order.
func (l *Log) Gaps() []Gap { return l.gaps }
