package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// progressEvery is the interval at which the progress of a run in virtual time is shown.
const progressEvery = 500 * time.Millisecond

// showProgress shows the progress of a run that ends at until, in one line on
// standard error if that is a terminal. stop erases the line.
func showProgress(fb *fabric.Fabric, until units.Time) (stop func()) {
	if !isTerminal(os.Stderr) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		watchProgress(ctx, os.Stderr, tick.C, until, fb.Progress, func() int { return int(sizeOf(os.Stderr).Columns) })
	}()
	return func() { cancel(); <-done }
}

// watchProgress writes a line at each tick until ctx ends, then erases it.
func watchProgress(ctx context.Context, w io.Writer, tick <-chan time.Time, until units.Time, look func() status.Progress, columns func() int) {
	last, at := look(), time.Now() // the run has just begun: still zero
	speed := pace{}
	for {
		select {
		case <-ctx.Done():
			fmt.Fprint(w, clearLine)
			return
		case t := <-tick:
			now := look()
			speed.add(now.Now-last.Now, now.Hops-last.Hops, t.Sub(at))
			last, at = now, t
			line := progressLine(now.Now, until, speed, now.Flows)
			// A line that wraps could not be erased.
			fmt.Fprint(w, clearLine+line[:min(len(line), max(columns()-1, 0))])
		}
	}
}

// pace is the recent speed of a run.
type pace struct {
	emulated float64 // emulated seconds per second
	hops     float64 // per second
}

// add adds one period. Older periods fade out gradually: the work per second
// varies with the traffic, and the figures should not flicker.
func (p *pace) add(emulated units.Time, hops uint64, took time.Duration) {
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

// progressLine formats the progress of a run, in ASCII. If until is units.Never the run
// ends with its flows, and how much is left is unknown. flows counts the flows of
// patterns that have ended.
func progressLine(now, until units.Time, p pace, flows uint64) string {
	line := fmt.Sprintf("%.6gs", now.Seconds())
	if until != units.Never {
		line += fmt.Sprintf(" of %.6gs (%.0f%%)", until.Seconds(), 100*now.Seconds()/until.Seconds())
	}
	if p.hops > 0 {
		line += fmt.Sprintf("  %.3g million hops/s", p.hops/1e6)
	}
	if flows > 0 {
		line += fmt.Sprintf("  %d flows done", flows)
	}
	if until != units.Never && p.emulated > 0 {
		left := time.Duration((until - now).Seconds() / p.emulated * float64(time.Second))
		line += fmt.Sprintf("  %v left", max(left, 0).Round(time.Second))
	}
	return line
}
