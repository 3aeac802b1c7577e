// Command coretocore measures how long a cache line takes from one core to another: two
// threads on the first two cores that the process may use answer each other through one
// word. Two workers of a run in virtual time pass packets in this way. On one die it takes 25
// to 60 ns, between dies 100 to 200; a hypervisor may move virtual cores between the two at
// any time, and does not show it. It prints nanoseconds, the median of several tries.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tries = 9
	turns = 20000
)

func main() {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		fail(err)
	}
	if may.Count() < 2 {
		fail(errors.New("the process may use one core only"))
	}
	var cores []int
	for c := 0; len(cores) < 2; c++ {
		if may.IsSet(c) {
			cores = append(cores, c)
		}
	}
	var word struct {
		_ [128]byte
		n atomic.Uint64
		_ [128]byte
	}
	// answer waits for each number from first to last, in steps of two, and writes the next.
	answer := func(first, last uint64) {
		for i := first; i <= last; i += 2 {
			for word.n.Load() != i {
			}
			word.n.Store(i + 1)
		}
	}
	go func() {
		pinToCore(cores[1])
		answer(1, 2*tries*turns-1)
	}()
	pinToCore(cores[0])
	var took []float64
	for t := range uint64(tries) {
		start := time.Now()
		answer(t*2*turns, (t+1)*2*turns-2)
		took = append(took, float64(time.Since(start).Nanoseconds())/(2*turns))
	}
	slices.Sort(took)
	fmt.Printf("%.0f\n", took[tries/2])
}

// pinToCore keeps the calling goroutine on a core.
func pinToCore(core int) {
	runtime.LockOSThread()
	var s unix.CPUSet
	s.Set(core)
	if err := unix.SchedSetaffinity(0, &s); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "coretocore:", err)
	os.Exit(1)
}
