package extension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

const (
	extensionDir   = "testdata/extension"
	extensionPoint = "brake" // the name of its congestion point, its rate control and its edge service
)

// guide is the page that describes the extension.
const guide = "../../docs/extending.md"

// quotes returns the code that the guide quotes from each file, in its order, and the commands that
// build it.
func quotes() (files map[string]string, commands []string, err error) {
	text, err := os.ReadFile(guide)
	if err != nil {
		return nil, nil, err
	}
	files = map[string]string{}
	for _, block := range regexp.MustCompile("(?s)`([^`\n]+)`:\n\n```(?:go|lua|yaml)\n(.*?)```").FindAllSubmatch(text, -1) {
		files[string(block[1])] += string(block[2]) + "\n"
	}
	build := regexp.MustCompile("(?s)```\n(go mod init .*?)```").FindSubmatch(text)
	if build == nil {
		return nil, nil, fmt.Errorf("%s has no commands that build the program", guide)
	}
	return files, strings.Split(strings.TrimSpace(string(build[1])), "\n"), nil
}

// buildExtension builds the command of the guide as its reader would: from the code that is quoted
// there, with the commands that are there, in a module outside the tree. Its dependencies are
// in the module cache, because this tree needs them; of other modules, which a workspace reads
// about but does not build, it may download the go.mod.
var buildExtension = sync.OnceValues(func() (string, error) {
	weft, err := testlab.Build()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(weft), "brake-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	tree, err := filepath.Abs("../..")
	if err != nil {
		return dir, err
	}
	files, commands, err := quotes()
	if err != nil {
		return dir, err
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return dir, err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return dir, err
		}
	}
	for _, command := range commands {
		c := exec.Command("sh", "-c", strings.ReplaceAll(command, "../weft", tree))
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=")
		if out, err := c.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s of %s: %w\n%s", command, guide, err, out)
		}
	}
	return dir, nil
})

// extension returns the command with the systems of testdata/extension.
func extension(t *testing.T) string {
	t.Helper()
	dir, err := buildExtension()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "weft-brake")
}

// gaugeOf returns the value of a gauge.
func gaugeOf(t *testing.T, values []gauge.Value, name string) float64 {
	t.Helper()
	i := slices.IndexFunc(values, func(v gauge.Value) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no gauge %s among %+v", name, values)
	}
	return values[i].Value
}

