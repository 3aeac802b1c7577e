package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/cluster/server"
)

// roleVariable makes the test binary a worker, a coordinator or a server.
const roleVariable = "WEFT_CLUSTER_TEST_ROLE"

// role is what a test process does.
type role struct {
	Is  string // worker, coordinator, server
	URL string // of the server; for a server its listen address, as HOST:PORT

	Name    string // of a worker
	Slots   int
	Hold    bool   // whether jobs with hold do hold
	Beside  bool   // jobs with die wait for one with hold
	Dir     string // of a server's files, or a coordinator's results
	Jobs    int    // of a coordinator
	HoldAt  int    // a coordinator holds at this result, counted from 1
	Stored  bool   // it has stored that result before holding
	AckWait time.Duration
}

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	// A test process ends with the test, however the test ends: its standard input is
	// closed.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.play()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("finished")
}

func (r role) play() error {
	ctx := context.Background()
	if r.Is == "server" {
		s, err := server.Serve(server.Options{Dir: r.Dir, Address: r.URL})
		if err != nil {
			return err
		}
		fmt.Println("serving", s.URLs()[0])
		select {}
	}
	client, err := cluster.Dial(ctx, cluster.Access{URL: r.URL, Timeout: 5 * time.Second, Notice: func(line string) { fmt.Println("notice", line) }})
	if err != nil {
		return err
	}
	if r.Is == "worker" {
		held := make(chan struct{}, 100)
		w := &cluster.Worker{Client: client, Name: r.Name, Version: "1", Slots: r.Slots, Heartbeat: quick}
		return w.Run(ctx, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
			var w work
			if err := json.Unmarshal(job.Payload, &w); err != nil {
				return nil, err
			}
			switch {
			case w.How == "hold" && r.Hold:
				fmt.Println("holding", job.ID)
				held <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			case w.How == "pause" && r.Hold: // until the test has stopped and resumed the process
				resumed := make(chan os.Signal, 1)
				signal.Notify(resumed, syscall.SIGCONT)
				fmt.Println("holding", job.ID)
				<-resumed
			case w.How == "die":
				report.Log("about to die")
				if r.Beside {
					<-held
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return do(ctx, job, report)
		})
	}
	return r.coordinate(ctx, client)
}

// coordinate runs jobs and stores their results in files.
func (r role) coordinate(ctx context.Context, client *cluster.Client) error {
	all, _ := jobs(r.Jobs)
	n := 0
	hold := func() {
		fmt.Println("holding")
		select {}
	}
	c := &cluster.Coordinator{Client: client, Experiment: "e", Requirement: cluster.RequireThisMachine("1"), Poll: quick, AckWait: r.AckWait}
	return c.Run(ctx, all, func(result cluster.Result) error {
		n++
		if n == r.HoldAt && !r.Stored {
			hold()
		}
		if result.Err != "" {
			return fmt.Errorf("job %s: %s", result.Job, result.Err)
		}
		// The list records how often each result was stored.
		list, err := os.OpenFile(filepath.Join(r.Dir, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(list, result.Job, digest(result.Output)); err != nil {
			return err
		}
		if err := list.Close(); err != nil {
			return err
		}
		if n == r.HoldAt {
			hold()
		}
		return nil
	})
}

// process is a test process.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	said  []string
	kill  func() // also waits for its end
}

// start starts a process with a role. It ends with the test.
func start(t *testing.T, r role) *process {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 10_000)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	p.kill = sync.OnceFunc(func() {
		p.cmd.Process.Kill() // SIGKILL
		<-read
		p.cmd.Wait()
		stdin.Close()
	})
	t.Cleanup(p.kill)
	return p
}

// await waits until the process prints a line that begins with a word, and returns the
// rest.
func (p *process) await(ctx context.Context, word string) string {
	p.t.Helper()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process has ended, and has not said %q:\n%s", word, strings.Join(p.said, "\n"))
			}
			p.said = append(p.said, line)
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest)
			}
		case <-ctx.Done():
			p.t.Fatalf("the process has not said %q:\n%s", word, strings.Join(p.said, "\n"))
		}
	}
}

// end waits until the process ends by itself.
func (p *process) end(ctx context.Context) {
	p.t.Helper()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.kill()
				return
			}
			p.said = append(p.said, line)
		case <-ctx.Done():
			p.t.Fatalf("the process does not end:\n%s", strings.Join(p.said, "\n"))
		}
	}
}

