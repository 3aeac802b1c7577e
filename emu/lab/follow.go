package lab

import (
	"sync"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// follower applies changes of links to the devices of real hosts: shaper, MTU
// and carrier. It has its own goroutine, because netlink takes tens of
// microseconds that the engine's thread cannot spare.
type follower struct {
	mu      sync.Mutex
	changed map[followed]links.Settings // requested, not yet applied
	wake    chan struct{}
	done    chan struct{}
	applied map[followed]links.Settings
}

// followed is a host's interface that follows its link.
type followed interface {
	SetMTU(mtu int) error
	SetRate(rate units.Rate) error
	SetCarrier(up bool) error
}

func newFollower() *follower {
	return &follower{changed: map[followed]links.Settings{}, wake: make(chan struct{}, 1), done: make(chan struct{}), applied: map[followed]links.Settings{}}
}

// requestSettings requests new settings for a device; only the last request counts.
func (f *follower) requestSettings(d followed, s links.Settings) {
	f.mu.Lock()
	f.changed[d] = s
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (f *follower) startFollower(warn func(error)) {
	go func() {
		defer close(f.done)
		for range f.wake {
			f.mu.Lock()
			todo := f.changed
			f.changed = map[followed]links.Settings{}
			f.mu.Unlock()
			for d, s := range todo {
				f.applySettings(d, s, warn)
			}
		}
	}()
}

// applySettings sets what differs from the last settings applied.
func (f *follower) applySettings(d followed, s links.Settings, warn func(error)) {
	last, known := f.applied[d]
	f.applied[d] = s
	if !known || last.MTU != s.MTU {
		if err := d.SetMTU(int(s.MTU)); err != nil {
			warn(err)
		}
	}
	if !known || last.Rate != s.Rate {
		if err := d.SetRate(s.Rate); err != nil {
			warn(err)
		}
	}
	if !known || last.Up != s.Up {
		if err := d.SetCarrier(s.Up); err != nil {
			warn(err)
		}
	}
}

// closeFollower stops the follower and waits for settings in progress.
func (f *follower) closeFollower() {
	close(f.wake)
	<-f.done
}