// TestExtension_IsTreatedLikeWeftsOwn: a module outside the tree adds a congestion point, a rate
// control, an edge service and a message with an import, and weft treats them like its own in
// every way.
func TestExtension_IsTreatedLikeWeftsOwn(t *testing.T) {
	t.Parallel()
	weft := extension(t)
	lab := filepath.Join(extensionDir, "lab.yaml")
	dir := t.TempDir()

	t.Run("OnlyTheImportMakesTheDifference", func(t *testing.T) {
		if o, e, code := testlab.RunWeft(t, weft, "validate", lab); code != 0 {
			t.Errorf("exit code %d\n%s%s", code, o, e)
		}
		_, e, code := testlab.RunWeft(t, testlab.Weft(t), "validate", lab)
		if code != testlab.ExitBadInput || !strings.Contains(e, `"brake" is not a rate control`) || !strings.Contains(e, `"brake" is not a congestion point`) || !strings.Contains(e, `"brake" is not an edge service`) {
			t.Errorf("without it: exit code %d\n%s", code, e)
		}
	})
	t.Run("Errors_NamePlaceAndFix", func(t *testing.T) {
		for text, want := range map[string][]string{
			`topology:
  kinds: {switch: {queue: {limit: 100KB, mark: {brake: {above: 1KB, dscp: 64}}}}}
  nodes:
    s1: {kind: switch, queue: {mark: brake}}
    s2: {kind: switch, queue: {mark: {brake: {above: 1KB, gpa: 1us}}}}
`: {
				":2:75: dscp: 64 is out of range", "give a number from 0 to 63",
				":4:38: brake lacks above", "brake has above, gap, dscp",
				`:5:59: unknown key "gpa"`, `did you mean "gap"?`,
			},
			`topology:
  kinds: {host: {nic: {cc: {brake: {cut: 20%, least: 20Gbps}}}}, switch: {queue: {limit: 100KB, mark: {brake: {above: 100KB}}}}}
  generate: {star: {hosts: 2, rate: 10Gbps}}
`: {
				":2:54: least: 20Gbps is out of range", "give a rate up to the link's, 10Gbps",
				":2:119: above: 100KB is out of range", "less than the queue's limit",
			},
		} {
			file := filepath.Join(dir, "bad.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, e, code := testlab.RunWeft(t, weft, "validate", file)
			for _, want := range want {
				if code != testlab.ExitBadInput || !strings.Contains(e, want) {
					t.Errorf("exit code %d, no %q:\n%s", code, want, e)
				}
			}
		}
	})
	t.Run("Schema_HasItsKeys", func(t *testing.T) {
		o, e, code := testlab.RunWeft(t, weft, "schema")
		if code != 0 || !json.Valid([]byte(o)) {
			t.Fatalf("exit code %d\n%s", code, e)
		}
		for _, want := range []string{
			`"above": {`, `"description": "queue length from which senders are notified"`, `"maximum": 63`,
			`"cut": {`, `"pause": {`, `"raise": {`, `"description": "minimum rate"`,
			"notifies the senders of packets that meet a long queue", "messages of switches with mark: brake",
		} {
			if !strings.Contains(o, want) {
				t.Errorf("there is no %s", want)
			}
		}
	})
	var runs [2][]byte
	t.Run("Runs_DoNotDependOnWorkersAndCaptures", func(t *testing.T) {
		var traces [2]string
		for i := range runs {
			file := filepath.Join(dir, fmt.Sprintf("%d.pcapng", i))
			r := testlab.Simulate(t, weft, lab, "--qp", "--workers", fmt.Sprint(i+1), "-p", "h2:eth0", "-p", "s1:h1", "-w", file)
			traces[i] = r.Trace
			var err error
			if runs[i], err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
			point := testlab.ClassOf(t, testlab.PortOf(t, r, "s1:h1"), "roce")
			sent, heard := gaugeOf(t, point.Gauges, "notices"), 0.0
			for _, q := range r.QPs {
				heard += gaugeOf(t, q.Gauges, "notices")
				if q.NIC != "h1:eth0" && (q.Control != extensionPoint || gaugeOf(t, q.Gauges, "allowed") >= 9e9) {
					t.Errorf("%+v", q)
				}
			}
			if sent < 10 || heard < sent-3 || heard > sent { // some are in flight
				t.Errorf("%v messages sent, %v heard", sent, heard)
			}
			if e := testlab.PortOf(t, r, "h2:eth0").Edge; e == nil || e.Service != extensionPoint || gaugeOf(t, e.Gauges, "notices") < 10 || gaugeOf(t, e.Gauges, "notices") > gaugeOf(t, testlab.ClassOf(t, testlab.PortOf(t, r, "s1:h1"), "default").Gauges, "notices") {
				t.Errorf("edge service: %+v", e)
			}
			paused := testlab.ClassOf(t, testlab.PortOf(t, r, "h4:eth0"), "roce")
			if paused.PauseFramesRx == 0 || paused.PausedTime == 0 || !r.Accounts.Balanced() {
				t.Errorf("paused %d times for %v; %+v", paused.PauseFramesRx, paused.PausedTime, r.Accounts)
			}
		}
		plain := testlab.Simulate(t, weft, lab)
		if traces[0] != traces[1] || traces[0] != plain.Trace {
			t.Errorf("traces %v with captures, %v without", traces, plain.Trace)
		}
		if !bytes.Equal(runs[0], runs[1]) {
			t.Error("captures differ")
		}
	})
	t.Run("Series_HaveItsColumns", func(t *testing.T) {
		queues, flows := filepath.Join(dir, "q.csv"), filepath.Join(dir, "f.csv")
		testlab.Simulate(t, weft, lab, "--series", queues, "--series-port", "s1:h1", "--series-port", "h2:eth0", "--flow-series", flows, "--every", "1ms")
		for name, want := range map[string]string{queues: ",paused_s,point_notices,edge_notices\n", flows: ",cc_allowed_bps,cc_notices\n"} {
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("no %q in\n%.2000s\n%v", want, text, err)
			}
		}
	})
	t.Run("Dissector_ShowsItsMessages", func(t *testing.T) {
		notices(t, weft, filepath.Join(dir, "0.pcapng"), 40*units.KB)
	})
}

