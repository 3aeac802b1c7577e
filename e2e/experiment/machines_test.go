package experiment

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// machinesScript runs commands for many machines on one that is called that-machine, with a network
// of its own.
const machinesScript = `
ip link set lo up && ip address add 10.9.9.9/32 dev lo || exit 9
printf '127.0.0.1 localhost\n10.9.9.9 that-machine\n' >hosts && mount --bind hosts /etc/hosts || exit 9
`

// onOneMachine runs a script with the built weft in its PATH, in a directory with the experiment
// fct.yaml, which has thousands of cells.
func onOneMachine(t *testing.T, script string) string {
	t.Helper()
	weft := testlab.Need(t, "unshare", "mount", "ip")
	dir, file := experimentIn(t, "seeds: 2", "seeds: 2000")
	if err := os.Rename(file, filepath.Join(dir, "fct.yaml")); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "-mn", "sh", "-c", machinesScript+script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(weft)+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestManyMachines_CommandsOfTheGuideWork: the commands of docs/experiments.md do what they say, on
// all addresses with the token that they set, and on loopback without.
func TestManyMachines_CommandsOfTheGuideWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## On many machines\n")
	block := regexp.MustCompile("(?s)^\n```\n(export [^\n]*\n)(weft experiment [^\n]*)\n(weft worker [^\n#]*)[^\n]*\n```\n").FindStringSubmatch(section)
	loopback := regexp.MustCompile("`(weft experiment [^`]*--serve 127[^`]*)`").FindStringSubmatch(section)
	if block == nil || loopback == nil {
		t.Fatalf("the commands are not there any more:\n%s", section)
	}
	for name, c := range map[string]struct{ export, experiment, worker string }{
		"all addresses": {block[1], block[2], block[3]},
		"loopback":      {"", loopback[1], "weft worker nats://127.0.0.1:4222"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It has too many cells to end before the worker joins.
			out := onOneMachine(t, c.export+"sh -c 'echo $$ >pid; exec "+c.experiment[:strings.IndexAny(c.experiment+"#", "#")]+`' >log 2>&1 & experiment=$!
until grep -q "workers join with" log; do kill -0 $experiment || { cat log; exit 7; }; sleep 0.01; done
`+c.worker+` >worker.log 2>&1 & worker=$!
until [ $(grep -c "has joined" log) = 2 ] && grep -q "done on" log; do kill -0 $experiment && kill -0 $worker || { cat log worker.log; exit 6; }; sleep 0.01; done
kill -INT $(cat pid); wait $experiment
kill $worker; wait $worker; cat log`)
			if !strings.Contains(out, "cells were not run: interrupted") {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestManyMachines_ErrorsSayHowToGiveCredentials: who starts a server that others can reach, or
// joins one, without credentials learns what to set.
func TestManyMachines_ErrorsSayHowToGiveCredentials(t *testing.T) {
	t.Parallel()
	out := onOneMachine(t, `
unset WEFT_NATS_TOKEN WEFT_NATS_PASSWORD
weft experiment fct.yaml --serve 0.0.0.0:4222 2>&1; echo "open: $?"
weft experiment fct.yaml --serve 127.0.0.1:4222 --nats-user me 2>&1; echo "user: $?"
WEFT_NATS_TOKEN=secret weft experiment fct.yaml --serve that-machine:4222 >log 2>&1 & server=$!
until grep "workers join with" log; do sleep 0.01; done
weft worker nats://that-machine:4222 2>&1; echo "worker: $?"
kill $server
`)
	want := `(?s)^weft: --serve: address 0.0.0.0:4222: anyone who can reach it .*
set WEFT_NATS_TOKEN in the environment of this command and of each weft worker, .*WEFT_NATS_PASSWORD
open: 2
weft: --nats-user me: set WEFT_NATS_PASSWORD .*
user: 2
weft: workers join with: weft worker nats://that-machine:4222, and the token in WEFT_NATS_TOKEN
weft: .*refused the credentials.*
set WEFT_NATS_TOKEN, or .*
worker: 1
`
	if !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
