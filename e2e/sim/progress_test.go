package sim

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/internal/await"
)

// openPTY returns both sides of a pseudo-terminal (pty(7)).
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		var number int
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		t.Skipf("SKIPPED: there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestProgress_IsShownOnATerminalAndErased: the progress is shown on a terminal and erased at the
// end; the report goes to standard output undisturbed.
func TestProgress_IsShownOnATerminalAndErased(t *testing.T) {
	t.Parallel()
	const erase = "\r\x1b[K" // what erases a line
	dir, _ := inDir(t, endlessLab)
	master, slave := openPTY(t)
	c := exec.Command(testlab.Weft(t), "sim", "lab.yaml")
	c.Dir = dir
	c.Env = append(os.Environ(), "TERM=xterm")
	var out strings.Builder
	c.Stdout, c.Stderr = &out, slave
	p := testlab.Launch(t, c)
	slave.Close()
	var shown testlab.Output
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(&shown, master) // until EIO: the other side is not open
	}()
	p.Await(t, "it shows how much is left", func() bool { return strings.Contains(shown.String(), " left") })
	_ = c.Process.Signal(os.Interrupt)
	_ = p.WaitEnd(t)
	await.Receive(t, "the end of what is on the terminal", closed)
	seen := shown.String()
	last := seen[strings.LastIndex(seen, erase)+len(erase):]
	if !strings.Contains(seen, "of 360000s (0%)") || !strings.Contains(seen, "million hops/s") || !strings.HasPrefix(last, "weft: interrupted at ") {
		t.Errorf("on the terminal: %q", seen)
	}
	if !strings.HasPrefix(out.String(), "lab ") || strings.Contains(out.String(), "\r") || c.ProcessState.ExitCode() != 130 {
		t.Errorf("exit code %d, on standard output: %q", c.ProcessState.ExitCode(), out.String())
	}
}
