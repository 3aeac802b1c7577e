package lab

import (
	"sync"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// follower keeps the devices of real hosts in step with their links: shaper,
// MTU and carrier. It has a goroutine of its own, because netlink takes tens
// of microseconds that the engine's thread does not have.
type follower struct {
	mu      sync.Mutex
	changed map[followed]links.Settings // wanted, not yet done
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

// follow notes what a device is to follow; only the last wish counts.
func (f *follower) follow(d followed, s links.Settings) {
	f.mu.Lock()
	f.changed[d] = s
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (f *follower) start(warn func(error)) {
	go func() {
		defer close(f.done)
		for range f.wake {
			f.mu.Lock()
			todo := f.changed
			f.changed = map[followed]links.Settings{}
			f.mu.Unlock()
			for d, s := range todo {
				f.apply(d, s, warn)
			}
		}
	}()
}

// apply sets what differs from what was set last.
func (f *follower) apply(d followed, s links.Settings, warn func(error)) {
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

// close waits for what is being set.
func (f *follower) close() {
	close(f.wake)
	<-f.done
}
