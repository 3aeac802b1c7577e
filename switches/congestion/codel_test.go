package congestion

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

const ms = units.Millisecond

// TestCoDelTranscript: the input is when a packet leaves in ms, how long it waited
// in ms, what waits behind it, and its ECN; the output is its fate and the time of
// the next drop. The times are 100 ms divided by the square roots of 1, 2, 3, ...
// (RFC 8289 §5.2).
func TestCoDelTranscript(t *testing.T) {
	for _, c := range []struct {
		name   string
		config CoDel
		script string
	}{
		{"ect", CoDel{Target: 5 * ms, Interval: 100 * ms, NotECT: DropNotECT}, `
			1     4.9 9000 ect0    -> fine
			10    5   9000 ect0    -> fine
			100   50  9000 ect0    -> fine
			109.9 50  9000 ect0    -> fine
			110   50  9000 ect0    -> marked 210
			111   50  9000 ect0    -> fine   210
			209   50  9000 ect0    -> fine   210
			215   50  9000 ect0    -> marked 280.710678
			280   50  9000 ect0    -> fine   280.710678
			281   50  9000 ect0    -> marked 338.445705
			500   50  9000 ce      -> marked 388.445705
			500   50  9000 ect1    -> marked 433.167064
			500   50  9000 ect0    -> marked 473.991893
			501   4.9 9000 ect0    -> fine
			502   50  9000 ect0    -> fine
			601   50  9000 ect0    -> fine
			602   50  9000 ect0    -> marked 646.721359`}, // 5 since dropping began: 100/sqrt(5)
		{"not ect", CoDel{Target: 5 * ms, Interval: 100 * ms, NotECT: DropNotECT}, `
			10    6   9000 not-ect -> fine
			110   50  9000 not-ect -> early-drop 210
			110   50  9000 not-ect -> fine   210
			210   50  9000 arp     -> early-drop 210
			210   50  9000 not-ect -> fine   280.710678
			500   50  9000 not-ect -> early-drop 280.710678
			500   50  9000 not-ect -> early-drop 338.445705
			500   50  9000 not-ect -> early-drop 388.445705
			500   50  9000 ect0    -> marked 473.991893
			500   50  9000 ect0    -> marked 511.78834
			501   50  1514 not-ect -> fine`},
		{"not ect, pass", CoDel{Target: 5 * ms, Interval: 100 * ms}, `
			10    6   9000 not-ect -> fine
			110   50  9000 not-ect -> fine   210
			110   50  9000 ect0    -> fine   210
			210   50  9000 ect0    -> marked 280.710678`},
		{"a long silence", CoDel{Target: 5 * ms, Interval: 100 * ms, NotECT: DropNotECT}, `
			10    6   9000 ect0    -> fine
			110   50  9000 ect0    -> marked 210
			210   50  9000 ect0    -> marked 280.710678
			281   50  9000 ect0    -> marked 338.445705
			339   50  9000 ect0    -> marked 388.445705
			340   1   9000 ect0    -> fine
			1900  6   9000 ect0    -> fine
			2000  6   9000 ect0    -> marked 2100`}, // 1600 ms are 16 intervals
		{"datacenter", CoDel{Target: 50 * units.Microsecond, Interval: ms}, `
			0.1   0.05 9000 ect0   -> fine
			1.1   0.05 9000 ect0   -> marked 2.1
			2.1   0.05 1515 ect0   -> marked 2.807106
			3     0.05 1514 ect0   -> fine
			3.1   0.05 1515 ect0   -> fine`},
	} {
		t.Run(c.name, func(t *testing.T) {
			point := New(Choice{Settings: &c.config}, Env{}).(*codel)
			var want, got []string
			for line := range strings.Lines(strings.TrimSpace(c.script)) {
				want = append(want, strings.Join(strings.Fields(line), " "))
				var at, waited float64
				var queue int64
				var code string
				if _, err := fmt.Sscan(line, &at, &waited, &queue, &code); err != nil {
					t.Fatal(err)
				}
				ecn, isIP := map[string]uint8{"not-ect": wire.NotECT, "ect0": wire.ECT0, "ect1": wire.ECT1, "ce": wire.CE}[code]
				p := ip(ecn)
				if !isIP {
					p = &packet.Packet{Ether: wire.EtherTypeARP, Size: 60}
				}
				now := units.Time(math.Round(at * float64(ms)))
				p.At = now - units.Time(math.Round(waited*float64(ms)))
				if fate := point.OnEnqueue(p.At, Queue{}, p); fate != packet.Fine {
					t.Fatalf("%s: %v when it joins", line, fate)
				}
				fate := point.OnDequeue(now, Queue{Bytes: units.Bytes(queue)}, p)
				s := fmt.Sprintf("%v %v %d %s -> %v", at, waited, queue, code, fate)
				if point.dropping {
					s += fmt.Sprint(" ", math.Trunc(float64(point.dropNext)/float64(ms)*1e6)/1e6)
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-script +point):\n%s", diff)
			}
			if next := point.OnTimer(0, Queue{}); next != units.Never {
				t.Errorf("it asks for a timer at %v", next)
			}
		})
	}
}

// reference is the loop of RFC 8289 §5.5 and §5.6 over a separate queue, with the
// marks of Linux's codel_impl.h.
type reference struct {
	target, interval, firstAbove, dropNext units.Time
	queue                                  []*packet.Packet
	bytes, longest                         units.Bytes
	dropping                               bool
	count, lastCount                       float64
	log                                    []string
}

func (r *reference) law(t units.Time) units.Time {
	return t + units.Time(float64(r.interval)/math.Sqrt(r.count))
}

