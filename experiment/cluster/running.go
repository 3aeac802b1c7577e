package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// running is a job that a worker has.
type running struct {
	session    *workerSession
	experiment *opened
	id         string
	message    jetstream.Msg
	since      time.Time
	alone      bool // it has cost workers, so nothing else should run beside it
	context    context.Context
	cancel     context.CancelCauseFunc
	unwatch    func() bool // stops watching for the experiment's end
	ended      sync.Once

	progress json.RawMessage // guarded by shift.mu
}

// newRunning returns a job that the server has delivered. It ends with ctx, or when its
// experiment ends.
func newRunning(ctx context.Context, s *workerSession, e *opened, m jetstream.Msg) *running {
	r := &running{session: s, experiment: e, id: jobOf(m.Subject()), message: m, since: time.Now()}
	r.context, r.cancel = context.WithCancelCause(ctx)
	r.unwatch = context.AfterFunc(e.ended, func() { r.cancel(errGone) })
	return r
}

func (r *running) jobKey() jobKey { return jobKey{r.experiment.id, r.id} }

func (r *running) tryPrefix() string { return liveSubject(r.experiment.id, r.id, "try.") }

// retryRequest repeats a request for this job's experiment until it succeeds.
func (r *running) retryRequest(what string, do func(context.Context) error) error {
	return r.session.client.retryRequest(r.context, r.experiment.id, r.session.troubleOf(what+" job "+r.id), do)
}

// finishOnce ends the job on this worker, unless it has already ended, and calls say to tell
// the server what to do with it.
func (r *running) finishOnce(say func()) {
	r.ended.Do(func() {
		r.unwatch()
		r.cancel(errGivenBack)
		s := r.session
		s.mu.Lock()
		if s.jobs[r.jobKey()] == r {
			delete(s.jobs, r.jobKey())
		}
		s.mu.Unlock()
		say()
	})
}

// yieldJob ends the job here because another worker has it.
func (r *running) yieldJob() {
	r.finishOnce(func() { r.message.NakWithDelay(r.experiment.ackWait) })
}

// returnJob ends the job and lets the server give it to another worker at once.
func (r *running) returnJob() {
	r.finishOnce(func() {
		if r.session.client.nc.IsConnected() && context.Cause(r.experiment.ended) == nil {
			// Without the record other workers do not count this as a death.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			r.experiment.stream.Purge(ctx, jetstream.WithPurgeSubject(r.tryPrefix()+r.session.info.Instance))
		}
		r.message.Nak()
	})
}

// mayRun reports whether this worker should run a job that was delivered. If not, the
// server has been told what to do with it.
func (s *workerSession) mayRun(r *running) bool {
	delivered := uint64(1)
	if meta, err := r.message.Metadata(); err == nil {
		delivered = meta.NumDelivered
	}
	if s.hasJob(r.jobKey()) {
		r.yieldJob() // this worker already has it, but reported that too late
		return false
	}
	s.mu.Lock()
	s.jobs[r.jobKey()] = r
	s.mu.Unlock()
	go r.renewClaim()
	if delivered == 1 {
		return true
	}
	run, err := s.mayRunAgain(r)
	if err != nil {
		r.returnJob()
	}
	return run
}

// renewClaim tells the server that this worker has the job until the job ends.
func (r *running) renewClaim() {
	beat := time.NewTicker(max(r.experiment.ackWait/3, time.Millisecond))
	defer beat.Stop()
	for {
		select {
		case <-r.context.Done():
			return
		case <-beat.C:
			r.message.InProgress()
		}
	}
}

// mayRunAgain decides about a job that was delivered before: it may have a result, be running
// on another worker, have killed too many workers, or be ready to run.
func (s *workerSession) mayRunAgain(r *running) (run bool, err error) {
	var tries []string
	if err := r.retryRequest("look for earlier workers of", func(ctx context.Context) error {
		info, err := r.experiment.stream.Info(ctx, jetstream.WithSubjectFilter(r.tryPrefix()+"*"))
		if err != nil {
			return err
		}
		tries = nil
		for subject := range info.State.Subjects {
			tries = append(tries, strings.TrimPrefix(subject, r.tryPrefix()))
		}
		return nil
	}); err != nil {
		return false, err
	}
	var dead []string
	for _, instance := range tries {
		switch has, alive := s.askWorker(r, instance); {
		case has:
			r.yieldJob() // it is alive; only its message was late
			return false, nil
		case !alive:
			dead = append(dead, instance)
		}
	}
	// This must come after asking the others: a worker that no longer has the job has
	// stored its result or given it back. The order matters too: a result is removed once
	// it is recorded as taken.
	for _, subject := range []string{liveSubject(r.experiment.id, r.id, "done"), takenSubject(r.experiment.id, r.id)} {
		err := r.retryRequest("look for a result of", func(ctx context.Context) error {
			_, err := r.experiment.stream.GetLastMsgForSubject(ctx, subject)
			return err
		})
		if err == nil {
			r.finishOnce(func() { r.message.Ack() })
			return false, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, err
		}
	}
	if len(dead) < r.experiment.rules.deaths {
		// A dying worker takes down the jobs that run beside it, so the last try runs
		// alone.
		r.alone = len(dead) > 0 && len(dead) == r.experiment.rules.deaths-1
		return true, nil
	}
	return false, r.failJob(dead)
}

// jobWire and hasWire are the question and the answer between workers.
type jobWire struct {
	Experiment string `json:"experiment"`
	Job        string `json:"job"`
}

