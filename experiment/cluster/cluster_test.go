package cluster_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/cluster/server"
	"github.com/weftlab/weft/internal/await"
)

// limit is how long a test may take, far longer than any needs. Nothing else here depends on
// the speed of the machine.
const limit = 4 * time.Minute

// quick is the interval between messages of workers and coordinators in tests.
const quick = 100 * time.Millisecond

// work is the payload of jobs in tests.
type work struct {
	Size int    // of the result
	Seed uint64 // of the result's bytes
	// How tells what else the job does:
	//   fail   it fails, after two log lines
	//   panic  it panics
	//   die    it ends its process
	//   hold   in processes with Hold set, it reports that and waits for its end
	How string
}

// output is the result of a job.
func (w work) output() []byte {
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(w.Seed), byte(w.Seed>>8), byte(w.Size)
	random := rand.NewChaCha8(seed)
	b := make([]byte, w.Size)
	random.Read(b) // never fails
	return b
}

func (w work) job() cluster.Job {
	payload, err := json.Marshal(w)
	if err != nil {
		panic(err) // all of it can be marshalled
	}
	return cluster.Job{ID: digest(payload)[:16], Payload: payload}
}

// do is the workers' function.
func do(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
	var w work
	if err := json.Unmarshal(job.Payload, &w); err != nil {
		return nil, err
	}
	report.Log(fmt.Sprintf("job of %d bytes", w.Size))
	switch w.How {
	case "fail":
		report.Log("this will not do")
		return nil, errors.New("no way")
	case "panic":
		panic("help")
	}
	return w.output(), report.Progress(map[string]int{"percent": 100})
}