func (r *reference) next(now units.Time) (p *packet.Packet, ok bool) {
	if len(r.queue) == 0 {
		r.firstAbove = 0
		return nil, false
	}
	p = r.queue[0]
	r.queue = r.queue[1:]
	r.bytes -= p.Size
	if now-p.At < r.target || r.bytes <= r.longest {
		r.firstAbove = 0
	} else if r.firstAbove == 0 {
		r.firstAbove = now + r.interval
	} else if now >= r.firstAbove {
		ok = true
	}
	return p, ok
}

// hit marks or drops a packet.
func (r *reference) hit(p *packet.Packet) (marked bool) {
	if marked = p.ECN() != wire.NotECT; marked {
		r.log = append(r.log, fmt.Sprint("mark ", p.ID))
	} else {
		r.log = append(r.log, fmt.Sprint("drop ", p.ID))
	}
	return marked
}

func (r *reference) send(now units.Time) {
	p, ok := r.next(now)
	if p == nil {
		r.dropping = false
		return
	}
	if r.dropping {
		if !ok {
			r.dropping = false
		}
		for r.dropping && now >= r.dropNext {
			r.count++
			if r.hit(p) {
				r.dropNext = r.law(r.dropNext)
				break
			}
			if p, ok = r.next(now); ok {
				r.dropNext = r.law(r.dropNext)
			} else {
				r.dropping = false
			}
		}
	} else if ok {
		if !r.hit(p) {
			p, _ = r.next(now)
		}
		r.dropping = true
		delta := r.count - r.lastCount
		r.count = 1
		if delta > 1 && now-r.dropNext < 16*r.interval {
			r.count = delta
		}
		r.dropNext = r.law(now)
		r.lastCount = r.count
	}
	r.log = append(r.log, fmt.Sprint("send ", p.ID))
}

// TestCoDelIsTheRFCs: over a queue with random arrivals and departures the point
// does what the loop of RFC 8289 does; and it never drops if no more than one
// packet would be left.
func TestCoDelIsTheRFCs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := CoDel{Target: 5 * ms, Interval: units.Time(rapid.IntRange(6, 100).Draw(t, "interval")) * ms, NotECT: DropNotECT}
		point := New(Choice{Settings: &config}, Env{})
		ref := &reference{target: config.Target, interval: config.Interval, longest: 1514}
		var queue packet.List
		var bytes units.Bytes
		var packets int
		var log []string
		var now units.Time
		longest := units.Bytes(1514)
		fast := rapid.IntRange(1, 6).Draw(t, "speed of arrivals")
		ect := rapid.IntRange(0, 2).Draw(t, "ect")
		for id := range rapid.IntRange(1, 800).Draw(t, "steps") {
			now += units.Time(rapid.IntRange(0, 3000).Draw(t, "gap")) * units.Microsecond
			if rapid.IntRange(0, 6).Draw(t, "arrives") < fast {
				p := ip(wire.NotECT)
				if ect == 1 || ect == 2 && rapid.Bool().Draw(t, "ect") {
					p = ip(wire.ECT0)
				}
				p.ID, p.At = uint64(id), now
				p.Size = units.Bytes(rapid.SampledFrom([]int{60, 1514, 1514, 4000}).Draw(t, "size"))
				longest = max(longest, p.Size)
				point.OnEnqueue(now, Queue{Bytes: bytes, Packets: packets}, p)
				c := *p
				ref.queue, ref.bytes, ref.longest = append(ref.queue, &c), ref.bytes+p.Size, longest
				queue.Push(p)
				bytes += p.Size
				packets++
				continue
			}
			for p := queue.Pop(); p != nil; p = queue.Pop() {
				bytes -= p.Size
				packets--
				fate := point.OnDequeue(now, Queue{Bytes: bytes, Packets: packets}, p)
				if fate.IsDrop() && bytes <= longest {
					t.Fatalf("packet %d is dropped, %v is left", p.ID, bytes)
				}
				if fate.IsDrop() {
					log = append(log, fmt.Sprint("drop ", p.ID))
					continue
				}
				if fate == packet.Marked {
					log = append(log, fmt.Sprint("mark ", p.ID))
				}
				log = append(log, fmt.Sprint("send ", p.ID))
				break
			}
			ref.send(now)
			if diff := cmp.Diff(ref.log, log); diff != "" {
				t.Fatalf("(-RFC 8289 +point):\n%s", diff)
			}
			ref.log, log = ref.log[:0], log[:0]
		}
	})
}

// TestCoDelBringsTheDelayDown: under a constant overload by packets without ECN,
// the rate of drops grows until the excess is gone.
func TestCoDelBringsTheDelayDown(t *testing.T) {
	config := defaultCoDel()
	point := New(Choice{Settings: config}, Env{})
	var queue packet.List
	var bytes units.Bytes
	var drops int
	worst := units.Time(0)
	const seconds = 60
	next := units.Time(0)
	for now := units.Time(0); now < seconds*units.Second; now += ms { // a packet leaves each ms
		for ; next <= now; next += ms * 10 / 11 { // and 1.1 arrive
			p := ip(wire.NotECT)
			p.At = next
			queue.Push(p)
			bytes += p.Size
		}
		for p := queue.Pop(); p != nil; p = queue.Pop() {
			bytes -= p.Size
			if !point.OnDequeue(now, Queue{Bytes: bytes}, p).IsDrop() {
				if now > seconds*units.Second/2 {
					worst = max(worst, now-p.At)
				}
				break
			}
			drops++
		}
	}
	if drops < seconds*100*9/10 || worst > 50*ms {
		t.Errorf("%d packets dropped, want about %d; waited up to %v in the second half", drops, seconds*100, worst)
	}
}
