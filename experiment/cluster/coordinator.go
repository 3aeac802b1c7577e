package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

// Coordinator runs the jobs of an experiment on workers.
type Coordinator struct {
	Client     *Client
	Experiment string // id; a coordinator started with the same one continues the experiment
	Title      string // display name
	// Requirement says which workers may take the jobs. An experiment keeps the one that it
	// started with.
	Requirement Requirement
	// AckWait is how long a worker may be silent before its job goes to another; 0 means 30 s.
	AckWait time.Duration
	// Deaths is how many workers may die while running a job before the job fails; 0 means 3.
	// The last of them runs the job alone, so that jobs that ran beside it are not blamed. An
	// experiment keeps the number that it started with.
	Deaths int
	// Poll is how often to look for results when workers announce none; 0 means 2 s.
	Poll time.Duration
	// Log, if not nil, receives the log lines of jobs as they arrive.
	Log func(worker, job, line string)

	mu     sync.Mutex
	roster *roster
	counts Counts
}

// Counts is the progress of an experiment.
type Counts struct {
	Jobs    int // all jobs
	Before  int // results taken by earlier coordinators
	Taken   int // results taken by this one
	Failed  int // failures among Taken
	Running int // jobs that workers report having
}

// Counts returns the current counts.
func (c *Coordinator) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	if c.roster != nil {
		counts.Running = c.roster.countRunning()
	}
	return counts
}

// ListWorkers lists the workers on the server with their status, including refused ones.
func (c *Coordinator) ListWorkers() []WorkerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roster == nil {
		return nil
	}
	return c.roster.listWorkers()
}

// ErrCoordinated is wrapped by the error of a coordinator whose experiment has another
// coordinator.
var ErrCoordinated = errors.New("the experiment has another coordinator")

// Run has the jobs run and passes each result to take, one at a time, in the order in which
// they arrive. When take returns nil the result is taken: it is removed from the server, and
// no coordinator gets it again. Only if the coordinator dies between the two is it passed once
// more, to the next one; so take should store a result under its job's id. Results that an
// earlier coordinator has taken are not passed.
//
// Run returns nil when all results are taken; then nothing of the experiment is left on the
// server. If it returns an error, such as that of ctx or of take, workers continue, and so can
// Run of another Coordinator with the same id. Jobs that are not in its list are then dropped.
// A job that fails is a Result with Err, not an error of Run.
func (c *Coordinator) Run(ctx context.Context, jobs []Job, take func(Result) error) error {
	if err := c.runJobs(ctx, jobs, take); err != nil {
		return fmt.Errorf("experiment %s: %w", c.Experiment, err)
	}
	return nil
}

// session is one run of a coordinator.
type session struct {
	*Coordinator
	instance string
	stream   jetstream.Stream
	payloads map[string][]byte // of the jobs whose results are wanted
	nudges   chan struct{}
	started  bool // guarded by mu: it has the experiment, as it tells others
}

