package accurate

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// network models links with contention points, and flows over some of them. The only packets
// are FRPs, which are never delayed: what is left is ACCurate alone.
type network struct {
	points []Point
	flows  []*netFlow
	hop    units.Time // from one link to the next
	now    units.Time
	events netEvents
	order  int
	lose   func() bool // reports for each FRP on each link whether it is lost there; may be nil
}

type netFlow struct {
	w      *network
	number int
	path   []int // links
	rp     *Control
	active bool
	armed  units.Time
}

type netEvent struct {
	at    units.Time
	order int
	do    func()
}

type netEvents []netEvent

func (e netEvents) Len() int { return len(e) }
func (e netEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e netEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *netEvents) Push(x any)   { *e = append(*e, x.(netEvent)) }
func (e *netEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *network) after(d units.Time, do func()) {
	w.order++
	heap.Push(&w.events, netEvent{w.now + d, w.order, do})
}

// run runs the network until a time.
func (w *network) run(until units.Time) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(netEvent)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// newNetwork returns a network of links with the given rates.
func newNetwork(rates []units.Rate, hop units.Time, alpha units.Fraction) *network {
	w := &network{hop: hop}
	for _, r := range rates {
		c := PaperPoint(r)
		c.Alpha = alpha
		w.points = append(w.points, NewPoint(&c, c.Clocks.New(nil)))
	}
	return w
}

// add adds a flow that has not begun.
func (w *network) add(path []int, line units.Rate, random *rand.Rand) *netFlow {
	c := Preset("paper", line)
	f := &netFlow{w: w, number: len(w.flows), path: path, rp: New(&c, line, random), armed: units.Never}
	w.flows = append(w.flows, f)
	return f
}

func (f *netFlow) set(active bool) {
	f.active = active
	f.rp.SetActive(f.w.now, active)
	f.settle()
}

// settle sends the reaction point's messages and arms its timer.
func (f *netFlow) settle() {
	w := f.w
	for f.rp.SendsMessages() {
		x := new(FRP)
		f.rp.NextMessage(packet.FlowKey{Flow: int32(f.number)}, x)
		w.after(0, func() { f.forward(x, 0) })
	}
	if at := f.rp.NextTimer(); at != f.armed {
		f.armed = at
		if at != units.Never {
			w.after(at-w.now, func() {
				if f.armed == at && w.now == at {
					f.armed = units.Never
					f.rp.OnTimer(at)
					f.settle()
				}
			})
		}
	}
}

// forward sends an FRP over the flow's k-th link.
func (f *netFlow) forward(x *FRP, k int) {
	w := f.w
	if k == len(f.path) {
		if x.TurnAround() {
			w.after(w.hop*units.Time(k), func() { f.hear(x) })
		}
		return
	}
	if w.lose != nil && w.lose() {
		return
	}
	if w.points[f.path[k]].ProcessFRP(w.now, x) {
		reply := *x
		reply.Response, reply.Short = true, true
		w.after(w.hop*units.Time(k), func() { f.hear(&reply) })
	}
	w.after(w.hop, func() { f.forward(x, k+1) })
}

func (f *netFlow) hear(x *FRP) {
	f.rp.OnMessage(f.w.now, x)
	f.settle()
}

// fair returns the max-min fair rates of the active flows, by water-filling (Bertsekas and
// Gallager, Data Networks, §6.5.2), and the number of levels.
func (w *network) fair() (rates []float64, levels int) {
	rates = make([]float64, len(w.flows))
	left := make([]float64, len(w.points))
	for i := range w.points {
		left[i] = float64(w.points[i].flowCapacity())
	}
	open := map[int]bool{}
	for i, f := range w.flows {
		if f.active {
			open[i] = true
		}
	}
	for len(open) > 0 {
		levels++
		count := make([]int, len(left))
		for i := range open {
			for _, l := range w.flows[i].path {
				count[l]++
			}
		}
		minShare := math.Inf(1)
		for l, n := range count {
			if n > 0 {
				minShare = min(minShare, left[l]/float64(n))
			}
		}
		var fixed []int
		for i := range open {
			for _, l := range w.flows[i].path {
				if left[l]/float64(count[l]) <= minShare*(1+1e-9) {
					fixed = append(fixed, i)
					break
				}
			}
		}
		for _, i := range fixed {
			rates[i] = minShare
			delete(open, i)
			for _, l := range w.flows[i].path {
				left[l] -= minShare
			}
		}
	}
	return rates, levels
}

// off returns how far the worst flow is from its fair rate, as a share of that rate.
func (w *network) off() (worst float64) {
	fair, _ := w.fair()
	for i, f := range w.flows {
		if f.active {
			worst = max(worst, math.Abs(float64(f.rp.Rate())/fair[i]-1))
		}
	}
	return worst
}

// drawNetwork draws links and flows over them. The first link of each flow is its host's.
func drawNetwork(t *rapid.T) *network {
	rate := rapid.SampledFrom([]units.Rate{10 * units.Gbps, 40 * units.Gbps, 100 * units.Gbps})
	hosts := rapid.IntRange(1, 5).Draw(t, "hosts")
	links := hosts + rapid.IntRange(1, 6).Draw(t, "links")
	rates := make([]units.Rate, links)
	for i := range rates {
		rates[i] = rate.Draw(t, "rate")
	}
	w := newNetwork(rates, units.Time(rapid.IntRange(100, 1000).Draw(t, "hop"))*units.Nanosecond, 0.05)
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range rapid.IntRange(1, 10).Draw(t, "flows") {
		host := rapid.IntRange(0, hosts-1).Draw(t, "host")
		rest := rapid.Permutation(seq(hosts, links)).Draw(t, "way")
		path := append([]int{host}, rest[:rapid.IntRange(1, min(4, len(rest))).Draw(t, "length")]...)
		w.add(path, rates[host], random)
	}
	return w
}

// floor sets the option of that name.
func (w *network) floor(floor bool) {
	for i := range w.points {
		w.points[i].config.Floor = floor
	}
}

// begin starts two thirds of the flows in the first 200 us, and runs until then.
func (w *network) begin(seed uint64) *rand.Rand {
	random := rand.New(rand.NewPCG(seed, 1))
	for _, f := range w.flows {
		if random.IntN(3) > 0 {
			w.after(units.Time(random.IntN(200))*us, func() { f.set(true) })
		}
	}
	w.run(200 * us)
	return random
}

// seq returns from..to-1.
func seq(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}
