package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// barrier lets parties wait for each other. Windows are microseconds long, and waking a
// thread takes about as long, so a party spins, then offers its core to other threads
// again and again. It sleeps only after it has waited for milliseconds, which means that
// another party has lost its core. With fewer cores than parties it gives way at once.
type barrier struct {
	waiting atomic.Int32
	_       [60]byte
	turn    atomic.Uint32
	_       [60]byte
	asleep  atomic.Int32
	mu      sync.Mutex
	over    sync.Cond
}

func (b *barrier) init() { b.over.L = &b.mu }

const (
	// spins is how often a party polls before it offers its core, about 20 us.
	spins = 10_000
	// offers is how often it offers its core before it sleeps, about 2 ms if no other
	// thread wants the core.
	offers = 5_000
	// yields is how often it gives way if parties share cores.
	yields = 100
)

// wait returns once that many parties have arrived. All parties of a turn pass the same
// number.
func (b *barrier) wait(parties int) {
	if parties == 1 {
		return
	}
	turn := b.turn.Load()
	if b.waiting.Add(1) == int32(parties) {
		b.waiting.Store(0)
		b.turn.Add(1)
		if b.asleep.Load() > 0 {
			b.mu.Lock()
			b.over.Broadcast()
			b.mu.Unlock()
		}
		return
	}
	if parties <= runtime.GOMAXPROCS(0) {
		for range spins {
			if b.turn.Load() != turn {
				return
			}
		}
		for range offers {
			if b.turn.Load() != turn {
				return
			}
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	} else {
		for range yields {
			if b.turn.Load() != turn {
				return
			}
			runtime.Gosched()
		}
	}
	b.mu.Lock()
	b.asleep.Add(1)
	for b.turn.Load() == turn {
		b.over.Wait()
	}
	b.asleep.Add(-1)
	b.mu.Unlock()
}
