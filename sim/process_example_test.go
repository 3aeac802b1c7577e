package sim_test

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// device finishes one piece of work at a time and signals it.
type device struct {
	timer    sim.Timer
	finished int
	done     sim.Cond
}

func (d *device) start(now units.Time) { d.timer.Arm(now + 3*units.Microsecond) }

// Fire is called by the engine.
func (d *device) Fire(units.Time) {
	d.finished++
	d.done.Broadcast()
}

// A program drives a device in virtual time: it gives the device work, waits for the
// completion, and thinks before it gives it more.
func ExampleEngine_Go() {
	var e sim.Engine
	d := &device{}
	d.timer = e.NewTimer(d)
	e.Go("program", func(p *sim.Process) {
		for want := 1; want <= 2; want++ {
			d.start(p.Now())
			for d.finished < want {
				d.done.Wait(p, units.Never)
			}
			fmt.Println(p.Now(), "completion", want)
			p.Sleep(10 * units.Microsecond)
		}
		if !d.done.Wait(p, units.Millisecond) {
			fmt.Println(p.Now(), "nothing more")
		}
	})
	e.Go("watcher", func(p *sim.Process) {
		defer fmt.Println("the watcher leaves")
		for {
			d.done.Wait(p, units.Never)
			fmt.Println(p.Now(), "the watcher saw it too")
		}
	})
	e.Run(units.Second, math.MaxInt)
	e.StopProcesses()
	// Output:
	// 3us completion 1
	// 3us the watcher saw it too
	// 16us the watcher saw it too
	// 16us completion 2
	// 1.026ms nothing more
	// the watcher leaves
}
