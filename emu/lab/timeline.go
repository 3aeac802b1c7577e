package lab

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weftlab/weft/emu/status"
)

// maxHappened limits the events of hosts that a lab keeps. It exceeds the number
// of hosts and programs that can end, unless one is started again and again.
const maxHappened = 10_000

// happened holds the events of hosts and their programs.
type happened struct {
	mu  sync.Mutex
	all []status.Moment
}

// recordEvent records an event at the current emulated time.
func (l *Lab) recordEvent(event, host, text string) {
	m := status.Moment{Event: event, Where: host, Text: text}
	if l.doStopped(func() { m.At = l.fabric.Now() }) != nil {
		return // the lab is ending, and its hosts with it
	}
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	if len(l.events.all) < maxHappened {
		l.events.all = append(l.events.all, m)
	}
}

// addTo returns the timeline of the network with the events of the hosts, sorted by time.
func (h *happened) addTo(network []status.Moment) []status.Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(network, h.all...)
	slices.SortStableFunc(all, func(a, b status.Moment) int { return cmp.Compare(a.At, b.At) })
	return all
}
