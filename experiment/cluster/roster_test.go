package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestRoster_SaysWhoComesAndGoes(t *testing.T) {
	var told []string
	r := &roster{
		experiment: "e", requirement: Requirement{Version: "1"}, workers: map[string]*heard{},
		notice: func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) },
	}
	at := time.Unix(1000, 0)
	worker := func(name, version string, jobs ...JobStatus) WorkerStatus {
		return WorkerStatus{WorkerInfo: WorkerInfo{Instance: name, Name: name, Version: version, OS: "linux", Arch: "arm64", Slots: 2}, Jobs: jobs, Heartbeat: time.Second}
	}
	leaving := worker("a", "1")
	leaving.Leaving = true
	step := func(what string, do func(), running int, names []string, say ...string) {
		t.Helper()
		told = nil
		do()
		var there []string
		for _, w := range r.listWorkers() {
			there = append(there, w.Name)
		}
		if !slices.Equal(told, say) || r.countRunning() != running || !slices.Equal(there, names) {
			t.Errorf("%s: told %q, %d running, workers %q", what, told, r.countRunning(), there)
		}
	}
	step("joins", func() {
		r.updateStatus(at, worker("a", "1", JobStatus{Experiment: "e"}, JobStatus{Experiment: "other"}))
	}, 1, []string{"a"}, "worker a has joined: 2 at once, linux/arm64")
	step("refused", func() { r.updateStatus(at, worker("b", "2")) }, 1, []string{"a", "b"}, `worker b is refused: it is version "2", not "1"`)
	step("not twice", func() { r.updateStatus(at, worker("b", "2")) }, 1, []string{"a", "b"})
	step("still there", func() { r.expireWorkers(at.Add(4 * time.Second)) }, 1, []string{"a", "b"})
	step("another word", func() { r.updateStatus(at.Add(4*time.Second), worker("b", "2")) }, 1, []string{"a", "b"})
	step("silent", func() { r.expireWorkers(at.Add(5 * time.Second)) }, 0, []string{"b"}, "worker a is silent; if it stays silent, others get its jobs")
	step("not told again", func() { r.expireWorkers(at.Add(6 * time.Second)) }, 0, []string{"b"})
	step("back", func() { r.updateStatus(at.Add(6*time.Second), worker("a", "1")) }, 0, []string{"a", "b"}, "worker a is back")
	step("leaves", func() { r.updateStatus(at, leaving) }, 0, []string{"b"}, "worker a has left")
	step("leaves twice", func() { r.updateStatus(at, leaving) }, 0, []string{"b"})
	step("forgotten", func() { r.expireWorkers(at.Add(200 * time.Second)) }, 0, nil)
}

// TestWorkerInfo_Names: a worker has a name of its own if nobody names it, and what names it in an
// error has its process.
func TestWorkerInfo_Names(t *testing.T) {
	w := WorkerInfo{Host: "node7", PID: 4711}
	w.Name = w.defaultName()
	if w.Name != "node7-4711" || w.fullName() != "node7-4711" {
		t.Errorf("%q, %q", w.Name, w.fullName())
	}
	if w.Name = "rack1"; w.fullName() != "rack1 (process 4711)" {
		t.Errorf("%q", w.fullName())
	}
}
