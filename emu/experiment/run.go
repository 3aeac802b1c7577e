package experiment

import (
	"context"
	"fmt"

	"github.com/weftlab/weft/emu/experiment/table"
)

// Run runs the jobs of an experiment that the store does not have, keeps what they leave
// behind and measures all. The outcomes are those of the cells, in their order. Should ctx
// end or the runner fail, those that have not ended are Missing, and the error is that of
// the runner.
func (e *Experiment) Run(ctx context.Context, jobs []Job, store *Store, runner Runner, w Watcher) ([]Outcome, error) {
	outcomes := make([]Outcome, len(jobs))
	var left []Job
	var index []int // of those left, among all
	for i := range jobs {
		b, ok, err := store.Get(jobs[i].Key)
		switch {
		case err != nil:
			return nil, err
		case ok:
			outcomes[i] = e.outcome(b)
		default:
			outcomes[i].State = Missing
			left, index = append(left, jobs[i]), append(index, i)
		}
	}
	if len(left) == 0 {
		return outcomes, nil
	}
	k := &keeper{Watcher: w, e: e, jobs: jobs, index: index, store: store, outcomes: outcomes}
	err := runner.Run(ctx, left, k)
	if err == nil {
		err = k.err
	}
	return outcomes, err
}

// outcome measures the tables of a cell.
func (e *Experiment) outcome(b table.Bundle) Outcome {
	values, err := MeasureAll(e.Measures, b)
	if err != nil {
		return Outcome{State: Failed, Error: err.Error()}
	}
	return Outcome{State: Done, Values: values, Late: late(b)}
}

// late says why the machine did not keep up with a run; "" if it did.
func late(b table.Bundle) string {
	t := b.Table(LatenessTable)
	if t == nil || t.Len() == 0 {
		return ""
	}
	kept, verdict := t.Column(LatenessKept), t.Column(LatenessVerdict)
	if kept == nil || verdict == nil || kept.Numbers[0] != 0 {
		return ""
	}
	return verdict.Texts[0]
}

// keeper keeps the results of jobs and passes on what it is told, with the numbers of all
// jobs in place of those left.
type keeper struct {
	Watcher
	e        *Experiment
	jobs     []Job
	index    []int
	store    *Store
	outcomes []Outcome
	err      error
}

// Started passes it on.
func (k *keeper) Started(job int, where string) { k.Watcher.Started(k.index[job], where) }

// Progress passes it on.
func (k *keeper) Progress(job int, p Progress) { k.Watcher.Progress(k.index[job], p) }

// Ended keeps the result.
func (k *keeper) Ended(job int, r Result) {
	i := k.index[job]
	if r.Err == nil {
		var b table.Bundle
		if b, r.Err = table.ReadZip(r.Tables); r.Err != nil {
			r.Err = fmt.Errorf("what it left behind cannot be read: %w", r.Err)
		} else {
			if err := k.store.Put(k.jobs[i].Key, r.Tables); err != nil && k.err == nil {
				k.err = err
			}
			k.outcomes[i] = k.e.outcome(b)
		}
	}
	if r.Err != nil {
		k.outcomes[i] = Outcome{State: Failed, Error: r.Err.Error(), Log: r.Log}
	}
	k.Watcher.Ended(i, r)
}
