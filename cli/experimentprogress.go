package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/sim/units"
)

// experimentProgress shows the progress of an experiment: one line that is overwritten
// on a terminal, otherwise a line for each cell that has ended.
type experimentProgress struct {
	run      *experimentRun
	w        *os.File
	terminal bool
	begun    time.Time
	cancel   chan struct{}
	done     sync.WaitGroup

	mu      sync.Mutex
	all     int // cells
	ended   int // cells that have ended
	failed  int
	fresh   int // ended in this run
	running map[int]*running
}

// running is a running cell.
type running struct {
	experiment.Progress
	began time.Time
	hops  float64 // per second, since the start
}

func newExperimentProgress(r *experimentRun, w *os.File) *experimentProgress {
	p := &experimentProgress{run: r, w: w, terminal: isTerminal(w) && os.Getenv("TERM") != "dumb", begun: time.Now(), cancel: make(chan struct{}), running: map[int]*running{}, all: len(r.jobs)}
	for i := range r.jobs {
		if r.store.Has(r.jobs[i].Key) {
			p.ended++
		}
	}
	if p.ended > 0 {
		fmt.Fprintf(w, "weft: %d of %d cells have been run before\n", p.ended, p.all)
	}
	if p.terminal {
		p.done.Go(p.showLine)
	}
	return p
}

// stop erases the line.
func (p *experimentProgress) eraseLine() {
	close(p.cancel)
	p.done.Wait()
}

// progressEvery is the interval at which the progress of an experiment is shown.
const progressEvery = 500 * time.Millisecond

func (p *experimentProgress) showLine() {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.cancel:
			fmt.Fprint(p.w, clearLine)
			return
		case <-tick.C:
			line := p.formatLine(time.Now())
			fmt.Fprint(p.w, clearLine+line[:min(len(line), max(int(sizeOf(p.w).Columns)-1, 0))])
		}
	}
}

// formatLine formats the progress of the experiment, in ASCII.
func (p *experimentProgress) formatLine(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%d of %d cells", p.ended, p.all)
	if p.failed > 0 {
		line += fmt.Sprintf(", %d FAILED", p.failed)
	}
	hops, emulated, flows, part := 0.0, units.Time(0), uint64(0), 0.0
	for _, r := range p.running {
		hops += r.hops
		emulated += r.Now
		flows += r.Flows
		if r.Until > 0 {
			part += min(r.Now.Seconds()/r.Until.Seconds(), 1)
		}
	}
	// Assume that the remaining cells take as long on average as those run so far.
	if did := float64(p.fresh) + part; did > 0.05 {
		left := time.Duration(float64(now.Sub(p.begun)) * (float64(p.all-p.ended) - part) / did)
		line += fmt.Sprintf("  %v left", max(left, 0).Round(time.Second))
	}
	if len(p.running) > 0 {
		line += fmt.Sprintf("  %d running, %.6gs simulated  %.3g million hops/s", len(p.running), emulated.Seconds(), hops/1e6)
	}
	if flows > 0 {
		line += fmt.Sprintf("  %d flows", flows)
	}
	return line
}

// Started records that a cell has started.
func (p *experimentProgress) Started(job int, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[job] = &running{began: time.Now()}
}

// Progress records the progress of a cell.
func (p *experimentProgress) Progress(job int, x experiment.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running[job]; r != nil {
		r.Progress = x
		r.hops = float64(x.Hops) / time.Since(r.began).Seconds()
	}
}

// Ended records that a cell has ended.
func (p *experimentProgress) Ended(job int, r experiment.Result) {
	p.mu.Lock()
	delete(p.running, job)
	p.ended++
	p.fresh++
	if r.Err != nil {
		p.failed++
	}
	ended := p.ended
	p.mu.Unlock()
	text, where := "done", r.Where
	if r.Err != nil {
		text = "FAILED: " + r.Err.Error()
	}
	if where != "" {
		where = " on " + where
	}
	if p.terminal && r.Err == nil {
		return
	}
	clear := ""
	if p.terminal {
		clear = clearLine
	}
	fmt.Fprintf(p.w, "%s%d of %d  %s  %s%s (%v)\n", clear, ended, p.all, p.run.jobs[job].Name, text, where, r.Took.Round(10*time.Millisecond))
}
