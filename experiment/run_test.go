package experiment

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runOneByOne is a runner of jobs that have tables at once. It ends when its context does.
type runOneByOne struct {
	before func(job int)
	ran    int
}

func (r *runOneByOne) Run(ctx context.Context, jobs []Job, w Watcher) error {
	for i := range jobs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.before(i)
		var zip bytes.Buffer
		if err := tables.WriteZip(&zip); err != nil {
			return err
		}
		w.Started(i, "")
		r.ran++
		w.Ended(i, Result{Tables: zip.Bytes()})
	}
	return nil
}

// silent ignores what it is told.
type silent struct{}

func (silent) Started(int, string)    {}
func (silent) Progress(int, Progress) {}
func (silent) Ended(int, Result)      {}

// TestRun_StopsAtTheFirstResultThatCannotBeStored: no more cells run, the error names the cell and
// the file, and what was stored before is there for the next run.
func TestRun_StopsAtTheFirstResultThatCannotBeStored(t *testing.T) {
	e, _ := example(t, func(int, int, uint64) float64 { return 1 })
	e.Measures = e.Measures[:1]
	for i := range e.Cells {
		e.Cells[i].Lab = fmt.Append(nil, "lab ", i)
	}
	jobs, dir := e.ListJobs("v1"), filepath.Join(t.TempDir(), "cells")
	store := NewStore(dir)
	inTheWay := filepath.Join(dir, jobs[2].Key+".zip")
	r := &runOneByOne{before: func(job int) {
		if job == 2 {
			if err := os.Mkdir(inTheWay, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}}
	outcomes, err := e.Run(t.Context(), jobs, store, r, silent{})
	if err == nil || !strings.Contains(err.Error(), "the result of "+jobs[2].Name+" cannot be stored: ") || !strings.Contains(err.Error(), inTheWay) {
		t.Errorf("%v", err)
	}
	if r.ran != 3 || !store.Has(jobs[0].Key) || !store.Has(jobs[1].Key) {
		t.Errorf("%d cells were run", r.ran)
	}
	for i, o := range outcomes {
		if want := map[bool]State{true: Done, false: Missing}[i < 2]; o.State != want {
			t.Errorf("cell %d: %+v, want %v", i, o, want)
		}
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	again := &runOneByOne{before: func(int) {}}
	if _, err := e.Run(t.Context(), jobs, store, again, silent{}); err != nil || again.ran != len(jobs)-2 {
		t.Errorf("again: %d cells were run, %v", again.ran, err)
	}
}