func (c *Coordinator) runJobs(ctx context.Context, jobs []Job, take func(Result) error) error {
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.Deaths == 0 {
		c.Deaths = 3
	}
	if c.Poll == 0 {
		c.Poll = 2 * time.Second
	}
	if err := checkID("experiment", c.Experiment); err != nil {
		return err
	}
	t := &session{Coordinator: c, instance: nuid.Next(), payloads: map[string][]byte{}, nudges: make(chan struct{}, 1)}
	for _, job := range jobs {
		if err := checkID("job", job.ID); err != nil {
			return err
		}
		if other, twice := t.payloads[job.ID]; twice && !bytes.Equal(other, job.Payload) {
			return fmt.Errorf("two jobs have the id %s and different payloads", job.ID)
		}
		t.payloads[job.ID] = job.Payload
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(c.Client.open, func() { stop(context.Cause(c.Client.open)) })()

	c.mu.Lock()
	c.counts = Counts{Jobs: len(t.payloads)}
	c.roster = &roster{experiment: c.Experiment, requirement: c.Requirement, notice: c.Client.logNotice, workers: map[string]*heard{}}
	c.mu.Unlock()

	unsubscribe, err := t.subscribeToQuestions()
	defer unsubscribe()
	if err != nil {
		return err
	}
	var fresh bool
	t.stream, fresh, err = c.Client.createStreams(ctx, c.Experiment, c.Title, rules{c.Requirement, c.Deaths}, c.AckWait)
	if err != nil {
		return err
	}
	if err := t.claimExperiment(ctx, fresh); err != nil {
		return err
	}
	state, err := t.resumeExperiment(ctx)
	if err != nil {
		return err
	}
	c.Client.publishJSON(newsSubject, nil)
	c.Client.publishJSON(askWorkersSubject, nil)

	// Jobs are stored while results come in.
	parts, pctx := errgroup.WithContext(ctx)
	put := make(chan struct{})
	parts.Go(func() error {
		defer close(put)
		return t.putJobs(pctx, jobs, state.jobs)
	})
	parts.Go(func() error { return t.collectResults(pctx, put, take) })
	if err := parts.Wait(); err != nil {
		return err
	}
	err = t.retryRequest(ctx, func(ctx context.Context) error { return c.Client.RemoveExperiment(ctx, c.Experiment) })
	if errors.Is(err, errGone) { // only the answer was lost
		return nil
	}
	return err
}

// subscribeToQuestions subscribes to questions for coordinators, worker status, nudges and logs.
func (t *session) subscribeToQuestions() (unsubscribe func(), err error) {
	var subs []*nats.Subscription
	unsubscribe = func() {
		for _, sub := range subs {
			sub.Unsubscribe()
		}
	}
	hear := func(m *nats.Msg) {
		var status WorkerStatus
		if fromJSON(m.Data, &status) {
			t.roster.updateStatus(time.Now(), status)
		}
	}
	handlers := map[string]nats.MsgHandler{
		coordinatorsSubject:        t.sayWho,
		statusSubject:              hear,
		nudgeSubject(t.Experiment): func(*nats.Msg) { wakeReader(t.nudges) },
	}
	if t.Log != nil {
		handlers[logSubject(t.Experiment, "*")] = func(m *nats.Msg) {
			t.Log(m.Header.Get(workerHeader), jobOf(m.Subject), string(m.Data))
		}
	}
	for subject, handle := range handlers {
		sub, err := t.Client.nc.Subscribe(subject, handle)
		if err != nil {
			return unsubscribe, err
		}
		subs = append(subs, sub)
	}
	return unsubscribe, t.Client.nc.FlushTimeout(t.Client.access.Timeout)
}

// coordinatorInfo identifies a coordinator. As a question it asks for the coordinator of
// Experiment, or for all coordinators if that is empty.
type coordinatorInfo struct {
	Experiment string `json:"experiment,omitempty"`
	Instance   string `json:"instance,omitempty"`
	Host       string `json:"host,omitempty"`
	PID        int    `json:"pid,omitempty"`
	Started    bool   `json:"started,omitempty"` // it has the experiment, and is not just asking
}

func (i coordinatorInfo) String() string { return fmt.Sprintf("process %d on %s", i.PID, i.Host) }

func (t *session) sayWho(m *nats.Msg) {
	var question coordinatorInfo
	if !fromJSON(m.Data, &question) || question.Instance == t.instance || question.Experiment != "" && question.Experiment != t.Experiment {
		return
	}
	host, _ := os.Hostname()
	t.mu.Lock()
	started := t.started
	t.mu.Unlock()
	t.Client.publishJSON(m.Reply, coordinatorInfo{t.Experiment, t.instance, host, os.Getpid(), started})
}

// claimExperiment makes sure that no other coordinator has the experiment. A coordinator that created
// the streams, and has answered questions since before that, need not ask.
func (t *session) claimExperiment(ctx context.Context, fresh bool) error {
	if !fresh {
		// If two ask at the same time, one of them continues.
		other := func(i coordinatorInfo) bool { return i.Started || i.Instance < t.instance }
		answers, err := gatherAnswers(ctx, t.Client.nc, coordinatorsSubject, coordinatorInfo{Experiment: t.Experiment, Instance: t.instance}, quiet, other)
		if err != nil {
			return err
		}
		for _, i := range answers {
			if other(i) {
				return fmt.Errorf("%w: %v", ErrCoordinated, i)
			}
		}
	}
	t.mu.Lock()
	t.started = true
	t.mu.Unlock()
	return nil
}

// resumeExperiment finds out how far the experiment is, cleans up what earlier coordinators could not,
// and leaves in payloads the jobs whose results are still to be taken.
func (t *session) resumeExperiment(ctx context.Context) (counted, error) {
	state, err := countJobs(ctx, t.stream, t.Experiment)
	if err != nil {
		return state, fmt.Errorf("cannot list its jobs: %w", err)
	}
	for job := range state.jobs {
		if _, wanted := t.payloads[job]; !wanted || state.taken[job] {
			if err := t.purgeJob(ctx, job); err != nil {
				return state, err
			}
		}
	}
	for job := range state.taken {
		if _, wanted := t.payloads[job]; wanted {
			delete(t.payloads, job)
			t.mu.Lock()
			t.counts.Before++
			t.mu.Unlock()
		}
	}
	return state, nil
}

// purgeJob removes everything that the server has of a job, except the mark that its result is
// taken.
func (t *session) purgeJob(ctx context.Context, job string) error {
	return t.retryRequest(ctx, func(ctx context.Context) error {
		return t.stream.Purge(ctx, jetstream.WithPurgeSubject(liveSubject(t.Experiment, job, ">")))
	})
}

func (t *session) retryRequest(ctx context.Context, do func(context.Context) error) error {
	return t.Client.retryRequest(ctx, t.Experiment, func(err error) {
		if err != nil {
			t.Client.logNotice("experiment %s: %v; trying again", t.Experiment, err)
		}
	}, do)
}

// putsAtOnce is how many jobs are stored concurrently.
const putsAtOnce = 32

// putJobs stores the jobs that the server does not have.
func (t *session) putJobs(ctx context.Context, jobs []Job, there map[string]bool) error {
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(putsAtOnce)
	seen := map[string]bool{}
	for _, job := range jobs {
		if !t.wantsResult(job.ID) || there[job.ID] || seen[job.ID] {
			continue
		}
		seen[job.ID] = true
		puts.Go(func() error { return t.putJob(ctx, job) })
	}
	return puts.Wait()
}

func (t *session) putJob(ctx context.Context, job Job) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := t.Client.storePieces(ctx, t.Experiment, job.ID, "job", label{}, job.Payload, func(err error) {
		if errors.Is(err, ErrStorageFull) {
			stop(err) // waiting does not help
		}
	})
	if err != nil && !isConflict(err) {
		return fmt.Errorf("cannot put job %s on the server: %w", job.ID, err)
	}
	return nil
}

