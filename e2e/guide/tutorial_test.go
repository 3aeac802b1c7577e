package guide

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestTutorial_CommandsWork: the commands of the tutorial work as printed, in their order.
func TestTutorial_CommandsWork(t *testing.T) {
	t.Parallel()
	testlab.NeedVerbs(t)
	tutorial := map[string]recipe{}
	all := recipe{files: map[string]string{}}
	for _, r := range readRecipes(t, "../../docs/tutorial.md") {
		tutorial[r.title] = r
		for name, text := range r.files {
			all.files[name] = text
		}
	}
	// The reader makes this file.
	lossy, lossless := "roce: {dscp: 26, priority: 3, weight: 1}", "roce: {dscp: 26, priority: 3, weight: 1, pfc: {}}"
	if !strings.Contains(all.files["incast.yaml"], lossy) {
		t.Fatal("incast.yaml has no class without PFC")
	}
	all.files["incast-pfc.yaml"] = strings.Replace(all.files["incast.yaml"], lossy, lossless, 1)

	s := startLabShell(t, &all, "iperf3", "ib_write_bw", "tshark", "ping")
	section := func(title string, edit ...string) (printed string) {
		t.Helper()
		r, ok := tutorial[title]
		if !ok {
			t.Fatalf("the tutorial has no section %q", title)
		}
		var lines []string
		for _, x := range r.steps {
			if x.command == "sleep 2" { // the servers listen
				continue
			}
			x.command = strings.NewReplacer(edit...).Replace(x.command)
			lines = append(lines, s.runStep(x)...)
		}
		return strings.Join(lines, "\n")
	}
	expect := func(printed string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(printed, want) {
				t.Errorf("nothing prints %q:\n%s", want, printed)
			}
		}
	}

	expect(section("A first lab"), "lab.yaml: good: 2 hosts, 2 switches, 3 links", "10.0.0.1/16")
	expect(section("Ping and iperf3"), "icmp_seq=3", "sender", "s1:2", "lateness")
	incast := func(edit ...string) {
		t.Helper()
		printed := section("An incast", edit...)
		// The writers are the last jobs, behind the capture and the four servers.
		printed += "\n" + strings.Join(s.mustType("wait %6 %7 %8 %9"), "\n")
		if n := strings.Count(printed, " 65536      150 "); n != 4 {
			t.Errorf("%d writers print their rate:\n%s", n, printed)
		}
		s.mustType("kill %1 && wait")
	}
	incast()
	expect(section("See the drops"), "s1:h1", "retransmitted", "dropped: the queue's limit is reached at s1:h1 out")
	incast("incast.yaml", "incast-pfc.yaml", "incast.pcapng", "incast-pfc.pcapng")
	expect(strings.Join(s.mustType("weft down "+s.lab.Name), "\n"), " 0 dropped", "paused", "h2:eth0  roce")
	expect(section("Pause frames in Wireshark"), "Class Based Flow Control", "xoff: s1:h2 asks for a pause", "xon: s1:h2 ends the pause")
	for _, x := range tutorial["The same file in virtual time"].steps {
		want := "0"
		if strings.Contains(strings.Join(x.output, "\n"), "FAILED") {
			want = "4"
		}
		printed, code := s.enter(x.command, "")
		if code != want {
			t.Errorf("%s: exit code %s, want %s", x.command, code, want)
		}
		x.output = x.output[1:] // has the name of the lab
		checkShown(t, x, printed)
	}
}
