package testlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turns is the environment variable with the number of tests with labs that run at once on this
// machine, in all processes together.
const turns = "WEFT_TEST_LABS"

// labsPerCore is the default number of tests with labs for each core: most of what they do is
// to wait for programs to end and for timers.
const labsPerCore = 2

// holders are the turns of the tests of this process, by their names.
var holders sync.Map

// turnOf returns the number of the turn of a test, or of the one that it is a part of. No other
// test on this machine has that number until the turn ends.
func turnOf(name string) (turn int, ok bool) {
	for {
		if turn, ok := holders.Load(name); ok {
			return turn.(int), true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return 0, false
		}
		name = name[:i]
	}
}

// takeTurn waits until fewer tests with labs run than the machine has room for. The test's turn
// lasts until its end, and a process that is killed gives its turns back.
func takeTurn(t *testing.T) {
	t.Helper()
	if _, ok := turnOf(t.Name()); ok {
		return
	}
	n := labsPerCore * runtime.NumCPU()
	if set := os.Getenv(turns); set != "" {
		var err error
		if n, err = strconv.Atoi(set); err != nil || n < 1 {
			t.Fatalf("%s=%q: give a number of at least 1", turns, set)
		}
	}
	dir := filepath.Join(os.TempDir(), "weft-test-turns")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Log("waits for its turn") // scripts/suite reads this line and the next
	// There is no limit here: the tests before this one have theirs. Who comes first waits for the
	// next turn that is given back, and the others for him.
	line, err := os.OpenFile(filepath.Join(dir, "line"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(line.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	for ; ; time.Sleep(20 * time.Millisecond) {
		for i := range n {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				t.Log("has its turn")
				holders.Store(t.Name(), i)
				t.Cleanup(func() {
					holders.Delete(t.Name())
					f.Close()
				})
				return
			}
			f.Close()
		}
	}
}
