package rdma

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaCoreTests is where Debian's python3-pyverbs puts the tests of rdma-core.
const rdmaCoreTests = "/usr/share/doc/rdma-core/tests"

// systemPython is the Python of Debian's packages.
const systemPython = "/usr/bin/python3"

// allowedSkips lists which of rdma-core's tests may be skipped, and why: they need other
// hardware, or what docs/rdma.md lists as refused.
var allowedSkips = []struct{ tests, reason, why string }{
	{`mlx5|MKEY|Mkey`, `non MLX5 device|not an MLX5 device`, "vendor's"},
	{`efa`, `non EFA device`, "vendor's"},
	{`test_mlx5_timestamp`, `Converting timestamp to nanoseconds`, "vendor's: mlx5dv_ts_to_ns"},
	{`vfio`, `PCI device must be passed`, "vendor's, without a kernel driver"},
	{`cuda`, `cuda-python`, "GPUs"},
	{`[Dd]ma[Bb]uf`, `dmabuf|/dev/dri|GPU`, "GPUs, and refused: dmabuf"},
	{`huge`, `no huge pages`, "the machine has no huge pages set aside"},
	{`raw|rss|flow|timestamp|RawQp|Flow`, `QP type 8 is not|Raw Packet QP`, "refused: raw packets"},
	{`[Dd]evice|DM|dm_|shared_pd`, `Device memory`, "refused: device memory"},
	{`tag_matching`, `Extended CQ is not supported`, "refused: tag matching"},
	{`test_shared_pd`, `Importing a device`, "refused: imported objects"},
	{`atomic_write`, `Extended QP is not supported`, "refused: atomic write"},
}

// TestRDMACore_PassesItsOwnTests runs rdma-core's own tests inside a host: none fails, and only
// those that need what the NIC does not have are skipped.
func TestRDMACore_PassesItsOwnTests(t *testing.T) {
	t.Parallel()
	testlab.Need(t)
	if err := exec.Command(systemPython, "-c", "import pyverbs.device").Run(); err != nil {
		t.Skipf("SKIPPED: this test needs python3-pyverbs: run scripts/test.sh, which installs it: %v", err)
	}
	dir := t.TempDir()
	if n := unpackTests(t, filepath.Join(dir, "tests")); n == 0 {
		t.Skipf("SKIPPED: %s has no tests of rdma-core, because dpkg was told to leave out documentation (path-exclude); install python3-pyverbs again without that", rdmaCoreTests)
	}
	runner, err := filepath.Abs("testdata/rdma-core/run.py")
	if err != nil {
		t.Fatal(err)
	}
	// Each host runs a part of the classes of tests.
	const parts = 4
	l := testlab.StartRDMA(t, rdmaPairs)
	var running [parts]*testlab.Program
	for i := range running {
		running[i] = l.StartProgram("h"+strconv.Itoa(i+1), "sh", "-c", `cd "$0" && PYTHONDONTWRITEBYTECODE=1 exec "$1" "$2" "$3" "$4"`,
			dir, systemPython, runner, strconv.Itoa(i), strconv.Itoa(parts))
	}
	outcomes, skips := map[string]int{}, map[string]int{}
	for _, part := range running {
		for !part.Exited() {
			results := strings.Count(part.Out.String(), "RESULT ")
			l.WaitFor("the next result", func() bool { return part.Exited() || strings.Count(part.Out.String(), "RESULT ") > results })
		}
		if err := part.Err; err != nil {
			t.Errorf("%v: %v\n%s", part.Args, err, testlab.Tail(part.Out.String()))
		}
		collect(t, part.Out.String(), outcomes, skips)
	}
	if outcomes["passed"] < 100 {
		t.Error("fewer than 100 tests have passed")
	}
	t.Log(outcomes)
	for _, why := range slices.Sorted(maps.Keys(skips)) {
		t.Log(skips[why], why)
	}
}

// collect checks and counts the results that a run of testdata/rdma-core/run.py prints.
func collect(t *testing.T, printed string, outcomes, skips map[string]int) {
	t.Helper()
	for line := range strings.Lines(printed) {
		text, ok := strings.CutPrefix(line, "RESULT ")
		if !ok {
			continue
		}
		var row struct{ Test, Outcome, Text string }
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		outcomes[row.Outcome]++
		switch row.Outcome {
		case "failed":
			t.Errorf("%s:\n%s", row.Test, row.Text)
		case "skipped":
			why := whySkipped(row.Test, row.Text)
			if why == "" {
				t.Errorf("%s is skipped, and for no reason that is allowed: %s", row.Test, row.Text)
			}
			skips[why]++
		}
	}
}

// whySkipped returns why a test may be skipped for a reason; "" if it may not.
func whySkipped(test, reason string) string {
	for _, s := range allowedSkips {
		if regexp.MustCompile(s.tests).MatchString(test) && regexp.MustCompile(s.reason).MatchString(reason) {
			return s.why
		}
	}
	return ""
}

// unpackTests copies rdma-core's tests into a directory and returns the number of files.
func unpackTests(t *testing.T, to string) (n int) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(rdmaCoreTests, "*.py*"))
	if err == nil {
		err = os.Mkdir(to, 0o755)
	}
	for _, from := range found {
		if err == nil {
			err = unpack(from, to)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// unpack copies a file into a directory and decompresses gzip files, because Debian
// compresses documents.
func unpack(from, dir string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	name, packed := strings.CutSuffix(filepath.Base(from), ".gz")
	if packed {
		if r, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(filepath.Join(dir, name), b, 0o644)
}
