// Package remote runs the cells of an experiment on other machines: jobs, results, logs
// and progress are exchanged through a NATS server.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/pool"
)

// Runner runs jobs on the workers of a NATS server.
type Runner struct {
	Client  *cluster.Client
	ID      string // of the experiment on the server: a runner with the same ID continues it
	Title   string // display name of the experiment
	Version string // version of weft: workers with another one are refused
	// Failed receives the error of a server that can no longer store anything, which ends Run. It is
	// nil if the server's errors are not known.
	Failed <-chan error
}

// Run runs the jobs. It continues what a killed coordinator has left on the server.
func (r *Runner) Run(ctx context.Context, jobs []experiment.Job, w experiment.Watcher) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case err := <-r.Failed:
			end(err)
		case <-ctx.Done():
		}
	}()
	index := map[string]int{}
	var all []cluster.Job
	for i := range jobs {
		payload, err := json.Marshal(&jobs[i])
		if err != nil {
			return err
		}
		index[jobs[i].Key] = i
		all = append(all, cluster.Job{ID: jobs[i].Key, Payload: payload})
	}
	c := &cluster.Coordinator{Client: r.Client, Experiment: r.ID, Title: r.Title, Requirement: cluster.RequireThisMachine(r.Version)}
	var told sync.Mutex
	stop := reportProgress(c, index, w, &told)
	defer stop()
	err := c.Run(ctx, all, func(result cluster.Result) error {
		i, ok := index[result.Job]
		if !ok {
			return nil // of a form of the experiment that is no longer wanted
		}
		out := experiment.Result{Tables: result.Output, Log: strings.Join(result.Log, "\n"), Took: result.Took, Where: result.Worker}
		if result.Err != "" {
			out.Err = errors.New(result.Err)
		}
		told.Lock()
		defer told.Unlock()
		w.Ended(i, out)
		return ctx.Err() // w may have ended ctx, without storing the result: the server must not remove it
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// followEvery is how often the progress of workers is reported.
const followEvery = time.Second

// reportProgress reports what workers do until stop is called.
func reportProgress(c *cluster.Coordinator, index map[string]int, w experiment.Watcher, told *sync.Mutex) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		begun := map[int]bool{}
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			told.Lock()
			for _, worker := range c.ListWorkers() {
				for _, j := range worker.Jobs {
					i, ok := index[j.Job]
					if !ok {
						continue
					}
					if !begun[i] {
						begun[i] = true
						w.Started(i, worker.Name)
					}
					var p experiment.Progress
					if json.Unmarshal(j.Progress, &p) == nil {
						w.Progress(i, p)
					}
				}
			}
			told.Unlock()
		}
	})
	return func() { close(done); all.Wait() }
}

// Run returns a worker's function, which runs each job in its own process. say is told when a cell
// begins and how it ends; nil means nobody is.
func Run(p *pool.Pool, say func(format string, args ...any)) cluster.RunFunc {
	if say == nil {
		say = func(string, ...any) {}
	}
	return func(ctx context.Context, j cluster.Job, report cluster.Reporter) ([]byte, error) {
		var job experiment.Job
		if err := json.Unmarshal(j.Payload, &job); err != nil {
			return nil, err
		}
		say("runs %s", job.Name)
		r, ended := p.RunOne(ctx, &job, func(x experiment.Progress) { _ = report.Progress(x) })
		took := r.Took.Round(10 * time.Millisecond)
		switch {
		case !ended:
			say("gave back %s", job.Name)
			return nil, ctx.Err()
		case r.Err != nil:
			say("FAILED %s: %v (%v)", job.Name, r.Err, took)
		default:
			say("done %s (%v)", job.Name, took)
		}
		for line := range strings.Lines(r.Log) {
			report.Log(strings.TrimRight(line, "\n"))
		}
		return r.Tables, r.Err
	}
}
