package wall

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/links/device/uring"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// ringWire is a wire that a ring watches.
type ringWire struct {
	wire
	refuses          error
	waiting, stopped bool
	ready            func()
}

func (w *ringWire) UsesRing() bool { return true }

func (w *ringWire) Start(r *uring.Ring, ready func()) error {
	if w.refuses != nil {
		return w.refuses
	}
	w.ready = ready
	r.PollMultishot(r.RegisterHandler(w), w.fd)
	return nil
}

func (w *ringWire) Stop() { w.stopped = true }

func (w *ringWire) NeedsPoll() bool { return w.waiting }

func (w *ringWire) OnCompletion(uint32, int, uint16, bool) { w.waiting = true; w.ready() }

func (w *ringWire) PollInput(now units.Time, max int) int {
	n := w.wire.PollInput(now, min(max, 2))
	w.waiting = n == 2
	return n
}

// tryRing reports why this kernel allows no ring. A ring belongs to one thread.
func tryRing() error {
	r, err := uring.New(1, 0)
	if err == nil {
		r.Close()
	}
	return err
}

// Devices with and without a ring are read together, work is done, and a refused ring is
// an error only if it was required.
func TestRing_ReadsBesideOtherDevices(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name   string
		io     IO
		starts error
		uring  bool
		fails  error
	}{
		{"read-write", ReadWrite, nil, false, nil},
		{"uring", Uring, nil, true, nil},
		{"refused", Uring, refused, false, nil},
		{"required", RequireUring, refused, false, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := OnThread(Ordinary, tryRing); err != nil && c.uring {
				t.Skipf("NOT TESTED: %v", err)
			}
			var e sim.Engine
			d := newDriver(t, &e, Options{Limit: units.Millisecond, IO: c.io})
			var far [2]int
			var near [2]*ringWire
			arrived := make(chan int, 200)
			for i := range near {
				near[i] = &ringWire{refuses: c.starts}
				near[i].wire, far[i] = newWire(t)
				near[i].got = func(units.Time, int) { arrived <- i }
			}
			for _, p := range []Poller{near[0], &near[1].wire} { // the second has no ring
				if err := d.AttachDevice(p); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx, NewClock(1), units.Never, func() {}) }()
			if c.fails != nil {
				if err := <-ended; !errors.Is(err, c.fails) {
					t.Errorf("ended with %v", err)
				}
				cancel()
				return
			}
			var got [2]int
			for i := range 100 {
				for _, fd := range far {
					if err := unix.Send(fd, []byte("frame"), 0); err != nil {
						t.Fatal(err)
					}
					if i%10 < 5 {
						got[await.Receive(t, "a frame", arrived)]++ // the engine sleeps again
					}
				}
				if i%10 == 9 {
					for range 10 {
						got[await.Receive(t, "a frame", arrived)]++
					}
				}
				if i%20 == 0 {
					if err := d.Do(func() {}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got != [2]int{100, 100} || d.UsesUring() != c.uring {
				t.Errorf("arrived %v, io_uring %v", got, d.UsesUring())
			}
			cancel()
			if err := <-ended; err != nil || near[0].stopped != c.uring {
				t.Errorf("ended with %v, stopped %v", err, near[0].stopped)
			}
		})
	}
}
