package fabric

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// TestProgress: asking during a run shows its progress, and does not change the
// run.
func TestProgress(t *testing.T) {
	lab := `
topology: {generate: {leaf-spine: {leaves: 2, spines: 2, hosts-per-leaf: 2, rate: 1Gbps, delay: 10us}}}
workload: [{cbr: {from: [h1, h2], to: h4, rate: 400Mbps, size: 500B, for: 100ms}}]
`
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			run := func(watched bool) *Fabric {
				f, err := newParallel(parse(t, lab), workers)
				if err != nil {
					t.Fatal(err)
				}
				done, seen := make(chan struct{}), make(chan Progress)
				go func() {
					var last Progress
					for over := !watched; !over; {
						select {
						case <-done:
							over = true
						default:
						}
						p := f.Progress()
						if p.Now < last.Now || p.Hops < last.Hops {
							t.Errorf("from %+v back to %+v", last, p)
						}
						last = p
						time.Sleep(100 * time.Microsecond)
					}
					seen <- last
				}()
				if err := f.Run(context.Background(), units.Never); err != nil {
					t.Error(err)
				}
				close(done)
				if last := <-seen; watched && (last.Now == 0 || last.Hops == 0) {
					t.Errorf("the run was never seen to come forward: %+v", last)
				}
				return f
			}
			quiet, watched := run(false), run(true)
			if quiet.Trace() != watched.Trace() || quiet.Events() != watched.Events() {
				t.Errorf("asking changed trace %x over %d events to %x over %d", quiet.Trace(), quiet.Events(), watched.Trace(), watched.Events())
			}
		})
	}
}

// TestRunEndsWithContext: a run ends with its context, also if little happens
// between two checks for deadlocks, and with all accounts in balance.
func TestRunEndsWithContext(t *testing.T) {
	for _, workers := range []int{1, 2} {
		f, err := newParallel(parse(t, `
duration: 100h
topology: {kinds: {switch: {pause: {xoff: 20KB}}}, generate: {star: {hosts: 3, rate: 1Gbps, delay: 10us}}}
workload: [{cbr: {from: [h1, h2], to: h3, rate: 1Mbps, size: 1000B}}]
`), workers)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for f.Progress().Hops < 1000 {
				time.Sleep(100 * time.Microsecond)
			}
			cancel()
		}()
		if err := f.Run(ctx, units.Never-1); !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: %v", workers, err)
		}
		if a := f.Accounts(); !a.Balanced() || a.Delivered == 0 {
			t.Errorf("%d workers: %+v", workers, a)
		}
	}
}