// jobs returns n jobs of different sizes, some of which need several messages, and the digests
// of their results.
func jobs(n int) (all []cluster.Job, want map[string]string) {
	want = map[string]string{}
	for i := range n {
		w := work{Size: i * 10, Seed: uint64(i)}
		if i%5 == 3 {
			w.Size = 600_000 + i
		}
		all = append(all, w.job())
		want[all[i].ID] = digest(w.output())
	}
	return all, want
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// serve starts a server in this process.
func serve(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	s, err := server.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// notices collects the notices for users.
type notices struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newNotices() *notices { return &notices{more: make(chan struct{}, 1)} }

func (n *notices) tell(line string) {
	n.mu.Lock()
	n.lines = append(n.lines, line)
	n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// await waits for a notice that contains all parts. Only one goroutine may call it.
func (n *notices) await(ctx context.Context, t *testing.T, parts ...string) {
	t.Helper()
	for {
		n.mu.Lock()
		lines := slices.Clone(n.lines)
		n.mu.Unlock()
		for _, line := range lines {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return
			}
		}
		select {
		case <-n.more:
		case <-ctx.Done():
			t.Fatalf("no notice has %q in it:\n%s", parts, strings.Join(lines, "\n"))
		}
	}
}

func dial(ctx context.Context, t *testing.T, access cluster.Access) *cluster.Client {
	t.Helper()
	if access.Timeout == 0 {
		access.Timeout = 5 * time.Second
	}
	c, err := cluster.Dial(ctx, access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// background runs a worker until the test ends, or until the returned function is called.
func background(ctx context.Context, t *testing.T, w *cluster.Worker, run cluster.RunFunc) (stop func()) {
	t.Helper()
	w.Heartbeat = quick
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, run) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// bounded returns a context that limits a test.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// collected collects the results of a coordinator. A job that arrives twice is an error.
func collected(t *testing.T) (got map[string]string, take func(cluster.Result) error) {
	got = map[string]string{}
	return got, func(r cluster.Result) error {
		if _, twice := got[r.Job]; twice {
			t.Errorf("job %s has two results", r.Job)
		}
		got[r.Job] = digest(r.Output)
		if r.Err != "" {
			got[r.Job] = "failed: " + r.Err
		}
		return nil
	}
}

// sameResults compares results with those of a run in which nothing was killed.
func sameResults(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%d results, %d wanted", len(got), len(want))
		for job, sum := range want {
			if got[job] != sum {
				t.Errorf("job %s: %q, want %q", job, got[job], sum)
			}
		}
	}
}

// nothingLeft checks that nothing of any experiment is left on the server.
func nothingLeft(ctx context.Context, t *testing.T, c *cluster.Client) {
	t.Helper()
	left, err := c.ListExperiments(ctx)
	if err != nil || len(left) > 0 {
		t.Errorf("left on the server: %+v, %v", left, err)
	}
}

func TestJobs_EachHasOneResult(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	told := newNotices()
	say := func(format string, args ...any) { told.tell(fmt.Sprintf(format, args...)) }
	for i := range 2 {
		background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: fmt.Sprint("w", i), Version: "1", Slots: 2, Say: say}, do)
	}
	told.await(ctx, t, "worker w1 takes 2 cells at once")
	all, want := jobs(40)
	long := cluster.Job{ID: "long", Payload: append([]byte(`{"Size": 3, "How": "`), append(work{Size: 800_000}.output(), `"}`...)...)}
	for i, b := range long.Payload[20 : len(long.Payload)-2] { // letters, so that it is valid JSON
		long.Payload[20+i] = 'a' + b%16
	}
	all = append(all, long, all[0])
	want["long"] = digest(work{Size: 3}.output())

	c := dial(ctx, t, cluster.Access{URL: url})
	got, take := collected(t)
	coordinator := &cluster.Coordinator{Client: c, Experiment: "e", Title: "all of it", Requirement: cluster.RequireThisMachine("1"), Poll: quick}
	if err := coordinator.Run(ctx, all, take); err != nil {
		t.Fatal(err)
	}
	told.await(ctx, t, "joined all of it")
	told.await(ctx, t, "all of it is over")
	sameResults(t, got, want)
	if counts := coordinator.Counts(); counts.Jobs != 41 || counts.Taken != 41 || counts.Failed != 0 || counts.Before != 0 {
		t.Errorf("counts: %+v", counts)
	}
	nothingLeft(ctx, t, c)
}

func TestJobs_FailuresSayWhy(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: "w"}, do)
	var logMu sync.Mutex
	logged := map[string][]string{}
	c := &cluster.Coordinator{
		Client: dial(ctx, t, cluster.Access{URL: url}), Experiment: "e", Poll: quick,
		Log: func(worker, job, line string) {
			logMu.Lock()
			defer logMu.Unlock()
			logged[job] = append(logged[job], worker+": "+line)
		},
	}
	fail, panics, good := work{Size: 7, How: "fail"}.job(), work{Size: 8, How: "panic"}.job(), work{Size: 9}.job()
	results := map[string]cluster.Result{}
	if err := c.Run(ctx, []cluster.Job{fail, panics, good}, func(r cluster.Result) error {
		results[r.Job] = r
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if r := results[fail.ID]; r.Err != "no way" || !slices.Equal(r.Log, []string{"job of 7 bytes", "this will not do"}) || r.Output != nil || r.Worker != "w" {
		t.Errorf("failure: %+v", r)
	}
	if r := results[panics.ID]; !strings.Contains(r.Err, "panic: help") || !strings.Contains(r.Err, "cluster_test.go") {
		t.Errorf("panic: %q", r.Err)
	}
	if r := results[good.ID]; r.Err != "" || digest(r.Output) != digest(work{Size: 9}.output()) || r.Log != nil {
		t.Errorf("success: %+v", r)
	}
	logMu.Lock()
	defer logMu.Unlock()
	if !slices.Equal(logged[fail.ID], []string{"w: job of 7 bytes", "w: this will not do"}) {
		t.Errorf("log: %q", logged)
	}
}

// TestWorker_GivesItsJobsBackWhenItStops checks that a worker that stops hands over its jobs although the ack
// wait is long, and that this does not count as a death.
func TestWorker_GivesItsJobsBackWhenItStops(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	began := make(chan struct{}, 10)
	stop := background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: "first", Slots: 3}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		began <- struct{}{}
		<-ctx.Done()
		return []byte("half"), nil
	})
	all, want := jobs(3)
	var told notices
	c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url, Notice: told.tell}), Experiment: "e", Poll: quick, AckWait: time.Hour, Deaths: 1}
	got, take := collected(t)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, all, take) }()
	for range all {
		<-began
	}
	stop()
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: "second"}, do)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
	told.await(ctx, t, "worker first has left")
}