// ownAddress returns a loopback address, with any port, at which no other test starts a server: one
// that is restarted finds its port free.
func ownAddress() string {
	n := addresses.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:0", os.Getpid()>>8&0xff, os.Getpid()&0xff, 1+n)
}

var addresses atomic.Uint32

// startServer starts a server process, at a free port the first time.
func startServer(ctx context.Context, t *testing.T, dir, address string) (p *process, url string) {
	t.Helper()
	p = start(t, role{Is: "server", Dir: dir, URL: address})
	return p, p.await(ctx, "serving ")
}

// stored reads what coordinator processes have stored, and how often.
func stored(t *testing.T, dir string) (got map[string]string, times map[string]int) {
	t.Helper()
	got, times = map[string]string{}, map[string]int{}
	text, err := os.ReadFile(filepath.Join(dir, "list"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		job, sum, _ := strings.Cut(strings.TrimSpace(line), " ")
		if got[job] != "" && got[job] != sum {
			t.Errorf("job %s has different results", job)
		}
		got[job] = sum
		times[job]++
	}
	return got, times
}

// once checks that each result was stored once, except for at most twice of them that were
// stored twice.
func once(t *testing.T, times map[string]int, twice int) {
	t.Helper()
	for job, n := range times {
		if n == 2 && twice > 0 {
			twice--
		} else if n != 1 {
			t.Errorf("job %s was stored %d times", job, n)
		}
	}
}

func TestKilledWorker_LosesNoJob(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	first := start(t, role{Is: "worker", URL: url, Slots: 2, Hold: true})

	all, want := jobs(10)
	for i := range 2 {
		w := work{Size: 1000, Seed: 77 + uint64(i), How: "hold"}
		all = append(all, w.job())
		want[all[len(all)-1].ID] = digest(w.output())
	}
	c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url}), Experiment: "e", Poll: quick, AckWait: time.Second}
	got, take := collected(t)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, all, take) }()

	first.await(ctx, "holding")
	first.await(ctx, "holding")
	first.kill()
	start(t, role{Is: "worker", URL: url, Slots: 2})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
}

func TestKilledCoordinator_NextOneContinues(t *testing.T) {
	t.Parallel()
	for _, afterwards := range []bool{false, true} {
		t.Run(fmt.Sprint("stored=", afterwards), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			url := serve(t, server.Options{}).URLs()[0]
			dir := t.TempDir()
			r := role{Is: "coordinator", URL: url, Dir: dir, Jobs: 20, HoldAt: 5, Stored: afterwards}
			first := start(t, r)
			background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Version: "1", Slots: 2}, do)
			first.await(ctx, "holding")
			first.kill()
			r.HoldAt = 0
			start(t, r).await(ctx, "finished")
			got, times := stored(t, dir)
			_, want := jobs(20)
			sameResults(t, got, want)
			if afterwards {
				once(t, times, 1) // the one between storing and confirming is repeated
			} else {
				once(t, times, 0)
			}
			nothingLeft(ctx, t, dial(ctx, t, cluster.Access{URL: url}))
		})
	}
}

func TestKilledServer_LosesNothing(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	dir := t.TempDir()
	p, url := startServer(ctx, t, dir, ownAddress())

	// One job is running while the server is away, and must be stored afterwards.
	gate, atGate := make(chan struct{}), make(chan struct{}, 1)
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Slots: 2}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		if job.ID == "gate" {
			select {
			case atGate <- struct{}{}:
			default:
			}
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		return do(ctx, job, report)
	})
	all, want := jobs(60)
	gated := work{Size: 700_000, Seed: 5}
	all = append([]cluster.Job{{ID: "gate", Payload: gated.job().Payload}}, all...)
	want["gate"] = digest(gated.output())

	got, take := collected(t)
	some := make(chan struct{})
	c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url}), Experiment: "e", Poll: quick, AckWait: 2 * time.Second}
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, all, func(r cluster.Result) error {
			err := take(r)
			if len(got) == 10 {
				close(some)
			}
			return err
		})
	}()
	<-atGate
	select {
	case <-some:
	case err := <-done:
		t.Fatal(err)
	}
	for range 3 {
		p.kill()
		p, _ = startServer(ctx, t, dir, strings.TrimPrefix(url, "nats://"))
	}
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
}

