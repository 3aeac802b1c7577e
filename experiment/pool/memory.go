package pool

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// watchMemory ends a job that exceeds its memory limit.
func watchMemory(pid int, limit units.Bytes, done <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if n := residentMemory(pid); n > limit {
			cancel(fmt.Errorf("it took more than %v of memory", limit))
			return
		}
	}
}

// residentMemory returns the resident memory of a process; 0 if it is gone.
func residentMemory(pid int) units.Bytes {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return units.Bytes(pages) * units.Bytes(os.Getpagesize())
}
