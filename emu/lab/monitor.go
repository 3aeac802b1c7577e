package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

// monitorPeriod is the interval between judgements of the engine's load.
const monitorPeriod = time.Second

// monitor warns while a lab runs if the machine cannot keep up with it.
type monitor struct {
	mu    sync.Mutex
	watch wall.Watch
	now   string // the last warning, while it holds
}

// watchLoad judges the load until ctx ends or the engine stops, and reports to warn.
func (m *monitor) watchLoad(ctx context.Context, l *Lab, warn func(error)) {
	tick := time.NewTicker(monitorPeriod)
	defer tick.Stop()
	last, sent, _ := l.readLoad()
	stolen, held, began := readStolen(), throttled(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stopped:
			return
		case <-tick.C:
		}
		now, senders, err := l.readLoad()
		if err != nil {
			return // the engine has stopped
		}
		s, h, at := readStolen(), throttled(), time.Now()
		now.Demand = sumDemand(sent, senders)
		m.mu.Lock()
		verdict := m.watch.JudgeLoad(now.LoadSince(last), wall.Taken{Stolen: s.shareSince(stolen), Throttled: l.throttledShare(h-held, at.Sub(began))})
		switch {
		case verdict == "":
		case m.watch.IsLate():
			m.now = verdict
		default:
			m.now = ""
		}
		m.mu.Unlock()
		if verdict != "" {
			warn(errors.New(verdict))
		}
		last, sent, stolen, held, began = now, senders, s, h, at
	}
}

// currentWarning returns the current warning, "" if there is none.
func (m *monitor) currentWarning() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// loadSummary describes how the run kept up so far, "" if it always did.
func (m *monitor) loadSummary() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watch.Summary()
}

// readLoad returns the engine's load so far, with the traffic that has entered the
// fabric, in total and by interface.
func (l *Lab) readLoad() (now wall.Load, senders []sender, err error) {
	err = l.doStopped(func() {
		for i, e := range l.engines {
			x := e.driver.Load()
			if i == 0 {
				now = x
				continue
			}
			now.Deliveries += x.Deliveries
			now.Beyond += x.Beyond
			now.Idle = min(now.Idle, x.Idle) // the busiest decides
			now.Absent, now.Suspended = max(now.Absent, x.Absent), max(now.Suspended, x.Suspended)
		}
		for _, iface := range l.fabric.Interfaces {
			now.Packets += iface.Entered
			now.Bytes += iface.EnteredBytes
			from := sender{bytes: iface.EnteredBytes}
			if k := iface.Port.Link(); k != nil {
				from.rate = k.Rate()
			}
			senders = append(senders, from)
		}
		for _, s := range l.fabric.Switches {
			if s != nil {
				now.Copies += s.ReplicatedPackets()
			}
		}
		now.Late = l.latenessSummary().P99
	})
	return now, senders, err
}

// sender is an interface: the bytes that it has sent into the fabric, and the rate of
// its link, 0 if there is none.
type sender struct {
	bytes uint64
	rate  units.Rate
}

// sending is the share of the busiest interface's bytes from which an interface counts
// as a sender: acknowledgements are less.
const sending = 0.1

// sumDemand returns the total rate of the links of the interfaces that have sent
// between two samples; 0 if one of the links has no rate.
func sumDemand(from, to []sender) (sum units.Rate) {
	if len(from) != len(to) {
		return 0 // the first look failed: the lab has ended
	}
	var maxBytes uint64
	for i := range to {
		maxBytes = max(maxBytes, to[i].bytes-from[i].bytes)
	}
	for i := range to {
		n := to[i].bytes - from[i].bytes
		if n == 0 || float64(n) < sending*float64(maxBytes) {
			continue
		}
		if to[i].rate == 0 {
			return 0
		}
		sum += to[i].rate
	}
	return sum
}

// throttledShare returns for which share of a period a limit on processor time held the engines
// back. The limit does not hold for threads with real-time scheduling.
func (l *Lab) throttledShare(held, period time.Duration) units.Fraction {
	for _, e := range l.engines {
		if !e.driver.IsRealtime() {
			return units.Fraction(min(held.Seconds()/period.Seconds(), 1))
		}
	}
	return 0
}

// stolen is the machine's processor time so far, in ticks, and how much of it a
// hypervisor gave to others.
type stolen struct{ steal, all uint64 }

// readStolen reads the first line of /proc/stat (proc_stat(5)); zero when it
// cannot be read.
func readStolen() (s stolen) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(b, []byte("\n"))
	for i, f := range bytes.Fields(line) {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil || i > 8 { // the name; guest time, which user time includes
			continue
		}
		s.all += n
		if i == 8 {
			s.steal = n
		}
	}
	return s
}

func (s stolen) shareSince(from stolen) units.Fraction {
	if s.all <= from.all {
		return 0
	}
	return units.Fraction(float64(s.steal-from.steal) / float64(s.all-from.all))
}
