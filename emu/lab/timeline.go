package lab

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weftlab/weft/emu/fabric"
)

// maxHappened is how much a lab remembers of what happened to its hosts: more than
// hosts and programs can end, unless one begins again and again.
const maxHappened = 10_000

// happened is what happened to hosts and their programs.
type happened struct {
	mu  sync.Mutex
	all []fabric.Moment
}

// happens notes something at the present of emulated time.
func (l *Lab) happens(event, host, text string) {
	m := fabric.Moment{Event: event, Where: host, Text: text}
	if l.do(func() { m.At = l.fabric.Now() }) != nil {
		return // the lab ends, and its hosts with it
	}
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	if len(l.events.all) < maxHappened {
		l.events.all = append(l.events.all, m)
	}
}

// timeline is that of the network and the hosts together, by time. The engines are
// held meanwhile.
func (l *Lab) timeline() []fabric.Moment {
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	all := append(l.fabric.Timeline(), l.events.all...)
	slices.SortStableFunc(all, func(a, b fabric.Moment) int { return cmp.Compare(a.At, b.At) })
	return all
}
