package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// progressLine shows the progress of a run in virtual time in one line of a terminal.
type progressLine struct {
	w       io.Writer
	columns func() int // of the terminal
	until   run.Horizon
	speed   pace
	last    status.Progress
	at      time.Time // of last
}

// newProgressLine returns the line of a run that begins now, on standard error; nil if that is no
// terminal.
func newProgressLine(until run.Horizon) *progressLine {
	if !isTerminal(os.Stderr) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &progressLine{w: os.Stderr, columns: func() int { return int(sizeOf(os.Stderr).Columns) }, until: until, at: time.Now()}
}

// showProgress writes the line again.
func (l *progressLine) showProgress(now status.Progress) { l.showAt(time.Now(), now) }

func (l *progressLine) showAt(t time.Time, now status.Progress) {
	l.speed.addPeriod(now.Now-l.last.Now, now.Hops-l.last.Hops, t.Sub(l.at))
	l.last, l.at = now, t
	text := progressText(now.Now, l.until, l.speed, now.Flows)
	// A line that wraps could not be erased.
	fmt.Fprint(l.w, clearLine+text[:min(len(text), max(l.columns()-1, 0))])
}

// eraseLine erases the line, if there is one.
func (l *progressLine) eraseLine() {
	if l != nil {
		fmt.Fprint(l.w, clearLine)
	}
}

// pace is the recent speed of a run.
type pace struct {
	emulated float64 // emulated seconds per second
	hops     float64 // per second
}

// addPeriod adds one period. Older periods fade out gradually: the work per second
// varies with the traffic, and the figures should not flicker.
func (p *pace) addPeriod(emulated units.Time, hops uint64, took time.Duration) {
	seconds := took.Seconds()
	if seconds <= 0 || hops == 0 && emulated == 0 {
		return // the shards have not answered yet
	}
	const weight = 0.3
	mix := func(old, now float64) float64 {
		if old == 0 {
			return now
		}
		return (1-weight)*old + weight*now
	}
	p.emulated, p.hops = mix(p.emulated, emulated.Seconds()/seconds), mix(p.hops, float64(hops)/seconds)
}

// progressText formats the progress of a run, in ASCII. How long it still takes is known until the
// end of the run or of its measurement window; after the window, how long at most. flows counts the
// flows of patterns that have ended.
func progressText(now units.Time, until run.Horizon, p pace, flows uint64) string {
	line := fmt.Sprintf("%.6gs", now.Seconds())
	end, rest := until.Until, "%v left"
	switch {
	case until.Until > 0 && now < until.Until:
		line += share(now, until.Until)
		if until.Open {
			rest = "%v left, then the last flows"
		}
	case until.Until > 0 && !until.Open:
		line += share(now, until.Until)
	case until.Until > 0:
		line += ", the last flows"
		end, rest = until.Latest, "at most %v left"
	}
	if end > 0 && p.emulated > 0 { // first, as narrow terminals do not show all
		left := time.Duration((end - now).Seconds() / p.emulated * float64(time.Second))
		line += "  " + fmt.Sprintf(rest, max(left, 0).Round(time.Second))
	}
	if p.hops > 0 {
		line += fmt.Sprintf("  %.3g million hops/s", p.hops/1e6)
	}
	if flows > 0 {
		line += fmt.Sprintf("  %d flows done", flows)
	}
	return line
}

// share formats how much of a run is over.
func share(now, end units.Time) string {
	return fmt.Sprintf(" of %.6gs (%.0f%%)", end.Seconds(), 100*now.Seconds()/end.Seconds())
}
