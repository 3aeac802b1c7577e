package lab

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/emu/wall"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
)

// engine is one shard of the fabric with the thread that drives it.
type engine struct {
	shard  *fabric.Shard
	driver *wall.Driver
	cpu    time.Duration // of its thread, when last read
}

// ways maps the file's I/O setting to the driver's.
var ioOf = map[plan.IO]wall.IO{plan.IOAuto: wall.Uring, plan.IOUring: wall.RequireUring, plan.IOReadWrite: wall.ReadWrite}

// makeEngines gives each shard a driver.
func (l *Lab) makeEngines() error {
	p := l.plan
	var group *wall.Group
	if n := len(l.fabric.Shards); n > 1 {
		group = wall.NewGroup(n, l.fabric.Lookahead())
	}
	for i, shard := range l.fabric.Shards {
		d, err := wall.NewDriver(shard.Engine, wall.Options{
			Spin:     p.Engine.Spin,
			Realtime: p.Engine.Realtime != plan.RealtimeOff, Require: p.Engine.Realtime == plan.RealtimeRequire,
			IO:    ioOf[p.Engine.IO],
			Limit: p.Fidelity.Limit,
		})
		if err != nil {
			return err
		}
		if group != nil {
			d.JoinGroup(group, i, shard)
		}
		l.engines = append(l.engines, &engine{shard: shard, driver: d})
	}
	return nil
}

// runEngines runs each engine on its own thread and returns when all are done.
func (l *Lab) runEngines(ctx context.Context, limit units.Time, started func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.startCPU = processCPU()
	l.clock = wall.NewClock(l.plan.Dilation)
	if l.plan.Dilation > 1 {
		if err := l.clock.ShareFile(filepath.Join(l.hosts.Dir(), netnslab.ClockFile)); err != nil {
			return err
		}
	}
	var ready, done sync.WaitGroup
	var running atomic.Int32
	errs := make([]error, len(l.engines))
	for i, e := range l.engines {
		ready.Add(1)
		done.Add(1)
		go func() {
			// The goroutine ends locked to its thread, so the thread and its
			// scheduling go with it.
			defer done.Done()
			begun := false
			errs[i] = e.driver.Run(ctx, l.clock, limit, func() {
				begun = true
				running.Add(1)
				ready.Done()
			})
			if errs[i] != nil {
				stop() // the others cannot continue without it
			}
			if !begun {
				ready.Done()
			}
			e.cpu = threadCPU()
		}()
	}
	ready.Wait()
	if int(running.Load()) == len(l.engines) {
		go started()
	}
	var helpers sync.WaitGroup
	if slices.ContainsFunc(l.engines, func(e *engine) bool { return e.driver.IsRealtime() }) {
		helpers.Go(func() { wall.KeepHelpersAhead(ctx) })
	}
	done.Wait()
	stop()
	helpers.Wait()
	l.fabric.Exchange()
	for _, a := range l.ports {
		a.endpoint.Flush(l.fabric.Now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range l.captures {
		end()
	}
	for _, s := range l.series {
		s.finishSeries()
	}
	return errors.Join(errs...)
}

// doStopped runs f while the engines do nothing else, after everything between them
// has been exchanged. After the run it returns wall.ErrStopped.
func (l *Lab) doStopped(f func()) error { return l.stopEngines(0, f) }

// stopEngines stops the engines from number i on, one inside the other, and runs f.
// All callers stop them in this order, so they cannot deadlock.
func (l *Lab) stopEngines(i int, f func()) error {
	var inner error
	err := l.engines[i].driver.Do(func() {
		l.engines[i].cpu = threadCPU()
		if i+1 < len(l.engines) {
			inner = l.stopEngines(i+1, f)
			return
		}
		if len(l.engines) > 1 {
			l.fabric.Exchange()
		}
		f()
	})
	return errors.Join(err, inner)
}

// latenessSummary returns the distribution over all engines. It must be called while
// they are held, or after the run.
func (l *Lab) latenessSummary() status.Lateness {
	drivers := make([]*wall.Driver, len(l.engines))
	for i, e := range l.engines {
		drivers[i] = e.driver
	}
	return wall.SummarizeLateness(drivers...)
}
