package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

const cookbook = "../../docs/cookbook.md"

// isReal reports whether a recipe starts a lab with real programs.
func (r *recipe) isReal() bool {
	for _, s := range r.steps {
		if strings.HasPrefix(s.command, "weft up ") {
			return true
		}
	}
	return false
}

// TestCookbook_OutputsOfVirtualTimeAreTheSame: the commands of recipes in virtual time print what the
// cookbook shows.
func TestCookbook_OutputsOfVirtualTimeAreTheSame(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	tried := 0
	for _, r := range readRecipes(t, cookbook) {
		var steps []step
		for _, s := range r.steps {
			if virtual.MatchString(s.command) {
				steps = append(steps, s)
			}
		}
		if len(steps) == 0 {
			continue
		}
		tried++
		t.Run(r.title, func(t *testing.T) {
			t.Parallel()
			s := startShell(t, weft, t.TempDir(), nil)
			writeFiles(t, s.dir, r.files)
			for _, x := range steps {
				checkShown(t, x, s.mustEnter(x))
			}
		})
	}
	if tried < 8 {
		t.Errorf("%d recipes in virtual time", tried)
	}
}

// virtual are the commands that run in virtual time, or read what these have written.
var virtual = regexp.MustCompile(`^(weft (sim|experiment|report|validate|headroom) |cut )`)

// checkShown checks that the lines of a step that the page shows are among those printed, in their
// order. The page may leave out columns at the end, and break lines.
func checkShown(t *testing.T, x step, printed []string) {
	t.Helper()
	rest := strings.Join(strings.Fields(strings.Join(printed, " ")), " ")
	for _, line := range x.output {
		want := strings.Join(strings.Fields(line), " ")
		if want == "..." {
			continue
		}
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("%s does not print %q, or not there:\n%s", x.command, line, strings.Join(printed, "\n"))
			continue
		}
		rest = after
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shown is what recipes with real programs print wherever they run, and what is shorter in the test.
var shown = map[string]struct {
	shorter map[string]string
	want    []string
}{
	"Compare three TCPs": {shorter: map[string]string{"-t 60": "-t 2"}, want: []string{"sender", "receiver"}},
	"Run iperf3 over a lossy link": {
		shorter: map[string]string{"-t 5": "-t 2"},
		want:    []string{"sender", "s1:2 -> h2:eth0  up  rate 100Mbps  delay 1ms  mtu 1500", "dropped"},
	},
	"Capture drops with their reasons in Wireshark":   {want: []string{"dropped: the queue's limit is reached at s1:2 out, queue "}},
	"Run perftest without RDMA hardware":              {want: []string{"roce0", "020000fffe000001", " 65536      5000", "port_xmit_packets"}},
	"Write a first RDMA program":                      {want: []string{"hello over RDMA\nsuccess", "CM: ConnectRequest", "RC Send Only"}},
	"Emulate a link that is too fast for the machine": {shorter: map[string]string{"-n 500M": "-n 50M"}, want: []string{"The file says 100", "programs see the lab's clock", "sender"}},
	"Run a program under gdb":                         {want: []string{"in netdial ()", "in iperf_connect ()"}},
}

// TestCookbook_CommandsWork: the commands of recipes with real programs succeed as printed.
func TestCookbook_CommandsWork(t *testing.T) {
	t.Parallel()
	for _, r := range readRecipes(t, cookbook) {
		if !r.isReal() || r.title == "Run without root" { // e2e/rootless
			continue
		}
		expected, known := shown[r.title]
		if !known {
			t.Errorf("%s: a new recipe with real programs: say what it prints", r.title)
		}
		t.Run(r.title, func(t *testing.T) {
			t.Parallel()
			testlab.NeedVerbs(t)
			if err := testlab.BuildSlowClock(); err != nil {
				t.Fatal(err)
			}
			s := startLabShell(t, &r, "bash", "iperf3", "ib_write_bw", "tshark", "gcc", "gdb", "pgrep")
			var all []string
			for _, x := range r.steps {
				if virtual.MatchString(x.command) || strings.Contains(x.command, "wireshark") || x.command == "weft top" {
					continue // the first has its own test; the others need a screen
				}
				for long, short := range expected.shorter {
					x.command = strings.ReplaceAll(x.command, long, short)
				}
				all = append(all, s.runStep(x)...)
			}
			all = append(all, s.mustType("wait")...)
			for _, want := range expected.want {
				if !strings.Contains(strings.Join(all, "\n"), want) {
					t.Errorf("nothing prints %q:\n%s", want, strings.Join(all, "\n"))
				}
			}
		})
	}
}
