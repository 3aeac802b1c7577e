package file

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/experiment"
)

var update = flag.Bool("update", false, "rewrite the files that tests compare with")

// testLab has two hosts that run programs, one that does not, and a switch.
const testLab = `lab:
  topology:
    nodes:
      h1: {kind: host}
      h2: {kind: host}
      h3: {kind: host, attach: none}
      s1: {kind: switch}
    links:
      - {endpoints: ["h1:eth0", "s1:1"]}
      - {endpoints: ["h2:eth0", "s1:2"]}
      - {endpoints: ["h3:eth0", "s1:3"]}
`

// TestProgramErrors_AreThoseExpected compares the errors for wrong files with testdata/programs: each file
// there continues testLab, and the expected errors are beside it.
func TestProgramErrors_AreThoseExpected(t *testing.T) {
	files, err := filepath.Glob("testdata/programs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(filepath.Base(file), []byte(testLab+string(text)), Options{})
		if err == nil {
			t.Errorf("%s is read", file)
			continue
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(golden)
		if got := err.Error() + "\n"; got != string(want) {
			t.Errorf("%s: it says (go test ./experiment/file -update takes it)\n%s\nwant\n%s", file, got, want)
		}
	}
}

// good uses programs of every kind.
const good = testLab + `
  workload: [{cbr: {from: h1, to: h2, rate: 1Mbps, size: 1000B, for: 1s}}]
clock: [wall, virtual]
repeat: 5
late: keep
workload: true
seeds: 2
vary: {streams: {"1": {}, "4": {}}}
programs:
  - {name: server, host: h2, command: iperf3 -s, server: true, ready: {port: 5201, within: 5s}}
  - {name: client, host: h1, command: iperf3 -c h2 -J -P $WEFT_LEVEL_streams, at: 1s, limit: 20s, read: iperf3, dilated: true}
  - {name: custom, host: h1, command: date, read: {regexp: ':(?P<second>\d\d) '}}
measure:
  goodput: {of: iperf3, column: goodput_bps, stat: sum}
  rtt: {of: iperf3-intervals, column: rtt_us, stat: p99, where: {program: client, stream: 5}, per: host, over: max}
  second: {of: custom, column: second}
  late: {of: lateness, column: p99_us}
plot:
  rtt: {kind: time, of: iperf3-intervals, column: rtt_us, split: stream}
  clocks: {kind: bars, measure: goodput, x: clock}
`

// TestPrograms_AreInWallClockJobsOnly checks that jobs of cells in wall-clock time contain the file's real
// programs, and that jobs in virtual time do not depend on them.
func TestPrograms_AreInWallClockJobsOnly(t *testing.T) {
	e, err := Parse("x.yaml", []byte(good), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 8 || !slices.Equal(e.Clocks, []experiment.Clock{experiment.Wall, experiment.Virtual}) {
		t.Fatalf("%d cells, clocks %v", len(e.Cells), e.Clocks)
	}
	jobs := e.ListJobs("v1")
	if j := jobs[2]; j.Name != "clock=wall streams=4 seed=1" || j.Clock != experiment.Wall || !j.Real.KeepLate || !j.Real.Workload || j.Real.Tries != 5 ||
		!slices.Equal(j.Real.Env, []string{"WEFT_LEVEL_clock=wall", "WEFT_LEVEL_streams=4", "WEFT_SEED=1"}) {
		t.Errorf("%s: %+v", j.Name, j.Work.Real)
	}
	server, client, custom := jobs[2].Real.Programs[0], jobs[2].Real.Programs[1], jobs[2].Real.Programs[2]
	if !server.Server || server.Ready.Port != 5201 || server.Limit != 0 || client.At.Seconds() != 1 || client.Limit.Seconds() != 20 || !client.Dilated || custom.Read.Table != "custom" {
		t.Errorf("%+v\n%+v\n%+v", server, client, custom)
	}
	if j := jobs[6]; j.Clock != experiment.Virtual || j.Real.Tries != 0 || j.Real.Programs[1].Command != "" || j.Real.Programs[1].Read.Format != experiment.Iperf3 {
		t.Errorf("%s: %+v", j.Name, j.Real)
	}
	changed, err := Parse("x.yaml", []byte(strings.Replace(good, "-c h2", "-u -c h2", 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	again := changed.ListJobs("v1")
	for i := range jobs {
		same := jobs[i].Key == again[i].Key
		if want := jobs[i].Clock == experiment.Virtual; same != want {
			t.Errorf("%s: the key is the same after a change of a command: %v, want %v", jobs[i].Name, same, want)
		}
	}
}

// TestQuickForm_MayLeaveOutAClock checks that the quick form may leave out a clock.
func TestQuickForm_MayLeaveOutAClock(t *testing.T) {
	e, err := Parse("x.yaml", []byte(good+"quick: {seeds: 1, vary: {clock: virtual, streams: 1}}\n"), Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 1 || e.Cells[0].Clock != experiment.Virtual || !slices.Equal(e.Clocks, []experiment.Clock{experiment.Virtual}) {
		t.Errorf("%d cells, clocks %v", len(e.Cells), e.Clocks)
	}
}

// TestSchema_HasTheKeysOfPrograms checks that the schema has the keys of real programs.
func TestSchema_HasTheKeysOfPrograms(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"perftest"`, `"regexp"`, `"server"`, `"ready"`, `"keep"`} {
		if !strings.Contains(string(schema), want) {
			t.Errorf("the schema lacks %s", want)
		}
	}
}
