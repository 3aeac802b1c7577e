package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/observe/records"
)

// Run runs the jobs of an experiment that are not in the store, stores their tables, and
// measures all cells. The outcomes are in the order of the cells. If ctx ends or the
// runner fails, cells that have not ended are Missing, and Run returns the runner's error.
// It stops the runner at the first result that cannot be stored, and returns that error.
func (e *Experiment) Run(ctx context.Context, jobs []Job, store *Store, runner Runner, w Watcher) ([]Outcome, error) {
	outcomes := make([]Outcome, len(jobs))
	var left []Job
	var index []int // indices in jobs of those left
	for i := range jobs {
		b, ok, err := store.Get(jobs[i].Key)
		switch {
		case err != nil:
			return nil, err
		case ok:
			outcomes[i] = e.measureOutcome(b)
		default:
			outcomes[i].State = Missing
			left, index = append(left, jobs[i]), append(index, i)
		}
	}
	if len(left) == 0 {
		return outcomes, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	k := &keeper{Watcher: w, e: e, jobs: jobs, index: index, store: store, outcomes: outcomes, stop: stop}
	err := runner.Run(ctx, left, k)
	if k.err != nil {
		err = k.err
	}
	return outcomes, err
}

// measureOutcome measures the tables of a cell.
func (e *Experiment) measureOutcome(b table.Bundle) Outcome {
	values, err := MeasureAll(e.Measures, b)
	if err != nil {
		return Outcome{State: Failed, Error: err.Error()}
	}
	return Outcome{State: Done, Values: values, Late: explainLateness(b), Traffic: trafficFailures(b), Growth: backlogGrowth(b)}
}

// The tables and columns in which a cell says what became of its flows and transfers.
const (
	FlowsTable     = "flows"
	FlowState      = "state"
	FlowFailure    = "failure"
	TransfersTable = "transfers"
	TransferFailed = "failed_messages"
)

// trafficFailures says which of the modelled traffic of a cell failed; "" if nothing failed.
func trafficFailures(b table.Bundle) string {
	var all []string
	if t := b.Table(FlowsTable); t != nil && t.FindColumn(FlowState) != nil && t.FindColumn(FlowFailure) != nil {
		n, first := 0, ""
		for i, s := range t.FindColumn(FlowState).Texts {
			if s != records.Failed.String() {
				continue
			}
			if n++; first == "" {
				first = t.FindColumn(FlowFailure).Texts[i]
			}
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("%d of %d flows (%s)", n, t.Len(), first))
		}
	}
	if t := b.Table(TransfersTable); t != nil && t.FindColumn(TransferFailed) != nil {
		n := 0
		for _, x := range t.FindColumn(TransferFailed).Numbers {
			if x > 0 {
				n++
			}
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("messages of %d of %d transfers", n, t.Len()))
		}
	}
	return strings.Join(all, ", ")
}

// explainLateness returns why the machine did not keep up with a run; "" if it did.
func explainLateness(b table.Bundle) string {
	t := b.Table(LatenessTable)
	if t == nil || t.Len() == 0 {
		return ""
	}
	kept, verdict := t.FindColumn(LatenessKept), t.FindColumn(LatenessVerdict)
	if kept == nil || verdict == nil || kept.Numbers[0] != 0 {
		return ""
	}
	return verdict.Texts[0]
}

// keeper stores the results of jobs, and forwards calls with indices into all jobs instead
// of those left.
type keeper struct {
	Watcher
	e        *Experiment
	jobs     []Job
	index    []int
	store    *Store
	outcomes []Outcome
	stop     context.CancelCauseFunc // of the runner
	err      error                   // of the first result that could not be stored
}

// Started forwards the call.
func (k *keeper) Started(job int, where string) { k.Watcher.Started(k.index[job], where) }

// Progress forwards the call.
func (k *keeper) Progress(job int, p Progress) { k.Watcher.Progress(k.index[job], p) }

// Ended stores the result, or stops the runner if it cannot.
func (k *keeper) Ended(job int, r Result) {
	if k.err != nil {
		return // the runner is stopping
	}
	i := k.index[job]
	if r.Err == nil {
		var b table.Bundle
		if b, r.Err = table.ReadZip(r.Tables); r.Err != nil {
			r.Err = fmt.Errorf("its tables cannot be read: %w", r.Err)
		} else if err := k.store.Put(k.jobs[i].Key, r.Tables); err != nil {
			k.err = fmt.Errorf("the result of %s cannot be stored: %w", k.jobs[i].Name, err)
			k.stop(k.err)
			return
		} else {
			k.outcomes[i] = k.e.measureOutcome(b)
		}
	}
	if r.Err != nil {
		k.outcomes[i] = Outcome{State: Failed, Error: r.Err.Error(), Log: r.Log}
	}
	k.Watcher.Ended(i, r)
}
