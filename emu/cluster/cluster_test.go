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

	"github.com/weftlab/weft/emu/cluster"
	"github.com/weftlab/weft/emu/cluster/server"
)

// limit is how long a test may take: far more than any needs. Nothing else here depends
// on how fast the machine is.
const limit = 4 * time.Minute

// quick is how often workers and coordinators of tests say something.
const quick = 100 * time.Millisecond

// work is the payload of the jobs of tests.
type work struct {
	Size int    // of the result
	Seed uint64 // of the result's bytes
	// How tells what else the job does:
	//   fail   it fails, after two log lines
	//   panic  it panics
	//   die    it ends its process
	//   hold   in processes that are told to, it says so and waits for its end
	How string
}

// output is the result of a job.
func (w work) output() []byte {
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(w.Seed), byte(w.Seed>>8), byte(w.Size)
	random := rand.NewChaCha8(seed)
	b := make([]byte, w.Size)
	random.Read(b) // does not fail
	return b
}

func (w work) job() cluster.Job {
	payload, err := json.Marshal(w)
	if err != nil {
		panic(err) // it has nothing that cannot be JSON
	}
	return cluster.Job{ID: digest(payload)[:16], Payload: payload}
}

// do is the function of workers.
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

// jobs are n jobs of different sizes, some of which need several messages, and the
// digests of their results.
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

// notices collects what people are told.
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

// await waits for a notice with all of these in it. One goroutine may call it.
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

// background runs a worker until the test ends, or until the function that it gives is called.
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

// bounded is a context for a test.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// collected is the results of a coordinator. A job that comes twice is an error.
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

// nothingLeft checks that the server has nothing of any experiment.
func nothingLeft(ctx context.Context, t *testing.T, c *cluster.Client) {
	t.Helper()
	left, err := c.Experiments(ctx)
	if err != nil || len(left) > 0 {
		t.Errorf("left on the server: %+v, %v", left, err)
	}
}

func TestEachJobHasOneResult(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	for i := range 2 {
		background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Name: fmt.Sprint("w", i), Version: "1", Slots: 2}, do)
	}
	all, want := jobs(40)
	long := cluster.Job{ID: "long", Payload: append([]byte(`{"Size": 3, "How": "`), append(work{Size: 800_000}.output(), `"}`...)...)}
	for i, b := range long.Payload[20 : len(long.Payload)-2] { // letters, so that it is JSON
		long.Payload[20+i] = 'a' + b%16
	}
	all = append(all, long, all[0])
	want["long"] = digest(work{Size: 3}.output())

	c := dial(ctx, t, cluster.Access{URL: url})
	got, take := collected(t)
	coordinator := &cluster.Coordinator{Client: c, Experiment: "e", Requirement: cluster.Here("1"), Poll: quick}
	if err := coordinator.Run(ctx, all, take); err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
	if counts := coordinator.Counts(); counts.Jobs != 41 || counts.Taken != 41 || counts.Failed != 0 || counts.Before != 0 {
		t.Errorf("counts: %+v", counts)
	}
	nothingLeft(ctx, t, c)
}
