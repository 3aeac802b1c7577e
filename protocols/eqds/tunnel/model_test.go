package tunnel

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// faults is a network that does anything to packets.
type faults struct {
	rand                   *rand.Rand
	drop, trim, copy, wild float64
	spread                 units.Time
	oldData                []eqds.Data
	oldControl             []eqds.Control
}

func (f *faults) happens(p float64) bool { return p > 0 && f.rand.Float64() < p }

// trips returns the fate of a packet.
func (f *faults) trips() (all []trip) {
	if f.happens(f.drop) {
		return nil
	}
	for n := 1; ; n++ {
		x := trip{delay: 5*us + units.Time(f.rand.Int64N(int64(f.spread)+1)), trim: f.happens(f.trim)}
		if f.happens(f.wild) {
			x.delay += units.Time(f.rand.Int64N(int64(5 * units.Millisecond)))
		}
		all = append(all, x)
		if !f.happens(f.copy) {
			return all
		}
	}
}

// stopFaults ends all faults.
func (f *faults) stopFaults() { *f = faults{rand: f.rand, spread: us} }

// TestNeighbours: a late copy has made the receiver start over with the epoch after the
// sender's, in which the sender's numbers look like packets that have arrived. Waiting does not
// help: the sender notices that nothing gets better, and starts over.
func TestNeighbours(t *testing.T) {
	w := newWorld(t, testConfig(NDP), nil, 1)
	s := w.senders[0]
	s.push(60, 100)
	w.run(units.Millisecond)
	late := eqds.Data{Flags: eqds.FlagSYN, Next: eqds.NextIPv4, Seq: s.sender.Epoch().Next().First()}
	s.receiver.ReceiveData(w.now, &late, load{0, 0}, 100, false)
	s.push(50, testMTU)
	w.run(100 * units.Millisecond)
	came := map[int]bool{}
	for _, n := range s.delivered {
		came[n] = true
	}
	if !s.sender.IsIdle() || s.sender.Counters().Reopened == 0 || len(came) != s.pushed {
		t.Errorf("%d packets came, %+v", len(came), s.sender.Counters())
	}
}

// TestModel has two hosts with three tunnels, whose packets are dropped, trimmed, copied and
// reordered, and of which any side forgets or closes at any time. At all times a tunnel has no
// more credit than a window, and its sender waits for something that can happen. When the
// faults end, the tunnels synchronise by themselves, and then deliver all packets once and in
// order, at the line's pace: no credit is lost.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		credit := rapid.SampledFrom([]int{1, 1, 2, 4, 8, 30}).Draw(t, "credit")
		c := creditConfig(rapid.SampledFrom([]Backend{NDP, RTS}).Draw(t, "backend"), credit)
		c.Timeouts = rapid.IntRange(2, 8).Draw(t, "timeouts")
		c.Window = units.Bytes(rapid.IntRange(2, 20).Draw(t, "window")) * c.MTU
		w := newCreditWorld(t, c, nil, 3, credit)
		f := &faults{rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
		f.stopFaults()
		w.data = func(_ *source, h *eqds.Data, _ units.Bytes) []trip {
			if len(f.oldData) < 500 {
				f.oldData = append(f.oldData, *h)
			}
			return f.trips()
		}
		w.control = func(_ *source, c *eqds.Control) []trip {
			if len(f.oldControl) < 500 {
				f.oldControl = append(f.oldControl, *c)
			}
			return f.trips()
		}
		pick := func(t *rapid.T) *source { return w.senders[rapid.IntRange(0, 2).Draw(t, "tunnel")] }
		chance := rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.5, 1})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				pick(t).push(rapid.IntRange(1, 60).Draw(t, "packets"), units.Bytes(rapid.Int64Range(60, int64(testMTU)).Draw(t, "size")))
			},
			"run":  func(t *rapid.T) { w.run(w.now + units.Time(rapid.Int64Range(1, 300).Draw(t, "us"))*us) },
			"wait": func(t *rapid.T) { w.run(w.now + units.Time(rapid.Int64Range(1, 100).Draw(t, "ms"))*units.Millisecond) },
			"faults": func(t *rapid.T) {
				f.drop, f.trim, f.copy, f.wild = chance.Draw(t, "drop"), min(chance.Draw(t, "trim"), 0.5), min(chance.Draw(t, "copy"), 0.5), chance.Draw(t, "wild")
				f.spread = units.Time(rapid.Int64Range(0, 200).Draw(t, "spread")) * us
			},
			"replay data": func(t *rapid.T) {
				if len(f.oldData) > 0 {
					h := rapid.SampledFrom(f.oldData).Draw(t, "header")
					s := w.senders[h.Sender]
					s.receiver.ReceiveData(w.now, &h, load{s.id, 0}, 100, rapid.Bool().Draw(t, "trimmed"))
					w.settleHost()
				}
			},
			"replay control": func(t *rapid.T) {
				if len(f.oldControl) > 0 {
					c := rapid.SampledFrom(f.oldControl).Draw(t, "header")
					s := w.senders[c.Sender]
					s.sender.ReceiveControl(w.now, &c)
					s.send()
				}
			},
			"sender forgets":   func(t *rapid.T) { s := pick(t); s.sender.DropState(); s.send() },
			"receiver forgets": func(t *rapid.T) { s := pick(t); s.receiver.DropState(); w.settleHost() },
			"sender closes": func(t *rapid.T) {
				s := pick(t)
				if h, ok := s.sender.Close(); ok {
					s.fly(h, load{}, RequestLen)
				}
			},
			"receiver closes": func(t *rapid.T) {
				s := pick(t)
				if c, ok := s.receiver.Close(); ok {
					s.reply(c)
				}
			},
		})
		f.stopFaults()
		w.run(w.now + 5*units.Second)
		for _, s := range w.senders {
			s.push(50, testMTU)
		}
		w.run(w.now + 5*units.Second)
		for _, s := range w.senders {
			if packets, _ := s.receiver.ReorderQueue(); !s.sender.IsIdle() || len(s.gone) != s.pushed || packets > 0 {
				t.Fatalf("%d stalls: of %d packets it is rid of %d, %d are in the reorder queue: %+v", s.id, s.pushed, len(s.gone), packets, s.sender.counted)
			}
		}
		const more = 300
		for _, s := range w.senders {
			s.delivered = s.delivered[:0]
			s.push(more, testMTU)
		}
		// A window may be less than the bandwidth-delay product, here of 14 us, and a sender's
		// remaining part of an MTU takes one MTU of the window.
		each := max(3*w.pacer.PullInterval(), 14*us/units.Time(c.windowMTUs()-1))
		w.run(w.now + more*each + units.Millisecond)
		for _, s := range w.senders {
			if len(s.delivered) != more || !inOrder(s.delivered) || s.delivered[0] != s.pushed-more {
				t.Fatalf("%d: %d packets come in the time of %d, in order: %v; %+v, %+v", s.id, len(s.delivered), more, inOrder(s.delivered), s.sender.counted, s.receiver.counted)
			}
		}
		if len(w.queue) > 0 {
			w.run(w.now + units.Minute)
			if len(w.queue) > 0 {
				t.Fatalf("%d events follow though there is nothing to do", len(w.queue))
			}
		}
	})
}