type hasWire struct {
	Has bool `json:"has"`
}

// askWorker asks another worker whether it has a job. A worker that does not answer is not
// alive.
func (s *workerSession) askWorker(r *running, instance string) (has, alive bool) {
	if instance == s.info.Instance {
		return false, true
	}
	answers, err := gatherAnswers[hasWire](r.context, s.client.nc, workerPrefix+instance, jobWire{r.experiment.id, r.id}, 2*time.Second, func(hasWire) bool { return true })
	if err != nil || len(answers) == 0 {
		return false, false
	}
	return answers[0].Has, true
}

// failJob stores that a job has failed because it killed workers.
func (r *running) failJob(dead []string) error {
	var names []string
	for _, instance := range dead {
		name := instance
		if m, err := r.experiment.stream.GetLastMsgForSubject(r.context, r.tryPrefix()+instance); err == nil {
			var w WorkerInfo
			if fromJSON(m.Data, &w) {
				name = w.fullName()
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	text := fmt.Sprintf("%d workers died while they ran it: %s", len(dead), strings.Join(names, ", "))
	return r.deliverResult(label{Failed: true}, []byte(text))
}

// recordTry records that this worker has started the job.
func (r *running) recordTry() error {
	who, err := json.Marshal(r.session.info)
	if err != nil {
		return err
	}
	return r.retryRequest("note the beginning of", func(ctx context.Context) error {
		_, err := r.session.client.js.Publish(ctx, r.tryPrefix()+r.session.info.Instance, who, jetstream.WithRetryAttempts(0))
		return err
	})
}

// runAndStore runs the job and stores its result, or gives the job back.
func (r *running) runAndStore() {
	defer r.returnJob()
	if err := r.recordTry(); err != nil {
		return
	}
	job, err := r.loadJob()
	if err != nil {
		if !errors.Is(err, errGone) && r.context.Err() == nil {
			r.session.client.logNotice("worker %s: %v", r.session.info.Name, err)
			r.deliverResult(label{Failed: true}, []byte(err.Error()))
		}
		return
	}
	began := time.Now()
	output, err := r.callWorker(job)
	if r.context.Err() != nil {
		return
	}
	l := label{Took: time.Since(began)}
	if err != nil {
		l.Failed, output = true, []byte(err.Error())
	}
	r.deliverResult(l, output)
}

// loadJob reads the job's payload.
func (r *running) loadJob() (Job, error) {
	_, payload, err := r.session.client.loadPieces(r.context, r.experiment.stream, r.experiment.id, r.id, r.message.Headers(), r.message.Data())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = errGone // it has a result, or is no longer wanted
	}
	return Job{ID: r.id, Payload: payload}, err
}

// callWorker calls the worker's function.
func (r *running) callWorker(job Job) (output []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	p := &reporter{running: r}
	defer p.awaitStored()
	return r.session.run(r.context, job, p)
}

// deliverResult stores a result, unless there already is one, and finishes the job.
func (r *running) deliverResult(l label, data []byte) error {
	s := r.session
	l.Worker, l.Instance = s.info.Name, s.info.Instance
	err := s.client.storePieces(r.context, r.experiment.id, r.id, "done", l, data, s.troubleOf("store the result of job "+r.id))
	if err != nil && !isConflict(err) {
		if !errors.Is(err, errGone) && !errors.Is(err, errGivenBack) && r.context.Err() == nil {
			s.client.logNotice("worker %s: cannot store the result of job %s: %v", s.info.Name, r.id, err)
		}
		return err
	}
	s.client.nc.Publish(nudgeSubject(r.experiment.id), nil)
	// If this message is lost, the job is delivered again, and the worker that gets it
	// finds the result.
	s.client.requestOnce(r.context, r.message.DoubleAck)
	r.finishOnce(func() {})
	return nil
}

// logLines is how many log lines of each job are kept.
const logLines = 200

const (
	longestLine     = 8 << 10
	longestProgress = 4 << 10
)

// reporter sends the log and progress of a job.
type reporter struct {
	running *running
	mu      sync.Mutex
	flushed time.Time
	last    jetstream.PubAckFuture // of the last line
}

func (p *reporter) Log(line string) {
	r := p.running
	if len(line) > longestLine {
		line = line[:longestLine]
	}
	m := nats.NewMsg(logSubject(r.experiment.id, r.id))
	m.Header.Set(workerHeader, r.session.info.Name)
	m.Data = []byte(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	stored, err := r.session.client.js.PublishMsgAsync(m)
	if err != nil {
		return
	}
	p.last = stored
	nc := r.session.client.nc
	if nc.IsConnected() && time.Since(p.flushed) > 100*time.Millisecond {
		nc.FlushTimeout(time.Second)
		p.flushed = time.Now()
	}
}

// awaitStored waits until the server has stored the lines of the log, which are read with the result.
// A server that does not answer in time may have lost some.
func (p *reporter) awaitStored() {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last == nil {
		return
	}
	limit := time.NewTimer(p.running.session.client.access.Timeout)
	defer limit.Stop()
	select {
	case <-last.Ok():
	case <-last.Err():
	case <-p.running.context.Done():
	case <-limit.C:
	}
}

// workerHeader names the worker that sent a log line.
const workerHeader = "Weft-Worker"

func (p *reporter) Progress(progress any) error {
	text, err := json.Marshal(progress)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if len(text) > longestProgress {
		return fmt.Errorf("progress of %d bytes: the maximum is %d", len(text), longestProgress)
	}
	s := p.running.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p.running.progress = text
	return nil
}
