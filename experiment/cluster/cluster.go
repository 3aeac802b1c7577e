// Package cluster runs jobs on many machines. A coordinator puts jobs on a NATS server with
// JetStream, workers take them, run them and store the results there, and the coordinator
// passes each result to its caller exactly once, even if any of the three is killed and
// restarted. It does not know what a job does.
//
// An experiment is a set of jobs with an id. It has two file-backed streams on the server:
//
//	weft_ID      weft.ID.live.JOB.job           the job: what a worker takes
//	             weft.ID.live.JOB.try.INSTANCE  a worker has begun; removed when it gives the job back
//	             weft.ID.live.JOB.part.NONCE.N  a piece of a long payload or result
//	             weft.ID.live.JOB.done          the result: the first one that is written counts
//	             weft.ID.taken.JOB              the coordinator's caller has the result
//	weftlog_ID   weft.ID.log.JOB                the last log lines of a job
//
// Workers share one consumer of the jobs. A worker with a job must report progress before the
// consumer's ack wait is over; otherwise the job goes to another worker. That worker asks the
// previous ones whether they still have the job, and counts those that do not answer as dead.
// Other messages (who is present, who runs what) are not stored.
//
// A result is taken when the caller's function has returned: then weft.ID.taken.JOB is written
// and everything under weft.ID.live.JOB is purged. At the end both streams are deleted.
//
// That there is one result for a job does not depend on deliveries: the server accepts
// only the first message on the subject of a result. Deliveries may be duplicated, and
// workers resolve that among themselves (running.go). Failures are counted by the recorded
// tries, not by deliveries, so Ctrl-C, slow networks and unavailable servers do not count.
package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Job is a piece of work.
type Job struct {
	// ID names the job within its experiment: a hash of everything that determines its result.
	// It consists of up to 128 letters, digits, _ and -.
	ID string
	// Payload is passed to the worker's function. It may be long.
	Payload []byte
}

// Result is the result of a job.
type Result struct {
	Job    string        // its id
	Output []byte        // what the worker's function returned, if it succeeded
	Err    string        // why the job failed; empty if it succeeded
	Log    []string      // the last log lines of a job that failed
	Worker string        // name of the worker that ran it
	Took   time.Duration // how long the worker's function ran
}

// Requirement says which workers may take an experiment's jobs. All workers meet an empty
// field.
type Requirement struct {
	Version string `json:"version,omitempty"` // set by the worker's caller: name or hash of a build
	OS      string `json:"os,omitempty"`      // as runtime.GOOS
	Arch    string `json:"arch,omitempty"`    // as runtime.GOARCH
}

