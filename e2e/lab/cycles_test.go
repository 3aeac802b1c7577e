package lab

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestSlowClock_CyclesOfPerftestAgreeWithItsClock: perftest compares cycles of the processor with the
// clock, and gives no result if they do not agree. They do also while emulated time stands still now
// and then. Its programs are known by their names.
func TestSlowClock_CyclesOfPerftestAgreeWithItsClock(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: cycles are those of the processor on other architectures")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: this test needs gcc: run scripts/test.sh, which installs it")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out tests with real programs")
	}
	if err := testlab.BuildSlowClock(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "ib_write_bw")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "../../netns-lab/slowclock/testdata/cycles.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const dilation = 5
	file := shareClock(t, dir, dilation)
	c := exec.Command(program)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(filepath.Dir(testlab.Weft(t)), "slowclock.so"), "WEFT_CLOCK="+file)
	ended := make(chan struct{})
	var stalls sync.WaitGroup
	stalls.Go(func() { standStill(t, file, ended) })
	out, err := c.Output()
	close(ended)
	stalls.Wait()
	var correlation, rate float64
	var back int
	if _, serr := fmt.Sscan(string(out), &correlation, &rate, &back); err != nil || serr != nil {
		t.Fatalf("%v %v\n%s", err, serr, out)
	}
	// They differ by what gettimeofday cuts off. perftest wants a correlation of 0.9.
	if correlation < 0.99999 || rate < 999 || rate > 1001 || back > 0 {
		t.Errorf("correlation %v, %v cycles per us, want 1000; %d went back", correlation, rate, back)
	}
}

// standStill lets a shared clock stand still for 2 ms of emulated time, again and again.
func standStill(t *testing.T, file string, ended <-chan struct{}) {
	err := os.Chmod(file, 0o600) // a lab gives it to programs to read
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(file, os.O_RDWR, 0)
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	const place = 32 // after the magic, the dilation and two times
	stood := uint64(0)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ended:
			tick.Stop()
			return
		case <-tick.C:
		}
		stood += 2e9
		if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, stood), place); err != nil {
			t.Error(err)
			return
		}
	}
}
