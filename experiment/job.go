package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Job is a cell as its runner gets it: everything that determines its results, and its
// limits.
type Job struct {
	Work
	Key     string        `json:"key"`  // of Work and the version of weft
	Name    string        `json:"name"` // display name: "system=hpcc load=50% seed=1"
	Timeout time.Duration `json:"timeout,omitempty"`
	Memory  units.Bytes   `json:"memory,omitempty"`
}

// Work is what determines the results of a job.
type Work struct {
	Lab     string    `json:"lab"` // text of the patched lab file
	LabName string    `json:"lab_name"`
	Seed    uint64    `json:"seed"`
	Clock   Clock     `json:"clock"`
	Record  Recording `json:"record"`
	Real    *Real     `json:"real,omitempty"` // virtual: only the names and tables of its programs
}

// storeKey identifies work done by a version of weft.
func (w *Work) storeKey(version string) string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // it is plain data
	}
	sum := sha256.Sum256(append(append([]byte(version), 0), text...))
	return hex.EncodeToString(sum[:16])
}

// ListJobs returns the job of each cell, for a version of weft.
func (e *Experiment) ListJobs(version string) []Job {
	jobs := make([]Job, len(e.Cells))
	for i := range e.Cells {
		c := &e.Cells[i]
		w := Work{Lab: string(c.Lab), LabName: e.Lab, Seed: c.Seed, Clock: c.Clock, Record: e.Record, Real: e.Real.emptyPrograms()}
		if c.Clock == Wall {
			w.Real = e.Real.programsOf(e, c)
		}
		jobs[i] = Job{Work: w, Key: w.storeKey(version), Name: e.DescribeCell(c), Timeout: e.Timeout, Memory: e.Memory}
	}
	return jobs
}

// Progress is the progress of a job.
type Progress struct {
	Now   units.Time `json:"now"`   // emulated
	Until units.Time `json:"until"` // the end of the run or of its window; 0 if only its flows end it
	Hops  uint64     `json:"hops"`
	Flows uint64     `json:"flows"` // flows of patterns that have ended
}

// Result is the result of a job.
type Result struct {
	Tables []byte        // as written by table.Bundle.WriteZip; nil if it failed
	Err    error         // why it failed
	Log    string        // the end of its log
	Took   time.Duration // in real time
	Where  string        // who ran it; "" for this machine
}

// Watcher is notified of the jobs of a Runner, by index, one call at a time.
type Watcher interface {
	Started(job int, where string)
	Progress(job int, p Progress)
	Ended(job int, r Result)
}

// Runner runs jobs. Run returns when all have ended, or when ctx has: then it does not
// report the jobs that have not ended. It returns an error if it cannot continue; if a
// job fails, it reports that and continues with the others.
type Runner interface {
	Run(ctx context.Context, jobs []Job, w Watcher) error
}