// TestKills_OfEverythingLoseNothing kills servers, coordinators and workers, again and again.
func TestKills_OfEverythingLoseNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time; the parts have their own tests")
	}
	ctx := bounded(t)
	files, results := t.TempDir(), t.TempDir()
	srv, url := startServer(ctx, t, files, ownAddress())
	const n, rounds = 60, 4
	worker := role{Is: "worker", URL: url, Slots: 2}
	coordinator := role{Is: "coordinator", URL: url, Dir: results, Jobs: n, HoldAt: n / 10, AckWait: time.Second}
	for i := range rounds {
		w, c := start(t, worker), start(t, coordinator)
		c.await(ctx, "holding")
		// They die in a different order in each round.
		for j := range 3 {
			switch (i + j) % 3 {
			case 0:
				w.kill()
			case 1:
				c.kill()
			case 2:
				srv.kill()
			}
		}
		srv, _ = startServer(ctx, t, files, strings.TrimPrefix(url, "nats://"))
	}
	start(t, worker)
	coordinator.HoldAt = 0
	start(t, coordinator).await(ctx, "finished")
	got, times := stored(t, results)
	_, want := jobs(n)
	sameResults(t, got, want)
	once(t, times, 0)
	nothingLeft(ctx, t, dial(ctx, t, cluster.Access{URL: url}))
}

// TestStoppedWorker_LosesItsJob checks that a stopped worker loses its job to another, and that what it
// stores after it continues is dropped.
func TestStoppedWorker_LosesItsJob(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	first := start(t, role{Is: "worker", URL: url, Slots: 1, Hold: true})
	paused, last := work{Size: 400_000, How: "pause"}, work{Size: 2, How: "gate"}
	all := []cluster.Job{paused.job(), last.job()}
	want := map[string]string{all[0].ID: digest(paused.output()), all[1].ID: digest(last.output())}

	gate := make(chan struct{})
	got, take := collected(t)
	c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url}), Experiment: "e", Poll: quick, AckWait: 500 * time.Millisecond}
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, all, func(r cluster.Result) error {
			err := take(r)
			if r.Job == all[0].ID {
				first.cmd.Process.Signal(syscall.SIGCONT)
				close(gate)
			}
			return err
		})
	}()
	first.await(ctx, "holding")
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	background(ctx, t, &cluster.Worker{Client: dial(ctx, t, cluster.Access{URL: url}), Slots: 2}, func(ctx context.Context, job cluster.Job, report cluster.Reporter) ([]byte, error) {
		if job.ID == all[1].ID {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		return do(ctx, job, report)
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
}

// TestPoison_FailsAndSparesOthers checks that a job that kills its workers fails, and that those that ran beside
// it do not.
func TestPoison_FailsAndSparesOthers(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	url := serve(t, server.Options{}).URLs()[0]
	die, beside := work{Size: 1, How: "die"}, work{Size: 2, How: "hold"}
	all, want := jobs(6)
	all = append([]cluster.Job{die.job(), beside.job()}, all...)
	want[beside.job().ID] = digest(beside.output())

	got, take := collected(t)
	var poison cluster.Result
	c := &cluster.Coordinator{Client: dial(ctx, t, cluster.Access{URL: url}), Experiment: "e", Poll: quick, AckWait: time.Second, Deaths: 2}
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, all, func(r cluster.Result) error {
			if r.Job == die.job().ID {
				poison = r
				return nil
			}
			return take(r)
		})
	}()
	for _, name := range []string{"one", "two"} {
		r := role{Is: "worker", URL: url, Name: name, Slots: 2}
		if name == "one" {
			r.Hold, r.Beside = true, true
		}
		start(t, r).end(ctx)
	}
	start(t, role{Is: "worker", URL: url, Name: "three", Slots: 2})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	sameResults(t, got, want)
	for _, part := range []string{"2 workers died", "one (process", "two (process"} {
		if !strings.Contains(poison.Err, part) {
			t.Errorf("the poison's error is %q, without %q", poison.Err, part)
		}
	}
	if n := len(poison.Log); n != 2 || poison.Log[n-1] != "about to die" {
		t.Errorf("the poison's log is %q", poison.Log)
	}
	if counts := c.Counts(); counts.Failed != 1 || counts.Taken != len(all) {
		t.Errorf("counts: %+v", counts)
	}
}
