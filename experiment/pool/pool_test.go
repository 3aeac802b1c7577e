package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftlab/weft/experiment"
)

// TestMain also serves as the program that runs a job: the job's lab says what it does.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_TEST_JOB") == "" {
		os.Exit(m.Run())
	}
	var j experiment.Job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		panic(err)
	}
	tell := json.NewEncoder(os.NewFile(3, "progress"))
	switch j.Lab {
	case "good":
		_ = tell.Encode(experiment.Progress{Now: 5, Hops: j.Seed})
		fmt.Fprintln(os.Stderr, "all is well")
		fmt.Print("tables of ", j.Seed)
	case "bad":
		fmt.Fprintln(os.Stderr, "weft: first line\nweft: the lab is bad\n  in two lines")
		os.Exit(1)
	case "crash":
		panic("it crashed")
	case "slow":
		time.Sleep(time.Hour)
	case "big":
		hog := make([]byte, 0)
		for {
			hog = append(hog, make([]byte, 1<<20)...)
			for i := 0; i < len(hog); i += 4096 {
				hog[i]++
			}
			time.Sleep(time.Millisecond)
		}
	}
	os.Exit(0)
}

// watcher records its calls.
type watcher struct {
	started, ended int
	progress       map[int]experiment.Progress
	results        map[int]experiment.Result
	onStart        func()
}

func (w *watcher) Started(int, string) {
	w.started++
	if w.onStart != nil {
		w.onStart()
	}
}
func (w *watcher) Progress(job int, p experiment.Progress) { w.progress[job] = p }
func (w *watcher) Ended(job int, r experiment.Result)      { w.ended++; w.results[job] = r }

func newWatcher() *watcher {
	return &watcher{progress: map[int]experiment.Progress{}, results: map[int]experiment.Result{}}
}

func testPool(t *testing.T) *Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Pool{Size: 2, Command: []string{self}, Env: append(os.Environ(), "WEFT_TEST_JOB=1")}
}

func job(lab string, seed uint64) experiment.Job {
	return experiment.Job{Work: experiment.Work{Lab: lab, Seed: seed}}
}

// TestPool_FailingJobsSpareOthers checks that each job returns its tables, that failing jobs say why, and that
// the others continue.
func TestPool_FailingJobsSpareOthers(t *testing.T) {
	slow, big := job("slow", 5), job("big", 6)
	slow.Timeout, big.Memory = time.Millisecond, 100<<20
	jobs := []experiment.Job{job("good", 1), job("bad", 2), job("crash", 3), job("good", 4), slow, big, job("good", 7)}
	w := newWatcher()
	if err := testPool(t).Run(t.Context(), jobs, w); err != nil {
		t.Fatal(err)
	}
	if w.started != len(jobs) || w.ended != len(jobs) {
		t.Errorf("%d started, %d ended of %d", w.started, w.ended, len(jobs))
	}
	for i, want := range []string{"", "the lab is bad\n  in two lines", "it crashed: panic: it crashed", "", "it took longer than 1ms", "it took more than 100MiB of memory", ""} {
		r := w.results[i]
		switch {
		case want == "" && (r.Err != nil || string(r.Tables) != fmt.Sprint("tables of ", jobs[i].Seed) || r.Log != "all is well\n" || w.progress[i].Hops != jobs[i].Seed):
			t.Errorf("job %d: %+v, %+v", i, r, w.progress[i])
		case want != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), want)):
			t.Errorf("job %d: %v, want %q", i, r.Err, want)
		}
	}
	if log := w.results[2].Log; !strings.Contains(log, "panic: it crashed") {
		t.Errorf("the log of the one that crashed: %q", log)
	}
}

// TestPool_WallClockJobsRunAloneAtTheEnd checks that jobs in wall-clock time run one by one after all others have
// ended.
func TestPool_WallClockJobsRunAloneAtTheEnd(t *testing.T) {
	var jobs []experiment.Job
	for seed := range uint64(6) {
		jobs = append(jobs, job("good", seed))
		if seed%2 == 0 {
			jobs[seed].Clock = experiment.Wall
		}
	}
	w := &order{watcher: newWatcher()}
	p := testPool(t)
	p.Size = 3
	if err := p.Run(t.Context(), jobs, w); err != nil {
		t.Fatal(err)
	}
	for i, e := range w.events[:6] {
		if jobs[e].Clock == experiment.Wall {
			t.Errorf("event %d is of job %d, before all others have ended: %v", i, e, w.events)
		}
	}
	if want := []int{0, 0, 2, 2, 4, 4}; !slices.Equal(w.events[6:], want) {
		t.Errorf("the jobs in wall-clock time began and ended as %v, want %v", w.events[6:], want)
	}
}

// TestPool_SingleWallClockJobsRunAlone checks that, if jobs are run individually, as by a worker of a cluster,
// those in wall-clock time run alone as well.
func TestPool_SingleWallClockJobsRunAlone(t *testing.T) {
	p := testPool(t)
	var all sync.WaitGroup
	for seed := range uint64(6) {
		all.Go(func() {
			j := job("good", seed)
			j.Clock = experiment.Wall
			reported := false
			r, ended := p.RunOne(t.Context(), &j, func(experiment.Progress) {
				reported = true
				if p.alone.TryRLock() {
					t.Error("another job could start while this one runs")
					p.alone.RUnlock()
				}
			})
			if r.Err != nil || !ended || !reported {
				t.Errorf("%v, %v, %v", r.Err, ended, reported)
			}
		})
	}
	all.Wait()
}

// order records which jobs start and end.
type order struct {
	*watcher
	events []int
}

func (o *order) Started(job int, where string) {
	o.events = append(o.events, job)
	o.watcher.Started(job, where)
}

func (o *order) Ended(job int, r experiment.Result) {
	o.events = append(o.events, job)
	o.watcher.Ended(job, r)
}

// TestPool_InterruptedJobsAreNotReported checks that jobs that did not end are not reported.
func TestPool_InterruptedJobsAreNotReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatcher()
	w.onStart = cancel
	err := testPool(t).Run(ctx, []experiment.Job{job("slow", 1), job("slow", 2), job("slow", 3)}, w)
	if !errors.Is(err, context.Canceled) || w.ended != 0 {
		t.Errorf("%v, %d ended", err, w.ended)
	}
}

// TestPool_MissingProgramFailsEachJob checks that each job fails if the program does not exist.
func TestPool_MissingProgramFailsEachJob(t *testing.T) {
	w := newWatcher()
	p := &Pool{Size: 1, Command: []string{"/nowhere/weft"}}
	if err := p.Run(t.Context(), []experiment.Job{job("good", 1)}, w); err != nil || w.results[0].Err == nil {
		t.Errorf("%v, %+v", err, w.results[0])
	}
}
