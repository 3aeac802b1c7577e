package experiment

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/experiment"
)

// smallExperiment is eight cells that take a few milliseconds each.
const smallExperiment = `
title: two systems at two loads
lab:
  topology: {generate: {dumbbell: {left: 2, right: 2, rate: 1Gbps, delay: 1us, bottleneck: {rate: 1Gbps}}}}
  duration: 5ms
  workload:
    - {poisson: {name: one, from: h1, to: h3, rate: 300Mbps, size: 1000B, for: 5ms}}
    - {poisson: {name: two, from: h2, to: h4, rate: 300Mbps, size: 1000B, for: 5ms}}
vary:
  load: {path: ["workload[0].poisson.rate", "workload[1].poisson.rate"], values: [200Mbps, 450Mbps]}
  queue:
    deep: {}
    shallow: {topology.kinds.switch.queue.limit: 5KB}
seeds: 2
record: {every: 100us, queues: "s1:*"}
measure:
  loss: {of: streams, column: loss_share, stat: max}
  delay: {title: 99% delay, of: streams, column: delay_p99_us, stat: mean, by: flow}
  queue_max: {of: queue-series, column: queue_bytes, stat: max, where: {class: ""}}
plot:
  loss: {kind: line, measure: loss, x: load}
  delay: {kind: bins, measure: delay, panels: queue}
  queue: {kind: time, of: queue-series, column: queue_bytes, where: {port: "s1:s2", class: ""}, panels: load}
paper:
  - {measure: loss, at: {queue: deep}, value: 1%, source: nowhere, origin: remembered}
expect:
  - 'queue_max({queue: "deep", load: "450Mbps"}) > queue_max({queue: "shallow", load: "450Mbps"})'
  - 'loss({queue: "deep"}) <= loss({queue: "shallow"})'
quick: {seeds: 1, vary: {load: 450Mbps}}
`

