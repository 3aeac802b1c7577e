package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/semaphore"
)

// RunFunc runs a job. Its result must depend on the job alone. An error means that the job
// failed and would fail elsewhere, too; so does a panic. The context ends when the worker
// stops or the job is no longer wanted; what the function returns after that is discarded.
type RunFunc func(context.Context, Job, Reporter) ([]byte, error)

// Worker takes jobs of all experiments on a server whose requirements it meets.
type Worker struct {
	Client  *Client
	Version string // compared with the coordinators' requirement
	Name    string // "" means host-PID
	Slots   int    // concurrent jobs; 0 means one per core
	// Heartbeat is how often the worker sends its status and looks for experiments; 0 means 2
	// s.
	Heartbeat time.Duration
	// Say is told when the worker begins to wait for experiments, joins one and leaves one; nil
	// means nobody is. It may be called from several goroutines.
	Say func(format string, args ...any)
}

// errGivenBack is the reason why jobs end when their worker stops.
var errGivenBack = errors.New("the worker has returned the job")

// Run takes jobs and runs them until ctx ends; then it gives its jobs back at once, waits for
// the functions to return, and returns nil. It returns an error if the connection is closed
// for good, as when the server refuses the credentials. While the server is away jobs
// continue, and results are stored when it is back.
func (w *Worker) Run(ctx context.Context, run RunFunc) error {
	s, err := w.newWorkerSession(run)
	if err != nil {
		return err
	}
	return s.serveJobs(ctx)
}

func (w *Worker) newWorkerSession(run RunFunc) (*workerSession, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	s := &workerSession{
		client: w.Client,
		run:    run,
		info: WorkerInfo{
			Instance: nuid.Next(), Name: w.Name, Host: host, PID: os.Getpid(), Version: w.Version,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Slots: w.Slots, Started: time.Now(),
		},
		heartbeat:   w.Heartbeat,
		say:         w.Say,
		jobs:        map[jobKey]*running{},
		experiments: map[string]*opened{},
		refused:     map[string]bool{},
		changed:     make(chan struct{}, 1),
	}
	if s.info.Name == "" {
		s.info.Name = s.info.defaultName()
	}
	if s.say == nil {
		s.say = func(string, ...any) {}
	}
	if s.info.Slots == 0 {
		s.info.Slots = runtime.GOMAXPROCS(0)
	}
	if s.heartbeat == 0 {
		s.heartbeat = 2 * time.Second
	}
	s.slots = semaphore.NewWeighted(int64(s.info.Slots))
	return s, nil
}

type jobKey struct{ experiment, job string }

// opened is an experiment whose jobs a worker may take.
type opened struct {
	id       string
	title    string
	rules    rules
	stream   jetstream.Stream
	consumer jetstream.Consumer
	ackWait  time.Duration
	// ended is done when the experiment is no longer on the server.
	ended context.Context
	end   context.CancelCauseFunc
}

// workerSession is one run of a worker.
type workerSession struct {
	client    *Client
	run       RunFunc
	info      WorkerInfo
	heartbeat time.Duration
	say       func(format string, args ...any)
	slots     *semaphore.Weighted
	changed   chan struct{} // the set of experiments has changed

	mu          sync.Mutex
	jobs        map[jobKey]*running
	experiments map[string]*opened
	refused     map[string]bool // experiments whose refusal has been reported
	trouble     string
	turn        int // whose turn it is among the experiments
}

func (s *workerSession) serveJobs(ctx context.Context) error {
	// Jobs end with ctx, or with the connection.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.client.open, func() { stop(context.Cause(s.client.open)) })()

	news := make(chan struct{}, 1)
	for subject, answer := range map[string]nats.MsgHandler{
		newsSubject:                    func(*nats.Msg) { wakeReader(news) },
		askWorkersSubject:              s.sayStatus,
		workerPrefix + s.info.Instance: s.sayWhetherItHas,
	} {
		sub, err := s.client.nc.Subscribe(subject, answer)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
	}

	var tasks, performed sync.WaitGroup
	s.say("worker %s takes %d cells at once, and waits for experiments", s.info.Name, s.info.Slots)
	tasks.Go(func() { s.sendStatusAndWatch(ctx, news) })
	tasks.Go(func() { s.takeJobs(ctx, &performed) })
	<-ctx.Done()
	s.giveAllBack()
	tasks.Wait()
	performed.Wait()
	s.publishStatus(true)
	s.client.nc.FlushTimeout(time.Second) // so that the coordinator receives it, if possible
	if err := context.Cause(s.client.open); err != nil {
		return err
	}
	return nil
}