// notices checks that tshark shows the messages of a capture with the Lua code
// that the extension has registered.
func notices(t *testing.T, weft, file string, minQueue units.Bytes) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("SKIPPED: tshark is missing: run scripts/test.sh, which installs it")
	}
	lua, e, code := testlab.RunWeft(t, weft, "dissector")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	script := filepath.Join(t.TempDir(), "weft.lua")
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := testlab.Tshark(t, file, "-X", "lua_script:"+script, "-Y", "brake", "-T", "fields",
		"-e", "_ws.col.Protocol", "-e", "brake.qp", "-e", "brake.queue", "-e", "_ws.col.Destination", "-e", "ip.dsfield.dscp", "-e", "ipv6.tclass.dscp", "-o", "udp.check_checksum:TRUE", "-e", "udp.checksum.status")
	// Real hosts also send from their link-local addresses, and get messages there.
	isHost := regexp.MustCompile(`^(10\.0\.0\.|fd00::|fe80::)`)
	if len(lines) == 0 {
		t.Error("the capture has no messages")
	}
	for _, line := range lines {
		var protocol, to, qp string
		var queue units.Bytes
		var dscp, checksum int
		if _, err := fmt.Sscan(line, &protocol, &qp, &queue, &to, &dscp, &checksum); err != nil ||
			protocol != "BRAKE" || queue < minQueue || !isHost.MatchString(to) || dscp != 48 || checksum != 1 {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestExtension_ComparesWithOthers: the guide's experiment runs the rate control beside DCQCN and
// TIMELY.
func TestExtension_ComparesWithOthers(t *testing.T) {
	t.Parallel()
	weft := extension(t)
	file := filepath.Join(filepath.Dir(weft), "compare.yaml")
	o, e, code := testlab.RunWeft(t, weft, "experiment", file, "--seed", "1", "-o", filepath.Join(t.TempDir(), "out"))
	if code != 0 || !regexp.MustCompile(`(?m)^ +brake +dcqcn +timely$`).MatchString(o) || !regexp.MustCompile(`(?m)^goodput +9\.`).MatchString(o) {
		t.Errorf("exit code %d\n%s%s", code, o, e)
	}
}

// TestExtending_QuotesTheExtension: what docs/extending.md quotes from a file is that file, but for a
// comment at its beginning.
func TestExtending_QuotesTheExtension(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := quotes()
	if err != nil {
		t.Fatal(err)
	}
	blocks := len(regexp.MustCompile("(?s)`([^`\n]+)`:\n\n```(?:go|lua|yaml)\n(.*?)```").FindAll(text, -1))
	if code := len(regexp.MustCompile("```[a-z]+\n").FindAll(text, -1)); code != blocks {
		t.Errorf("%d blocks of code, of which %d say where they are from", code, blocks)
	}
	for _, name := range []string{"main.go", "brake/message.go", "brake/point.go", "brake/control.go", "brake/edge.go", "brake/brake.lua", "lab.yaml"} {
		file, err := os.ReadFile(filepath.Join(extensionDir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if quoted := strings.TrimSpace(files[name]); quoted == "" || !strings.HasSuffix(strings.TrimSpace(string(file)), quoted) {
			t.Errorf("%s is not what the guide has:\n%s", name, quoted)
		}
	}
}
