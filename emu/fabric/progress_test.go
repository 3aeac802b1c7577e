package fabric

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// TestProgress_IsSeenDuringARunAndChangesNothing: asking from another goroutine shows a run's
// progress, which never goes back, and the run is the same as without. The run waits for a
// question with each packet of a flow.
func TestProgress_IsSeenDuringARunAndChangesNothing(t *testing.T) {
	lab := `
topology: {generate: {leaf-spine: {leaves: 2, spines: 2, hosts-per-leaf: 2, rate: 1Gbps, delay: 10us}}}
workload: [{cbr: {from: [h1, h2], to: h4, rate: 400Mbps, size: 500B, for: 20ms}}]
`
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			run := func(asked <-chan struct{}) *Fabric {
				f, err := NewWithWorkers(parse(t, lab), workers)
				if err != nil {
					t.Fatal(err)
				}
				f.Interfaces[0].Port.SetObserver(0, observer(func(*packet.Packet, port.Direction, packet.Fate) {
					if asked != nil {
						<-asked
					}
				}))
				return f
			}
			quiet := run(nil)
			runTo(t, quiet, units.Never)

			asked, done, seen := make(chan struct{}), make(chan struct{}), make(chan status.Progress)
			watched := run(asked)
			go func() {
				var last status.Progress
				for {
					p := watched.Progress()
					if p.Now < last.Now || p.Hops < last.Hops {
						t.Errorf("from %+v back to %+v", last, p)
					}
					last = p
					select {
					case asked <- struct{}{}:
					case <-done:
						seen <- last
						return
					}
				}
			}()
			runTo(t, watched, units.Never)
			close(done)
			if last := <-seen; last.Now < 10*units.Millisecond || last.Hops == 0 {
				t.Errorf("of a run that ends at %v, the last that was seen is %+v", watched.Now(), last)
			}
			if quiet.Trace() != watched.Trace() || quiet.Events() != watched.Events() {
				t.Errorf("asking changed trace %x over %d events to %x over %d", quiet.Trace(), quiet.Events(), watched.Trace(), watched.Events())
			}
		})
	}
}

// TestRun_EndsWithItsContext: a run ends with its context, also if little happens between two
// checks for deadlocks, and with all accounts in balance.
func TestRun_EndsWithItsContext(t *testing.T) {
	for _, workers := range []int{1, 2} {
		f, err := NewWithWorkers(parse(t, `
duration: 100h
topology: {kinds: {switch: {pause: {xoff: 20KB}}}, generate: {star: {hosts: 3, rate: 1Gbps, delay: 10us}}}
workload: [{cbr: {from: [h1, h2], to: h3, rate: 1Mbps, size: 1000B}}]
`), workers)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		packets := 0
		f.Interfaces[2].Port.SetObserver(0, observer(func(*packet.Packet, port.Direction, packet.Fate) {
			if packets++; packets == 300 {
				cancel()
			}
		}))
		if err := f.Run(ctx, units.Never-1); !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: %v", workers, err)
		}
		if a := f.Accounts(); !a.Balanced() || a.Delivered == 0 {
			t.Errorf("%d workers: %+v", workers, a)
		}
	}
}