// wantsResult reports whether a job's result is still to be taken.
func (t *session) wantsResult(job string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, wanted := t.payloads[job]
	return wanted
}

// collectResults takes results until none is missing.
func (t *session) collectResults(ctx context.Context, put <-chan struct{}, take func(Result) error) error {
	poll := time.NewTicker(t.Poll)
	defer poll.Stop()
	next := uint64(1) // sequence number at which to look for results
	idle := false
	for t.countMissing() > 0 {
		t.roster.expireWorkers(time.Now())
		m, err := t.nextResult(ctx, next)
		if err == nil {
			idle = false
			next = m.Sequence + 1
			if err := t.takeResult(ctx, m, take); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.nudges:
			continue
		case <-poll.C:
		}
		select {
		case <-put:
		default:
			continue
		}
		// Nothing has arrived for a while.
		if idle {
			if err := t.checkLost(ctx); err != nil {
				return err
			}
		}
		idle = true
	}
	return nil
}

func (t *session) countMissing() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.payloads)
}

// nextResult returns the first result at or after a sequence number, or
// jetstream.ErrMsgNotFound.
func (t *session) nextResult(ctx context.Context, from uint64) (*jetstream.RawStreamMsg, error) {
	var m *jetstream.RawStreamMsg
	err := t.retryRequest(ctx, func(ctx context.Context) (err error) {
		m, err = t.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(liveSubject(t.Experiment, "*", "done")))
		return err
	})
	return m, err
}