func TestWorker_OfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]struct {
		version string
		needs   cluster.Requirement
		why     string
	}{
		"version":      {"v2", cluster.RequireThisMachine("v1"), `is version "v2", not "v1"`},
		"architecture": {"v1", cluster.Requirement{Version: "v1", Arch: "pdp11"}, "not any/pdp11"},
		"system":       {"v1", cluster.Requirement{OS: "multics"}, "not multics/any"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			url := serve(t, server.Options{}).URLs()[0]
			atWorker, atCoordinator := newNotices(), newNotices()
			background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url, Notice: atWorker.tell}), Name: "stranger", Version: other.version},
				func(context.Context, cluster.Job, cluster.Reporter) ([]byte, error) {
					t.Error("the stranger was given a job")
					return nil, nil
				})
			c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url, Notice: atCoordinator.tell}), Experiment: "e", Requirement: other.needs, Poll: quick}
			all, _ := jobs(3)
			run, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- c.Run(run, all, func(cluster.Result) error { return errors.New("a result") }) }()
			atWorker.await(ctx, t, "experiment e refuses worker stranger", other.why)
			atCoordinator.await(ctx, t, "worker stranger is refused", other.why)
			if w := c.ListWorkers(); len(w) != 1 || !strings.Contains(w[0].Refused, other.why) {
				t.Errorf("workers: %+v", w)
			}
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("coordinator: %v", err)
			}
		})
	}
}

// TestExperiment_AbandonedCanBeContinuedOrRemoved checks that an abandoned experiment is listed, can be continued with the same
// requirement, and can be removed, which ends its running jobs.
func TestExperiment_AbandonedCanBeContinuedOrRemoved(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	client := dial(ctx, t, cluster.Access{URL: url})
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: "w", Version: "1", Slots: 1}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		if job.ID != "stuck" {
			return do(ctx, job, report)
		}
		if err := report.Progress(map[string]int{"percent": 40}); err != nil {
			t.Error(err)
		}
		if report.Progress(strings.Repeat("x", 5000)) == nil {
			t.Error("progress of 5000 bytes is taken")
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	all, _ := jobs(3)
	all = append(all[:2:2], cluster.Job{ID: "stuck"}, all[2])
	coordinate := func(ctx context.Context, version string) (*cluster.Coordinator, chan error) {
		c := &cluster.Coordinator{Client: client, Experiment: "e", Title: "an experiment", Requirement: cluster.RequireThisMachine(version), Poll: quick}
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, all, func(cluster.Result) error { return nil }) }()
		return c, done
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	c, done := coordinate(run, "1")
	<-began

	// The worker's jobs are visible, to the coordinator and to other clients.
	await.True(t, "a status of the worker with its job, for all", func() bool {
		w := c.ListWorkers()
		others, err := client.ListWorkers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(w) == 1 && len(w[0].Jobs) == 1 && string(w[0].Jobs[0].Progress) == `{"percent":40}` && w[0].Jobs[0].Job == "stuck" &&
			len(others) == 1 && others[0].Name == "w" && len(others[0].Jobs) == 1 && c.Counts().Running == 1
	})

	if _, second := coordinate(ctx, "1"); true {
		if err := <-second; !errors.Is(err, cluster.ErrCoordinated) {
			t.Errorf("a second coordinator: %v", err)
		}
	}
	left, err := client.ListExperiments(ctx)
	if err != nil || len(left) != 1 || left[0].Coordinator == "" {
		t.Errorf("experiments: %+v, %v", left, err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("coordinator: %v", err)
	}
	if _, other := coordinate(ctx, "2"); true {
		if err := <-other; err == nil || !strings.Contains(err.Error(), `it was started for workers of version "1"`) {
			t.Errorf("a coordinator of another version: %v", err)
		}
	}
	left, err = client.ListExperiments(ctx)
	if err != nil || len(left) != 1 || left[0].ID != "e" || left[0].Title != "an experiment" || left[0].Coordinator != "" ||
		left[0].Jobs != 4 || left[0].Bytes == 0 || left[0].Requirement != cluster.RequireThisMachine("1") {
		t.Errorf("experiments: %+v, %v", left, err)
	}
	if err := client.RemoveExperiment(ctx, "e"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the job of an experiment that was removed runs on")
	}
	nothingLeft(ctx, t, client)
	if err := client.RemoveExperiment(ctx, "e"); err == nil {
		t.Error("what is not there can be removed")
	}
}

