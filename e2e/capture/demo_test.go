package capture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

// demoFilters returns the filters that scripts/demo.sh prints, by what they find, and the arguments
// of weft sim for the capture that they are for.
func demoFilters(t *testing.T) (filters map[string]string, sim []string) {
	t.Helper()
	text, err := os.ReadFile("../../scripts/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\nfilters=(\n")
	list, _, ok := strings.Cut(list, "\n)\n")
	run := regexp.MustCompile(`(?m)^\$weft (sim scripts/labs/signals\.yaml .*) >/dev/null$`).FindStringSubmatch(string(text))
	if !ok || run == nil {
		t.Fatal("scripts/demo.sh has no list of filters, or no run of signals.yaml")
	}
	filters = map[string]string{}
	for line := range strings.Lines(list) {
		name, filter, _ := strings.Cut(strings.Trim(line, " '\n"), " ")
		filters[name] = strings.TrimSpace(filter)
	}
	return filters, strings.Fields(run[1])
}

// TestDemo_FiltersFindWhatTheyName: the capture of scripts/labs/signals.yaml has marks, drops, pause
// frames and CNPs, and the filters that the demo prints find as many as were counted.
func TestDemo_FiltersFindWhatTheyName(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	testlab.NeedPrograms(t, "tshark")
	filters, args := demoFilters(t)
	file := filepath.Join(t.TempDir(), "signals.pcapng")
	for i, a := range args {
		if a == "scripts/labs/signals.yaml" {
			args[i] = "../../" + a
		}
		if a == "$signals" {
			args[i] = file
		}
	}
	out, e, code := testlab.RunWeft(t, weft, append(args, "--json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, e)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	var pauses uint64
	ports := map[string]*status.Port{}
	for i := range r.Ports {
		ports[r.Ports[i].Name] = &r.Ports[i]
	}
	for _, name := range []string{"s1:h7", "s1:h1"} {
		for _, c := range ports[name].Classes {
			pauses += c.PauseFramesTx + c.ResumeFramesTx
		}
	}
	var cnps uint64 // all come from h7; those for h1 pass both ports
	for _, x := range r.Transfers {
		cnps += x.CNPs
		if x.From == "h1" {
			cnps += x.CNPs
		}
	}
	for name, want := range map[string]uint64{"marks": ports["s1:h7"].Marked, "drops": ports["s1:h7"].Dropped, "pauses": pauses, "CNPs": cnps} {
		got := uint64(len(testlab.Tshark(t, file, "-Y", filters[name])))
		t.Logf("%s: %q finds %d", name, filters[name], got)
		if got == 0 || got != want {
			t.Errorf("%s: the filter %q finds %d, and %d were counted", name, filters[name], got, want)
		}
	}
}

// TestDemo_FilterFindsMarksOfBothVersionsOfIP: programs that know hosts by name use IPv6 first.
func TestDemo_FilterFindsMarksOfBothVersionsOfIP(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	testlab.NeedPrograms(t, "tshark")
	filters, _ := demoFilters(t)
	for _, version := range []string{"4", "6"} {
		dir := t.TempDir()
		lab, file := filepath.Join(dir, "lab.yaml"), filepath.Join(dir, "c.pcapng")
		text := `
duration: 2ms
topology: {generate: {star: {hosts: 3, rate: 1Gbps, delay: 1us}}, kinds: {host: {attach: none}, switch: {queue: {mark: {step: {k: 10KB}}}}}}
workload: [{cbr: {from: [h1, h2], to: h3, rate: 700Mbps, size: 1000B, ect: true, for: 1ms, ip: ` + version + `}}]
`
		if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, e, code := testlab.RunWeft(t, weft, "sim", lab, "-w", file, "-p", "s1:h3", "--json")
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, e)
		}
		if got := uint64(len(testlab.Tshark(t, file, "-Y", filters["marks"]))); got == 0 || got != r.Accounts.Marked {
			t.Errorf("IPv%s: the filter finds %d, and %d were marked", version, got, r.Accounts.Marked)
		}
	}
}
