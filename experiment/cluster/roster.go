package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// roster holds the workers that a coordinator has heard of.
type roster struct {
	experiment  string
	requirement Requirement
	notice      func(format string, args ...any)

	mu      sync.Mutex
	workers map[string]*heard // by instance
}

type heard struct {
	status WorkerStatus
	at     time.Time
	lost   bool
}

// updateStatus processes a worker's status.
func (r *roster) updateStatus(now time.Time, status WorkerStatus) {
	status.Refused = r.requirement.ExplainRefusal(status.WorkerInfo)
	r.mu.Lock()
	h := r.workers[status.Instance]
	if status.Leaving {
		delete(r.workers, status.Instance)
	} else {
		r.workers[status.Instance] = &heard{status: status, at: now}
	}
	r.mu.Unlock()
	switch {
	case h != nil && status.Leaving:
		r.notice("worker %s has left", status.Name)
	case status.Leaving:
	case h == nil && status.Refused != "":
		r.notice("worker %s is refused: it %s", status.Name, status.Refused)
	case h == nil:
		r.notice("worker %s has joined: %d at once, %s/%s", status.Name, status.Slots, status.OS, status.Arch)
	case h.lost:
		r.notice("worker %s is back", status.Name)
	}
}

// expireWorkers marks workers as lost that have been silent for four of their heartbeats,
// and forgets those that have been silent for a hundred.
func (r *roster) expireWorkers(now time.Time) {
	r.mu.Lock()
	var lost []string
	for instance, h := range r.workers {
		silent := now.Sub(h.at)
		if silent > 100*h.status.Heartbeat {
			delete(r.workers, instance)
		} else if silent > 4*h.status.Heartbeat && !h.lost {
			h.lost = true
			lost = append(lost, h.status.Name)
		}
	}
	r.mu.Unlock()
	slices.Sort(lost)
	for _, name := range lost {
		r.notice("worker %s is silent; if it stays silent, others get its jobs", name)
	}
}

// listWorkers returns the workers that are not lost.
func (r *roster) listWorkers() []WorkerStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []WorkerStatus
	for _, h := range r.workers {
		if !h.lost {
			all = append(all, h.status)
		}
	}
	sortWorkers(all)
	return all
}

// countRunning returns the number of jobs of the roster's experiment that workers have.
func (r *roster) countRunning() int {
	n := 0
	for _, w := range r.listWorkers() {
		for _, j := range w.Jobs {
			if j.Experiment == r.experiment {
				n++
			}
		}
	}
	return n
}

func sortWorkers(workers []WorkerStatus) {
	slices.SortFunc(workers, func(a, b WorkerStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
}