// sendStatusAndWatch sends the worker's status and looks for experiments, until ctx ends.
func (s *workerSession) sendStatusAndWatch(ctx context.Context, news <-chan struct{}) {
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		s.findExperiments(ctx)
		s.publishStatus(false)
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-beat.C:
		}
	}
}

// findExperiments opens new experiments and closes those that are gone.
func (s *workerSession) findExperiments(ctx context.Context) {
	var streams []found
	if err := s.client.requestOnce(ctx, func(ctx context.Context) (err error) {
		streams, err = s.client.listStreams(ctx)
		return err
	}); err != nil {
		return // the server is away; the client reports that
	}
	there := map[string]bool{}
	for _, f := range streams {
		there[f.id] = true
		s.openExperiment(ctx, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.experiments {
		if !there[id] {
			e.end(errGone)
			delete(s.experiments, id)
			s.say("%s is over, or its coordinator has removed it", e.title)
		}
	}
	for id := range s.refused {
		if !there[id] {
			delete(s.refused, id)
		}
	}
}

// openExperiment starts taking an experiment's jobs if the worker meets its requirement. What fails is
// retried at the next heartbeat.
func (s *workerSession) openExperiment(ctx context.Context, f found) {
	s.mu.Lock()
	known := s.experiments[f.id]
	s.mu.Unlock()
	if known != nil {
		if known.stream.CachedInfo().Created.Equal(f.info.Created) {
			return
		}
		known.end(errGone) // it was removed and started again
	}
	r, err := rulesOf(f.info.Config.Metadata)
	refusal := ""
	if err != nil {
		refusal = err.Error()
	} else if why := r.requirement.ExplainRefusal(s.info); why != "" {
		refusal = "this worker " + why
	}
	if refusal != "" {
		s.mu.Lock()
		told := s.refused[f.id]
		s.refused[f.id] = true
		s.mu.Unlock()
		if !told {
			s.client.logNotice("experiment %s refuses worker %s: %s", f.id, s.info.Name, refusal)
		}
		return
	}
	e := &opened{id: f.id, title: cmp.Or(strings.TrimSpace(f.info.Config.Metadata[metaTitle]), f.id), rules: r}
	if s.client.requestOnce(ctx, func(ctx context.Context) (err error) {
		if e.stream, err = s.client.js.Stream(ctx, streamName(f.id)); err != nil {
			return err
		}
		e.consumer, err = e.stream.Consumer(ctx, workersConsumer)
		return err
	}) != nil {
		return
	}
	e.ackWait = e.consumer.CachedInfo().Config.AckWait
	e.ended, e.end = context.WithCancelCause(context.Background())
	s.mu.Lock()
	s.experiments[f.id] = e
	s.mu.Unlock()
	s.say("joined %s", e.title)
	wakeReader(s.changed)
}

// inTurn returns the experiments whose jobs may be taken, starting with a different one each
// time.
func (s *workerSession) inTurn() []*opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.experiments {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	all := make([]*opened, len(ids))
	for i := range ids {
		all[i] = s.experiments[ids[(i+s.turn)%len(ids)]]
	}
	s.turn++
	return all
}

// takeJobs takes a job whenever a slot is free, until ctx ends. Only this goroutine does, so
// that a job that needs all slots gets them.
func (s *workerSession) takeJobs(ctx context.Context, performed *sync.WaitGroup) {
	for {
		if s.slots.Acquire(ctx, 1) != nil {
			return
		}
		e, m := s.takeJob(ctx)
		if m == nil {
			return
		}
		r := newRunning(ctx, s, e, m)
		held := int64(1)
		begun := s.mayRun(r)
		if begun && r.alone && s.info.Slots > 1 {
			rest := int64(s.info.Slots) - 1
			if begun = s.slots.Acquire(r.context, rest) == nil; begun {
				held += rest
			} else {
				r.returnJob()
			}
		}
		if !begun {
			s.slots.Release(held)
			continue
		}
		performed.Go(func() {
			defer s.slots.Release(held)
			r.runAndStore()
		})
	}
}

// takeJob waits for a job. It returns none when ctx ends.
func (s *workerSession) takeJob(ctx context.Context) (*opened, jetstream.Msg) {
	for {
		experiments := s.inTurn()
		type request struct {
			*opened
			wait time.Duration
		}
		var requests []request
		switch len(experiments) {
		case 0:
			select {
			case <-ctx.Done():
				return nil, nil
			case <-s.changed:
			}
		case 1:
			requests = []request{{experiments[0], time.Second}}
		default:
			// Ask each without waiting; then, if none has a job, wait for the first one, but
			// not for long.
			for _, e := range experiments {
				requests = append(requests, request{e, 0})
			}
			requests = append(requests, request{experiments[0], 200 * time.Millisecond})
		}
		for _, e := range requests {
			m, err := s.fetchJob(e.opened, e.wait)
			switch {
			case m != nil && ctx.Err() == nil:
				return e.opened, m
			case m != nil:
				m.Nak()
			case err != nil: // the experiment has ended, or the server is away
				select {
				case <-ctx.Done():
				case <-time.After(min(s.heartbeat, 200*time.Millisecond)):
				}
			}
			if ctx.Err() != nil {
				return nil, nil
			}
		}
	}
}

// fetchJob requests one job and waits for it. It cannot return early: the server would count a
// job that it sends in the meantime as delivered.
func (s *workerSession) fetchJob(e *opened, wait time.Duration) (jetstream.Msg, error) {
	var batch jetstream.MessageBatch
	var err error
	if wait == 0 {
		batch, err = e.consumer.FetchNoWait(1)
	} else {
		batch, err = e.consumer.Fetch(1, jetstream.FetchMaxWait(wait))
	}
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	return nil, batch.Error()
}

// giveAllBack ends all jobs and tells the server to deliver them to others.
func (s *workerSession) giveAllBack() {
	s.mu.Lock()
	var all []*running
	for _, r := range s.jobs {
		all = append(all, r)
	}
	s.mu.Unlock()
	var wait sync.WaitGroup
	for _, r := range all {
		wait.Go(r.returnJob)
	}
	wait.Wait()
	s.client.nc.FlushTimeout(time.Second)
}

// setTrouble records what the worker cannot do, and notifies the user when that changes.
func (s *workerSession) setTrouble(trouble string) {
	s.mu.Lock()
	changed := s.trouble != trouble
	s.trouble = trouble
	s.mu.Unlock()
	if changed && trouble != "" {
		s.client.logNotice("worker %s: %s", s.info.Name, trouble)
	}
}

// workerStatus returns the worker's status.
func (s *workerSession) workerStatus() WorkerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := WorkerStatus{WorkerInfo: s.info, Trouble: s.trouble, Heartbeat: s.heartbeat}
	for _, r := range s.jobs {
		status.Jobs = append(status.Jobs, JobStatus{Experiment: r.experiment.id, Job: r.id, Since: r.since, Progress: r.progress})
	}
	slices.SortFunc(status.Jobs, func(a, b JobStatus) int { return a.Since.Compare(b.Since) })
	return status
}

func (s *workerSession) publishStatus(leaving bool) {
	status := s.workerStatus()
	status.Leaving = leaving
	s.client.publishJSON(statusSubject, status)
}

// sayStatus sends the status to whoever asked, or publishes it if there is no reply subject.
func (s *workerSession) sayStatus(m *nats.Msg) {
	s.client.publishJSON(cmp.Or(m.Reply, statusSubject), s.workerStatus())
}

// sayWhetherItHas tells another worker that was given a job whether this one has it.
func (s *workerSession) sayWhetherItHas(m *nats.Msg) {
	var key jobWire
	if fromJSON(m.Data, &key) {
		s.client.publishJSON(m.Reply, hasWire{s.hasJob(jobKey{key.Experiment, key.Job})})
	}
}

func (s *workerSession) hasJob(key jobKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[key] != nil
}

// troubleOf returns a function that records errors of a request.
func (s *workerSession) troubleOf(what string) func(error) {
	return func(err error) {
		if err == nil {
			s.setTrouble("")
		} else {
			s.setTrouble(fmt.Sprintf("cannot %s: %v; trying again", what, err))
		}
	}
}