// RequireThisMachine returns a requirement that only workers of this version on this kind of machine meet.
func RequireThisMachine(version string) Requirement {
	return Requirement{Version: version, OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// ExplainRefusal returns why a worker may not take the jobs, or "" if it may.
func (r Requirement) ExplainRefusal(w WorkerInfo) string {
	var wrong []string
	if r.Version != "" && r.Version != w.Version {
		wrong = append(wrong, fmt.Sprintf("is version %q, not %q", w.Version, r.Version))
	}
	if r.OS != "" && r.OS != w.OS || r.Arch != "" && r.Arch != w.Arch {
		wrong = append(wrong, fmt.Sprintf("runs on %s/%s, not %s/%s", w.OS, w.Arch, orAny(r.OS), orAny(r.Arch)))
	}
	return strings.Join(wrong, ", and ")
}

func (r Requirement) String() string {
	return fmt.Sprintf("version %q on %s/%s", orAny(r.Version), orAny(r.OS), orAny(r.Arch))
}

func orAny(s string) string {
	if s == "" {
		return "any"
	}
	return s
}

// WorkerInfo identifies a worker.
type WorkerInfo struct {
	Instance string    `json:"instance"` // unique: a restarted worker has another
	Name     string    `json:"name"`     // display name: host-PID unless its caller gave one
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	OS       string    `json:"os"`   // as runtime.GOOS
	Arch     string    `json:"arch"` // as runtime.GOARCH
	Cores    int       `json:"cores"`
	Slots    int       `json:"slots"` // jobs that it runs concurrently
	Started  time.Time `json:"started"`
}

// defaultName returns the name of a worker whose caller gave none: the host and the process, since
// a host may have several workers.
func (w *WorkerInfo) defaultName() string { return fmt.Sprintf("%s-%d", w.Host, w.PID) }

// fullName returns the name, with the process if the name does not have it.
func (w *WorkerInfo) fullName() string {
	if w.Name == w.defaultName() {
		return w.Name
	}
	return fmt.Sprintf("%s (process %d)", w.Name, w.PID)
}

// WorkerStatus is a worker and what it is doing.
type WorkerStatus struct {
	WorkerInfo
	Jobs      []JobStatus   `json:"jobs,omitempty"`
	Trouble   string        `json:"trouble,omitempty"` // what it cannot do now, such as store a result
	Heartbeat time.Duration `json:"heartbeat"`         // how often it sends its status
	Leaving   bool          `json:"leaving,omitempty"` // it has ended
	// Refused says why it takes no jobs of the coordinator's experiment. Workers do not send
	// it: the coordinator fills it in.
	Refused string `json:"-"`
}

// JobStatus is a job that a worker has.
type JobStatus struct {
	Experiment string          `json:"experiment"`
	Job        string          `json:"job"`
	Since      time.Time       `json:"since"`
	Progress   json.RawMessage `json:"progress,omitempty"` // as last reported by the job
}

// A Reporter accepts reports from a running job. Its methods may be called from several
// goroutines.
type Reporter interface {
	// Log sends a line to the coordinator. The last 200 lines of each job are kept for the
	// report of a failure; a line is truncated to 8 KiB. If the worker dies right after Log,
	// the line has been sent, unless it logs more than ten a second.
	Log(line string)
	// Progress reports how far the job is, as any value that encoding/json accepts, at most 4
	// KiB. The coordinator sees the last one at the worker's next heartbeat.
	Progress(progress any) error
}

// token matches valid ids, which can be part of a NATS subject and of a stream's name.
var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// checkID refuses ids that cannot be part of a subject. Kind is the kind of id, for the error.
func checkID(kind, id string) error {
	if !token.MatchString(id) {
		return fmt.Errorf("%s %q: an id has 1 to 128 letters, digits, _ or -", kind, id)
	}
	return nil
}

const (
	streamPrefix    = "weft_"
	logStreamPrefix = "weftlog_"
	// workersConsumer is the consumer of jobs that all workers share.
	workersConsumer = "workers"

	// Subjects of messages that are not stored.
	statusSubject       = "weft-worker.status"   // workers send their status
	askWorkersSubject   = "weft-worker.ask"      // all workers answer with their status
	workerPrefix        = "weft-worker.at."      // and an instance: does it have a job?
	coordinatorsSubject = "weft-coordinator.ask" // coordinators answer with their identity
	newsSubject         = "weft-news"            // an experiment has begun or ended
)

func streamName(experiment string) string    { return streamPrefix + experiment }
func logStreamName(experiment string) string { return logStreamPrefix + experiment }

// liveSubject returns a subject below the data that an experiment keeps for a job until its result is
// taken.
func liveSubject(experiment, job, rest string) string {
	return "weft." + experiment + ".live." + job + "." + rest
}

func takenSubject(experiment, job string) string { return "weft." + experiment + ".taken." + job }
func logSubject(experiment, job string) string   { return "weft." + experiment + ".log." + job }

// nudgeSubject is where workers announce new results.
func nudgeSubject(experiment string) string { return "weft." + experiment + ".nudge" }

// jobOf returns the job that a subject of an experiment belongs to.
func jobOf(subject string) string {
	parts := strings.Split(subject, ".")
	if len(parts) < 4 {
		return ""
	}
	return parts[3]
}
