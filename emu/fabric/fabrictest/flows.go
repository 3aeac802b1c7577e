package fabrictest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// List is a pattern with an explicit list of flows, by the host that starts them.
type List struct {
	Members []int
	Flows   map[int][]pattern.Flow // by rising At
	Told    map[int]*Told          // what the agents of hosts were told
}

// Told is what one agent was told, in order.
type Told struct {
	Arrived, Completed []pattern.Flow
}

// Hosts implements pattern.Pattern.
func (l *List) Hosts() []int { return l.Members }

// Agent implements pattern.Pattern.
func (l *List) Agent(host int) pattern.Agent {
	t := &Told{}
	if l.Told == nil {
		l.Told = map[int]*Told{}
	}
	l.Told[host] = t
	return &lister{flows: l.Flows[host], told: t}
}

type lister struct {
	flows []pattern.Flow
	told  *Told
}

func (a *lister) NextFlow() units.Time {
	if len(a.flows) == 0 {
		return units.Never
	}
	return a.flows[0].At
}

func (a *lister) Fire(_ units.Time, start func(pattern.Flow)) {
	f := a.flows[0]
	a.flows = a.flows[1:]
	start(f)
}

func (a *lister) OnArrival(_ units.Time, f pattern.Flow, _ func(pattern.Flow)) {
	a.told.Arrived = append(a.told.Arrived, f)
}

func (a *lister) OnCompletion(_ units.Time, f pattern.Flow, _ func(pattern.Flow)) {
	a.told.Completed = append(a.told.Completed, f)
}

// Draw returns a list of flows between hosts: n of each host, in exponential gaps, of at
// most maxSize bytes. If they are reads, the host that starts a flow gets its data.
func Draw(hosts []int, seed uint64, n int, gap units.Time, maxSize int64, reads bool) *List {
	l := &List{Members: hosts, Flows: map[int][]pattern.Flow{}}
	for i, h := range hosts {
		r := sim.NewRand(seed, fmt.Sprint("drawn ", h))
		at := units.Time(0)
		for k := range n {
			at += units.Time(r.ExpFloat64() * float64(gap))
			to := hosts[(i+1+r.IntN(len(hosts)-1))%len(hosts)]
			f := pattern.Flow{Tag: uint32(k), From: h, To: to, Size: units.Bytes(drawSize(r, maxSize)), At: at, Group: uint64(k / 10)}
			if reads {
				f.From, f.To = f.To, f.From
			}
			l.Flows[h] = append(l.Flows[h], f)
		}
	}
	return l
}

// drawSize draws sizes that are as often small as large.
func drawSize(r *rand.Rand, maxSize int64) int64 {
	if r.IntN(2) == 0 {
		return r.Int64N(3000)
	}
	return r.Int64N(maxSize) + 1
}

// Loop is a closed loop: each client asks a server, which answers. After the answer the
// client asks the next server, so that arrivals across all workers decide what happens
// next.
type Loop struct {
	Clients, Servers []int
	Rounds           int
}

// Hosts implements pattern.Pattern.
func (l *Loop) Hosts() []int {
	all := slices.Concat(l.Clients, l.Servers)
	slices.Sort(all)
	return all
}

// Agent implements pattern.Pattern.
func (l *Loop) Agent(host int) pattern.Agent {
	if i := slices.Index(l.Clients, host); i >= 0 {
		return &client{Loop: l, host: host, next: i, due: units.Time(i) * units.Microsecond}
	}
	return server{host}
}

type client struct {
	*Loop
	host, next, round int
	due               units.Time
}

func (c *client) NextFlow() units.Time { return c.due }
func (c *client) Fire(now units.Time, start func(pattern.Flow)) {
	c.due = units.Never
	c.sendRequest(now, start)
}
func (c *client) sendRequest(now units.Time, start func(pattern.Flow)) {
	if c.round == c.Rounds {
		return
	}
	c.round++
	to := c.Servers[c.next%len(c.Servers)]
	start(pattern.Flow{Tag: uint32(c.round), From: c.host, To: to, Size: 64, At: now, Group: uint64(c.host)<<32 | uint64(c.round)})
}
func (c *client) OnArrival(now units.Time, _ pattern.Flow, start func(pattern.Flow)) {
	c.next += 1 + int(now/units.Microsecond)%3 // the arrival time decides where it goes on
	c.sendRequest(now, start)
}
func (c *client) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}

type server struct{ host int }

func (server) NextFlow() units.Time                                      { return units.Never }
func (server) Fire(units.Time, func(pattern.Flow))                       {}
func (server) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}
func (s server) OnArrival(now units.Time, f pattern.Flow, start func(pattern.Flow)) {
	start(pattern.Flow{Tag: f.Tag, From: s.host, To: f.From, Size: 20_000 + units.Bytes(f.Tag%7)*9000, At: now})
}

// TCP returns a TCP carrier with a rate control, with timeouts that suit a lab of
// microseconds.
func TCP(t testing.TB, control string) *carrier.TCP {
	t.Helper()
	m, err := cc.Methods.Find(control)
	if err != nil {
		t.Fatal(err)
	}
	c := &carrier.TCP{Config: tcp.Default(), Control: cc.Choice{Name: control, Settings: m.Preset(m.Presets[0], 10*units.Gbps)}}
	c.ECN = carrier.ECNOf(c.Control)
	c.MinRTO, c.InitialRTO, c.DelayedAck = units.Millisecond, 10*units.Millisecond, 100*units.Microsecond
	return c
}
