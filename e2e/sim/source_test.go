package sim

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

const stdinLab = `
topology: {generate: {star: {hosts: 2, rate: 1Gbps}}}
workload: [{cbr: {from: h1, to: h2, rate: 1Mbps, size: 100B, for: 10ms}}]
`

// TestStandardInput_IsALabFile: every command that takes a lab file can read it from standard
// input. Errors name it, and the lab is named after it.
func TestStandardInput_IsALabFile(t *testing.T) {
	t.Parallel()
	run := func(input string, args ...string) (string, string, int) {
		c := exec.Command(testlab.Weft(t), args...)
		c.Stdin = strings.NewReader(input)
		return testlab.RunCommand(t, c)
	}
	for args, want := range map[string]string{
		"validate -":               "stdin: good: 2 hosts, 1 switches, 2 links",
		"graph -":                  "<svg",
		"graph --dot -":            "graph",
		"sim -":                    "lab stdin, virtual clock",
		"sim --seed 7 --for 5ms -": "0.005s emulated, seed 7",
	} {
		if o, e, code := run(stdinLab, strings.Fields(args)...); code != 0 || !strings.Contains(o, want) {
			t.Errorf("weft %s: exit code %d\n%s%s", args, code, o, e)
		}
	}
	if o, _, code := run("name: mine\n"+stdinLab, "sim", "-"); code != 0 || !strings.HasPrefix(o, "lab mine,") {
		t.Errorf("a lab with a name: exit code %d\n%s", code, o)
	}
	for _, args := range []string{"validate -", "sim -", "graph -", "up -", "up -d -"} {
		if _, e, code := run("topology: {nodes: {h1: {knd: host}}}\n", strings.Fields(args)...); code != testlab.ExitBadInput || !strings.Contains(e, `stdin:1:25: unknown key "knd"`) {
			t.Errorf("weft %s of a bad file: exit code %d\n%s", args, code, e)
		}
	}
	if _, e, code := run("", "validate", "-"); code != testlab.ExitBadInput || !strings.Contains(e, "stdin:1:1: the file is empty") {
		t.Errorf("nothing: exit code %d\n%s", code, e)
	}
}