// TestJobs_UnwantedAreDropped checks that jobs that the next coordinator does not want are not
// run, and that results that the first has taken are not passed again.
func TestJobs_UnwantedAreDropped(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	client := dial(ctx, t, cluster.Access{URL: url})
	all, want := jobs(10)
	unwanted := []string{all[8].ID, all[9].ID}
	stopped := errors.New("enough")
	stop := background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Slots: 3}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		if slices.Contains(unwanted, job.ID) {
			<-ctx.Done()
		}
		return do(ctx, job, report)
	})
	first := &cluster.Coordinator{Client: client, Experiment: "e", Poll: quick}
	var before []string
	err := first.Run(ctx, all, func(r cluster.Result) error {
		if len(before) == 3 {
			return stopped
		}
		before = append(before, r.Job)
		return nil
	})
	if !errors.Is(err, stopped) {
		t.Fatalf("coordinator: %v", err)
	}
	stop()

	got, take := collected(t)
	second := &cluster.Coordinator{Client: client, Experiment: "e", Poll: quick}
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx, all[:8], take) }()
	// Wait until the unwanted jobs are gone. If the first worker was quick, nothing is left to
	// do: then the experiment ends and is gone as well.
	await.True(t, "the end of the unwanted jobs", func() bool {
		left, err := client.ListExperiments(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 1 && left[0].Jobs == 8 || len(left) == 0
	})
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url})}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		if slices.Contains(unwanted, job.ID) {
			t.Errorf("job %s is run", job.ID)
		}
		return do(ctx, job, report)
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, job := range append(unwanted, before...) {
		delete(want, job)
	}
	sameResults(t, got, want)
	if counts := second.Counts(); counts.Taken != 5 || counts.Before != 3 {
		t.Errorf("counts: %+v", counts)
	}
	nothingLeft(ctx, t, client)
}

// TestStorage_FullIsReportedAndWaitedFor checks that a client that cannot store anything reports that, and continues
// when there is room. A result that has been passed on makes room itself.
func TestStorage_FullIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{MaxStore: 3 << 20}).URLs()[0]
	client := dial(ctx, t, cluster.Access{URL: url})
	fill := func() {
		big := cluster.Job{ID: "big", Payload: work{Size: 4 << 20}.output()}
		err := (&cluster.Coordinator{Client: client, Experiment: "big", Poll: quick}).Run(ctx, []cluster.Job{big}, nil)
		if !errors.Is(err, cluster.ErrStorageFull) {
			t.Errorf("a payload larger than the storage: %v", err)
		}
	}
	told := newNotices()
	began, gate := make(chan struct{}), make(chan struct{})
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url, Notice: told.tell}), Name: "w", Version: "1"}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		close(began)
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return do(ctx, job, report)
	})
	w := work{Size: 1 << 20}
	got, take := collected(t)
	done := make(chan error, 1)
	go func() {
		done <- (&cluster.Coordinator{Client: client, Experiment: "e", Poll: quick}).Run(ctx, []cluster.Job{w.job()}, func(r cluster.Result) error {
			fill()
			return take(r)
		})
	}()
	select {
	case <-began:
	case err := <-done:
		t.Fatal(err)
	}
	fill()
	close(gate)
	told.await(ctx, t, "worker w: cannot store the result of job "+w.job().ID, "storage is full")
	if err := client.RemoveExperiment(ctx, "big"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, map[string]string{w.job().ID: digest(w.output())})
}

func TestIDs_BadAreRefused(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	client := dial(ctx, t, cluster.Access{URL: serve(t, server.Options{}).URLs()[0]})
	for want, run := range map[string]func() error{
		`experiment "a.b"`: func() error { return (&cluster.Coordinator{Client: client, Experiment: "a.b"}).Run(ctx, nil, nil) },
		`job "*"`: func() error {
			return (&cluster.Coordinator{Client: client, Experiment: "e"}).Run(ctx, []cluster.Job{{ID: "*"}}, nil)
		},
		"two jobs have the id j": func() error {
			return (&cluster.Coordinator{Client: client, Experiment: "e"}).Run(ctx, []cluster.Job{{ID: "j"}, {ID: "j", Payload: []byte("x")}}, nil)
		},
		`experiment ""`: func() error { return client.RemoveExperiment(ctx, "") },
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