// experimentIn writes the small experiment, changed by pairs of old and new text, into a
// new directory.
func experimentIn(t *testing.T, change ...string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(change...).Replace(smallExperiment)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// result reads the result in a directory.
func result(t *testing.T, dir string) (r *experiment.Report, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err = experiment.ReadReport(data); err != nil {
		t.Fatal(err)
	}
	return r, string(data)
}

// TestExperiment_PartsMakeTheWhole runs an experiment, twice, in its quick form, in parts, and
// with a change: finished cells are not run again, and the parts make the whole.
func TestExperiment_PartsMakeTheWhole(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir, file := experimentIn(t)
	out := filepath.Join(dir, "out")
	o, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", out, "-j", "2")
	if code != 0 || strings.Count(e, "done (") != 8 {
		t.Fatalf("exit code %d\n%s%s", code, o, e)
	}
	for _, want := range []string{"8 cells, 2 seeds, virtual clock", "99% delay: mean of delay_p99_us of streams by flow", "holds", "nowhere, remembered", "± "} {
		if !strings.Contains(o, want) {
			t.Errorf("the output lacks %q:\n%s", want, o)
		}
	}
	for _, name := range []string{"loss.png", "loss.svg", "loss.pdf", "delay.png", "queue.svg", "index.html", "result.txt"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, json1 := result(t, out)
	if len(first.Cells) != 8 || first.HasFailed() {
		t.Errorf("%+v", first.Cells)
	}
	if _, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", out); code != 0 || strings.Contains(e, "done (") || !strings.Contains(e, "8 of 8 cells have been run before") {
		t.Errorf("a second time: exit code %d\n%s", code, e)
	}
	if _, again := result(t, out); again != json1 {
		t.Error("a second time the result is another")
	}
	// One more seed and a different measure: four new cells.
	text := strings.NewReplacer("seeds: 2", "seeds: 3", "stat: max}", "stat: mean}").Replace(smallExperiment)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", out); code != 0 || strings.Count(e, "done (") != 4 {
		t.Errorf("changed: exit code %d\n%s", code, e)
	}
	if o, _, code := testlab.RunWeft(t, weft, "experiment", file, "-o", filepath.Join(dir, "quick"), "--quick", "--json"); code != 0 {
		t.Errorf("quick: exit code %d", code)
	} else if q, err := experiment.ReadReport([]byte(o)); err != nil || len(q.Cells) != 2 || !q.Quick {
		t.Errorf("quick: %v %+v", err, q)
	}
	whole, json3 := result(t, out)
	var parts []string
	cells := 0
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		d := filepath.Join(dir, "part"+part[:1])
		parts = append(parts, d)
		_, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", d, "--part", part, "--no-pictures")
		cells += strings.Count(e, "done (")
		if code != 0 {
			t.Errorf("part %s: exit code %d\n%s", part, code, e)
		}
	}
	if cells != len(whole.Cells) {
		t.Errorf("the parts have run %d cells of %d", cells, len(whole.Cells))
	}
	collected := filepath.Join(dir, "collected")
	if o, e, code := testlab.RunWeft(t, weft, append([]string{"collect", file, "-o", collected}, parts[:2]...)...); code == 0 || !strings.Contains(e, "no part has ") || !strings.Contains(o, "PARTIAL") {
		t.Errorf("two of three parts: exit code %d\n%s%s", code, o, e)
	}
	if _, e, code := testlab.RunWeft(t, weft, append([]string{"collect", file, "-o", collected}, parts...)...); code != 0 {
		t.Errorf("collect: exit code %d\n%s", code, e)
	}
	if _, all := result(t, collected); all != json3 {
		t.Error("the parts together are not the whole")
	}
	if o, _, code := testlab.RunWeft(t, weft, "compare", out, collected); code != 0 || !strings.Contains(o, "0 of ") {
		t.Errorf("compare: exit code %d\n%s", code, o)
	}
}

// TestExperiment_FailuresAreNamed: a cell that fails is named with its reason and the others
// continue; an expectation that does not hold is named too.
func TestExperiment_FailuresAreNamed(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	// The cells are so long that their memory is looked at.
	_, file := experimentIn(t, "5ms", "1h", "every: 100us", "every: 1s", "expect:\n", "limit: {memory: 1KB}\nexpect:\n")
	o, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", filepath.Join(t.TempDir(), "out"), "--quick")
	if code != testlab.ExitFailed || strings.Contains(e, "done (") || !strings.Contains(o, "memory") {
		t.Errorf("too little memory: exit code %d\n%s%s", code, o, e)
	}
	_, file = experimentIn(t, "<= loss", "> 1 + loss")
	o, e, code = testlab.RunWeft(t, weft, "experiment", file, "-o", filepath.Join(t.TempDir(), "out"), "--quick")
	if code != testlab.ExitFailed || !strings.Contains(o, "FAILS  loss(") || !strings.Contains(e, "1 of 2 expectations do not hold") {
		t.Errorf("an expectation: exit code %d\n%s%s", code, o, e)
	}
}

// TestExperiment_InterruptedKeepsFinishedCells: Ctrl-C keeps the finished cells and says so, and
// the same command continues.
func TestExperiment_InterruptedKeepsFinishedCells(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir, file := experimentIn(t, "5ms", "300ms", "seeds: 2", "seeds: 5")
	out := filepath.Join(dir, "out")
	c := exec.Command(weft, "experiment", file, "-o", out, "-j", "1", "--no-pictures")
	var stdout, stderr testlab.Output
	c.Stdout, c.Stderr = &stdout, &stderr
	p := testlab.Launch(t, c)
	p.Await(t, "a cell is done", func() bool { return strings.Contains(stderr.String(), "done (") })
	if err := c.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = p.WaitEnd(t)
	if code := c.ProcessState.ExitCode(); code != 130 || !strings.Contains(stdout.String(), "PARTIAL") || !strings.Contains(stderr.String(), "run the same command again") {
		t.Fatalf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	r, _ := result(t, out)
	done := r.CountCells(experiment.Done)
	if done == 0 || done == len(r.Cells) || r.Partial == "" {
		t.Fatalf("%d of %d cells, partial %q", done, len(r.Cells), r.Partial)
	}
	_, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", out, "--no-pictures")
	if code != 0 || strings.Count(e, "done (") != len(r.Cells)-done {
		t.Errorf("going on after %d: exit code %d\n%s", done, code, e)
	}
}

// TestExperiment_ErrorsInFilesNameThePlace: errors in the files are reported with their place;
// nothing is created.
func TestExperiment_ErrorsInFilesNameThePlace(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	for _, c := range []struct{ old, new, want string }{
		{"queue.limit: 5KB", "queue.limit: 5Kb", "small.yaml:13:"},
		{"topology.kinds.switch.queue.limit: 5KB", "topology.kinds.switch.queue.limt: 5KB", `unknown key "limt"`},
		{"of: streams, column: loss_share", "of: streams, column: loss_shar", `did you mean "loss_share"`},
		{"stat: max}\n  delay", "stat: maximum}\n  delay", `unknown statistic "maximum"`},
		{"kind: line, measure: loss, x: load", "kind: line, measure: loss, x: lod", `did you mean "load"`},
		{`queue_max({queue: "deep"`, `queue_max({queue: "dep"`, `no level "dep"`},
		{"lab:\n", "lab: none.yaml\nlabs:\n", `unknown key "labs"`},
		{"vary: {load: 450Mbps}", "vary: {load: 45Mbps}", `load has no level "45Mbps"`},
	} {
		dir, file := experimentIn(t, c.old, c.new)
		out := filepath.Join(dir, "out")
		_, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", out, "--quick")
		if code != testlab.ExitBadInput || !strings.Contains(e, c.want) || !strings.Contains(e, "small.yaml:") {
			t.Errorf("%s: exit code %d, want %q\n%s", c.new, code, c.want, e)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a directory was made", c.new)
		}
	}
	_, file := experimentIn(t)
	none := filepath.Join(t.TempDir(), "none")
	if o, _, code := testlab.RunWeft(t, weft, "experiment", file, "-o", none, "--list"); code != 0 || !strings.Contains(o, "0 of 8 cells have been run") {
		t.Errorf("--list: exit code %d\n%s", code, o)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("--list has made a directory")
	}
	for _, args := range [][]string{{"--part", "3"}, {"--part", "4/3"}, {"--seed", "x"}, {"-j", "0"}, {"--on", "nats://127.0.0.1:1", "--serve", "127.0.0.1:0"}, {"--on", "nats://127.0.0.1:1", "-j", "2"}, {"--nats-user", "me"}} {
		if _, e, code := testlab.RunWeft(t, weft, append([]string{"experiment", file, "-o", t.TempDir()}, args...)...); code != testlab.ExitBadInput {
			t.Errorf("%v: exit code %d\n%s", args, code, e)
		}
	}
}

// TestExperiment_WorkersMakeTheSameBytes: a coordinator and two workers as separate processes, one
// of which is killed in the middle, produce the same bytes as one machine.
func TestExperiment_WorkersMakeTheSameBytes(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir, file := experimentIn(t, "5ms", "100ms")
	alone, together := filepath.Join(dir, "alone"), filepath.Join(dir, "together")
	if _, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", alone); code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	coordinator := testlab.Launch(t, exec.Command(weft, "experiment", file, "-o", together, "--serve", "127.0.0.1:0", "-j", "1"))
	var join []string
	coordinator.Await(t, "it says how workers join", func() bool {
		join = regexp.MustCompile(`weft worker (nats://\S+)\n`).FindStringSubmatch(coordinator.Out.String())
		return join != nil
	})
	first := testlab.Launch(t, exec.Command(weft, "worker", join[1], "-j", "1"))
	testlab.Launch(t, exec.Command(weft, "worker", join[1], "-j", "1"))
	// The result must be the same whenever it dies, also if the others leave it no cell.
	first.Await(t, "the first worker says that it runs a cell", func() bool {
		return coordinator.Exited() || strings.Contains(first.Out.String(), "\nweft: runs ")
	})
	if said := first.Out.String(); !strings.Contains(said, fmt.Sprintf("-%d takes 1 cells at once", first.Process.Pid)) || !coordinator.Exited() && !strings.Contains(said, "\nweft: joined ") {
		t.Errorf("the worker says\n%s", said)
	}
	first.KillAndRead()
	if err := coordinator.WaitEnd(t); err != nil {
		t.Fatalf("%v\n%s", err, &coordinator.Out)
	}
	_, one := result(t, alone)
	if _, two := result(t, together); one != two {
		t.Error("the results are not the same")
	}
	for _, name := range []string{"index.html", "loss.png", "queue.pdf"} {
		a, err1 := os.ReadFile(filepath.Join(alone, name))
		b, err2 := os.ReadFile(filepath.Join(together, name))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same: %v %v", name, err1, err2)
		}
	}
}