// takeResult passes a result to the caller and removes it from the server.
func (t *session) takeResult(ctx context.Context, m *jetstream.RawStreamMsg, take func(Result) error) error {
	job := jobOf(m.Subject)
	if !t.wantsResult(job) {
		return t.purgeJob(ctx, job) // it comes from a worker that was considered dead
	}
	l, data, err := t.Client.loadPieces(ctx, t.stream, t.Experiment, job, m.Header, m.Data)
	if errors.Is(err, errCorrupt) || errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Client.logNotice("experiment %s: the server has lost a part of the result of job %s (%v); storing the job again", t.Experiment, job, err)
		return t.putAgain(ctx, job)
	} else if err != nil {
		return err
	}
	result := Result{Job: job, Worker: l.Worker, Took: l.Took}
	if l.Failed {
		result.Err = string(data)
		result.Log = t.lastLog(ctx, job)
	} else {
		result.Output = data
	}
	if err := take(result); err != nil {
		return fmt.Errorf("cannot take the result of job %s: %w", job, err)
	}
	if err := t.confirmTaken(ctx, job); err != nil {
		return err
	}
	t.mu.Lock()
	delete(t.payloads, job)
	t.counts.Taken++
	if l.Failed {
		t.counts.Failed++
	}
	t.mu.Unlock()
	return t.purgeJob(ctx, job)
}

// confirmTaken records that a result is taken.
func (t *session) confirmTaken(ctx context.Context, job string) error {
	m := nats.NewMsg(takenSubject(t.Experiment, job))
	m.Data = []byte(t.instance)
	err := t.retryRequest(ctx, func(ctx context.Context) error {
		err := t.Client.publishOnce(ctx, m)
		if errors.Is(wrapStorageError(err), ErrStorageFull) {
			// Purging the result makes room. If the coordinator dies right here, the job is
			// run again.
			if err := t.stream.Purge(ctx, jetstream.WithPurgeSubject(liveSubject(t.Experiment, job, ">"))); err != nil {
				return err
			}
			return t.Client.publishOnce(ctx, m)
		}
		return err
	})
	if !isConflict(err) {
		return err
	}
	// This coordinator may have written it, and the answer was lost.
	var by *jetstream.RawStreamMsg
	if err := t.retryRequest(ctx, func(ctx context.Context) (err error) {
		by, err = t.stream.GetLastMsgForSubject(ctx, m.Subject)
		return err
	}); err != nil {
		return err
	}
	if string(by.Data) != t.instance {
		return fmt.Errorf("%w: it has taken the result of job %s", ErrCoordinated, job)
	}
	return nil
}

// lastLog returns the log lines that the server has of a job, or none on errors.
func (t *session) lastLog(ctx context.Context, job string) []string {
	ctx, cancel := context.WithTimeout(ctx, t.Client.access.Timeout)
	defer cancel()
	logs, err := t.Client.js.Stream(ctx, logStreamName(t.Experiment))
	if err != nil {
		return nil
	}
	var lines []string
	for next := uint64(1); ; {
		m, err := logs.GetMsg(ctx, next, jetstream.WithGetMsgSubject(logSubject(t.Experiment, job)))
		if err != nil {
			return lines
		}
		lines = append(lines, string(m.Data))
		next = m.Sequence + 1
	}
}

// checkLost stores jobs again that the server has lost. It finds them when no worker has a job
// and none is waiting, although results are missing. A server that lost power may forget what
// it had not written to disk.
func (t *session) checkLost(ctx context.Context) error {
	var waiting int
	err := t.retryRequest(ctx, func(ctx context.Context) error {
		consumer, err := t.Client.js.Consumer(ctx, streamName(t.Experiment), workersConsumer)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			waiting = 1 // the new consumer delivers all jobs once more
			return t.Client.createConsumer(ctx, t.Experiment, t.AckWait)
		} else if err != nil {
			return err
		}
		info := consumer.CachedInfo()
		waiting = int(info.NumPending) + info.NumAckPending
		return nil
	})
	if err != nil || waiting > 0 {
		return err
	}
	state, err := countJobs(ctx, t.stream, t.Experiment)
	if err != nil {
		return nil // try again next time
	}
	t.mu.Lock()
	var lost []string
	for job := range t.payloads {
		if !state.done[job] {
			lost = append(lost, job)
		}
	}
	t.mu.Unlock()
	for _, job := range lost {
		t.Client.logNotice("experiment %s: the server has lost job %s; storing it again", t.Experiment, job)
		if err := t.putAgain(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// putAgain stores a job as if for the first time.
func (t *session) putAgain(ctx context.Context, job string) error {
	if err := t.purgeJob(ctx, job); err != nil {
		return err
	}
	t.mu.Lock()
	payload := t.payloads[job]
	t.mu.Unlock()
	return t.putJob(ctx, Job{job, payload})
}
