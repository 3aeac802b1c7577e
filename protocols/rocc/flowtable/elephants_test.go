package flowtable

import (
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// traffic models five elephants, flows 0 to 4, with 15% of the packets each, and a thousand
// mice, which share the rest, through a port of 100 Gb/s: 333 full packets in an interval of
// 40 us, of which 64 are in the queue.
type traffic struct {
	table   Table
	random  func(int) int
	mice    bool // only mice send
	packets []*packet.Packet
	queue   []*packet.Packet
	now     units.Time
}

const (
	elephants = 5
	mice      = 1000
	interval  = 333 // packets
)

func newTraffic(c Config, seed uint64) *traffic {
	x := &traffic{table: New(c, newRand(seed)), random: newRand(seed + 99).IntN}
	for i := range elephants + mice {
		x.packets = append(x.packets, of(i))
	}
	return x
}

// interval plays one interval, and returns which elephants and how many mice get feedback.
func (x *traffic) interval() (big [elephants]bool, small int) {
	for range interval {
		flow := elephants + x.random(mice)
		if r := x.random(20); r < 3*elephants && !x.mice {
			flow = r / 3
		}
		p := x.packets[flow]
		x.table.OnArrival(x.now, p)
		if x.queue = append(x.queue, p); len(x.queue) > 64 {
			x.table.OnDeparture(x.now, x.queue[0])
			x.queue = x.queue[1:]
		}
		x.now += 120 * units.Nanosecond
	}
	x.table.EachFlow(x.now, func(f *Flow) {
		if f.Key.Flow < elephants {
			big[f.Key.Flow] = true
		} else {
			small++
		}
	})
	return big, small
}

// TestElephants: with default parameters the sampled tables report each elephant in nearly
// all intervals after 10 ms, and few mice; and they forget elephants that have stopped.
func TestElephants(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		share float64 // least share of the intervals in which each elephant is reported
		mice  float64 // most mice reported in an interval
		gone  int     // most intervals until the last elephant is forgotten
	}{
		{Queued, 0.99, 20, 2},
		{Recent, 0.99, 100, 2},
		{Bounded, 0.99, 1000, 26},
		{AFD, 0.99, 10, 60},
		{ElephantTrap, 0.99, 15, 25},
		{BubbleCache, 0.99, 20, 60},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			const warm, measured = 250, 2000
			var minShare, maxFlows, told, gone = 1.0, 0, 0.0, 0
			for seed := range uint64(3) {
				x := newTraffic(Config{Kind: c.kind}, seed)
				var counts [elephants]int
				for i := range warm + measured {
					big, small := x.interval()
					if i < warm {
						continue
					}
					for e, is := range big {
						if is {
							counts[e]++
						}
					}
					told += float64(small) / measured / 3
					maxFlows = max(maxFlows, small)
				}
				for _, n := range counts {
					minShare = min(minShare, float64(n)/measured)
				}
				x.mice = true
				last := 0
				for i := range 500 {
					if big, _ := x.interval(); big != [elephants]bool{} {
						last = i + 1
					}
				}
				gone = max(gone, last)
			}
			t.Logf("each elephant is told in %.2f%% of the intervals or more, %.1f mice in an interval (most %d); elephants that end are told for %d intervals", minShare*100, told, maxFlows, gone)
			if minShare < c.share || told > c.mice || gone > c.gone {
				t.Errorf("want %.2f%% or more, %.1f mice and %d intervals or less", c.share*100, c.mice, c.gone)
			}
		})
	}
}
