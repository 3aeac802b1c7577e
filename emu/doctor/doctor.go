// Package doctor examines a machine and predicts what labs it can run. It measures
// how precisely a thread can sleep, what a packet through a pair of devices costs,
// and how fast the engine is in virtual time.
//
// All that it creates (namespaces, devices, sockets) is held by descriptors and
// threads of the process and has no name, so the kernel removes it when the process
// ends in any way. Trying a feature may make the kernel load its module; the module stays.
package doctor

import (
	"context"
	"fmt"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

// Options are the options of an examination.
type Options struct {
	// Quick measures for about a second instead of eight: rougher figures.
	Quick bool
	// Self is a command that calls RunInside with the same options. It is run in a
	// user namespace if this process may not create network namespaces. Without
	// Self that part is left out.
	Self []string
	// Plan is a lab whose dilation is to be estimated; nil means none.
	Plan *plan.Plan
}

// Result is all that was found. It is what `weft doctor --json` prints.
type Result struct {
	Quick    bool    `json:"quick"`
	Verdict  Verdict `json:"verdict"` // bad: something that labs need is missing
	Summary  string  `json:"summary"`
	Checks   []Check `json:"checks"`
	Measured `json:"measured"`
	LeftOut  []LeftOut  `json:"left_out,omitempty"` // what was not measured
	Predict  Prediction `json:"prediction"`
	Need     *Need      `json:"need,omitempty"` // of Options.Plan
}

// Measured holds the measurements; nil means that one was left out.
type Measured struct {
	ClockRead units.Time   `json:"clock_read"`           // reading the clock once
	Sleep     *Sleep       `json:"sleep,omitempty"`      // ordinary scheduling
	SleepFIFO *Sleep       `json:"sleep_fifo,omitempty"` // with SCHED_FIFO
	WakeUp    *units.Time  `json:"wake_up,omitempty"`    // from a write to the return of the other thread
	Devices   *Devices     `json:"devices,omitempty"`
	Virtual   *VirtualTime `json:"virtual,omitempty"`
}

// LeftOut is a measurement that could not be made.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"` // with the fix
}

// Run examines this machine. Only the end of ctx is an error; failed
// measurements are listed in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Quick: o.Quick}
	leave := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			r.LeftOut = append(r.LeftOut, LeftOut{what, err.Error()})
		}
	}
	m := thisMachine()
	static := m.runChecks() // first, so that the measurements do not add to the load
	e := effortOf(o)

	r.ClockRead = clockRead()
	var err error
	r.Sleep, err = measureSleep(ctx, wall.Ordinary, e)
	leave(sleepOrdinary, err)
	r.SleepFIFO, err = measureSleep(ctx, wall.Realtime, e)
	leave("sleep, SCHED_FIFO", err)
	r.WakeUp, err = wakeUp(ctx, e)
	leave(wakeUpOfThread, err)
	in, err := examineInside(ctx, o)
	if err != nil {
		leave("packets through devices; kernel features", err)
	} else {
		r.Devices = in.Devices
		r.LeftOut = append(r.LeftOut, in.LeftOut...)
	}
	r.Virtual, err = virtualTime(ctx, e)
	leave(virtualSpeed, err)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	r.Checks = append(static, featureChecks(in)...)
	sortChecks(r.Checks)
	r.Predict = predictRates(&r.Measured, m.measureRoom())
	if o.Plan != nil {
		n := NeedOf(o.Plan, &r.Predict)
		r.Need = &n
	}
	r.setVerdict()
	return r, nil
}
