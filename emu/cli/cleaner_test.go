package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Labs end with their tests, unless the tests' process is killed, as go test does at its time
// limit. So a cleaner waits for the end of that process, takes down the labs that are left, and
// removes the directory of the weft command.
type cleaner struct {
	process *exec.Cmd
	alive   io.Closer // the end of a pipe, which also closes when this process is killed
}

// clean is the cleaner's script. Its arguments are the weft command and the prefix of the labs'
// names.
const clean = `
trap '' INT TERM HUP
cat >/dev/null
"$1" ps | awk -v prefix="$2" 'index($1, prefix) == 1 { print $1 }' | while read -r lab; do
  "$1" down "$lab"
done
rm -rf "$(dirname "$1")"
`

// labPrefix starts the names of this process's labs.
func labPrefix() string { return fmt.Sprintf("t%d-", os.Getpid()%100000) }

func startCleaner(weft string) (*cleaner, error) {
	// In a session of its own, no signal to the tests' terminal or process group reaches it.
	c := &cleaner{process: exec.Command("sh", "-c", clean, "cleaner", weft, labPrefix())}
	c.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if c.alive, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.process.Start()
}

// finish lets the cleaner clean, and waits for it.
func (c *cleaner) finish() {
	c.alive.Close()
	_ = c.process.Wait()
}

// TestKilledRunLeavesNoLab: a lab ends even if the process of its test is killed.
func TestKilledRunLeavesNoLab(t *testing.T) {
	const inner = "WEFT_TEST_TO_BE_KILLED"
	weft := needReal(t)
	if os.Getenv(inner) != "" {
		l := newLab(t, weft, t.TempDir(), pair)
		l.must("up", "-d", l.file)
		fmt.Println("lab", l.name, weft)
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestKilledRunLeavesNoLab$")
	c.Env = append(os.Environ(), inner+"=1", "TMPDIR="+t.TempDir())
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var lab, command string
	lines := bufio.NewScanner(out)
	for lab == "" && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "lab %s %s", &lab, &command)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if lab == "" {
		t.Fatal("the inner test has not started its lab")
	}
	left := true
	for end := time.Now().Add(patience); left && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		o, _, _ := runWeft(t, weft, "ps")
		_, err := os.Stat(filepath.Dir(command))
		left = strings.Contains(o, lab+" ") || err == nil
	}
	if left {
		t.Errorf("lab %s or %s is still there after %v", lab, filepath.Dir(command), patience)
	}
}
