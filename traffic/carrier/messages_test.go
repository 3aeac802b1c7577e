package carrier

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// twoHosts is two hosts connected by a wire without a rate and with a delay of 1 us.
type twoHosts struct {
	engine sim.Engine
	pool   *packet.Pool
	log    records.Log
	ends   [2]*Streams
	full   [2]bool // an FRP waits at the port of a host
	frps   [2][]accurate.FRP
}

func (w *twoHosts) address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

// idle is an agent that starts nothing.
type idle struct{}

func (idle) NextFlow() units.Time                                      { return units.Never }
func (idle) Fire(units.Time, func(pattern.Flow))                       {}
func (idle) OnArrival(units.Time, pattern.Flow, func(pattern.Flow))    {}
func (idle) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}

// call is a timer that calls a function once.
type call func(now units.Time)

func (c call) Fire(now units.Time) { c(now) }

// newTwoHosts makes the two hosts, whose flows use ACCurate.
func newTwoHosts(t *testing.T) *twoHosts {
	w := &twoHosts{pool: packet.NewPools(1)[0]}
	for i := range w.ends {
		h := NewHost(&w.engine, i, Window{}, &w.log)
		w.ends[i] = NewStreams(h, 0, TCP{Config: tcp.Default(), Control: choice(t, "accurate")}, StreamOutlet{
			Outlet: Outlet{
				Pool: w.pool, Line: 10 * units.Gbps,
				Ends:   func(peer int) (from, to netip.Addr, failure string) { return w.address(i), w.address(peer), "" },
				PathTo: func(netip.Addr) (nicemu.Path, bool) { return nicemu.Path{}, true },
				Send:   func(now units.Time, p *packet.Packet) { w.send(now, i, p) },
			},
			Rate:   func() units.Rate { return 10 * units.Gbps },
			Queued: func(units.Time) units.Bytes { return 0 },
			Waiting: func(_ units.Time, dscp uint8) int {
				if dscp == 48 && w.full[i] {
					return 1
				}
				return 0
			},
			Rand: rand.New(rand.NewPCG(1, 1)),
		})
		h.AddTraffic(0, idle{}, w.ends[i])
	}
	return w
}

// send makes a packet arrive at the other host.
func (w *twoHosts) send(now units.Time, from int, p *packet.Packet) {
	far := w.ends[1-from]
	if p.Message.Protocol == accurate.Protocol {
		w.frps[from] = append(w.frps[from], *p.Message.Body.(*accurate.FRP))
	}
	timer := w.engine.NewTimer(call(func(now units.Time) {
		if p.Message.Protocol == accurate.Protocol {
			far.ReceiveMessage(now, p)
		} else {
			far.ReceivePacket(now, p)
		}
		w.pool.Free(p)
	}))
	timer.Arm(now + units.Microsecond)
}

func (w *twoHosts) run(until units.Time) {
	w.engine.Run(until, 1_000_000)
	w.engine.AdvanceTo(until)
}

// TestFlowsByTCPSpeak: a flow sends a flow-init, an FRP per period and a flow-stop; the other
// host answers all but the last, and there are none for its acknowledgements.
func TestFlowsByTCPSpeak(t *testing.T) {
	w := newTwoHosts(t)
	w.ends[0].Start(0, &records.Record{ID: 1, From: 0, To: 1, Size: 100 * units.KB})
	w.run(10 * units.Millisecond)
	out, back := w.frps[0], w.frps[1]
	if n := len(out); n < 4 || out[0].Kind != accurate.Init || out[n-1].Kind != accurate.Stop || len(back) != n-1 {
		t.Fatalf("%d went out and %d came back: %+v", n, len(back), out)
	}
	for i, f := range out[1 : len(out)-1] {
		if f.Kind != accurate.Regular || f.Period != out[i].Period+1 || f.Flow != out[0].Flow {
			t.Errorf("FRP %d: %+v", i+1, f)
		}
	}
	if w.pool.LivePackets() != 0 || len(w.ends[0].hearing) != 0 {
		t.Errorf("%d packets and %d flows are left", w.pool.LivePackets(), len(w.ends[0].hearing))
	}
}

// TestOneFRPWaits: while the class of FRPs has no room at the port, one FRP of a flow and one
// response wait; the newest leaves when there is room.
func TestOneFRPWaits(t *testing.T) {
	for end := range 2 {
		w := newTwoHosts(t)
		w.ends[0].Start(0, &records.Record{ID: 1, From: 0, To: 1, Size: 10 * units.MB})
		w.run(15 * units.Microsecond)
		w.full[end] = true
		for at := 20 * units.Microsecond; at <= units.Millisecond; at += 20 * units.Microsecond {
			if w.run(at); w.ends[end].ccMessages.Len() > 1 {
				t.Fatalf("%d FRPs wait", w.ends[end].ccMessages.Len())
			}
		}
		before := len(w.frps[end])
		w.full[end] = false
		w.run(units.Millisecond + 3*units.Microsecond)
		if got := w.frps[end][before:]; len(got) != 1 || got[0].Period < 48 || got[0].Response != (end == 1) {
			t.Errorf("host %d: %+v", end, got)
		}
	}
}

// TestARateSetsThePace: a response also applies to the rest of the pause before the next
// segment.
func TestARateSetsThePace(t *testing.T) {
	w := newTwoHosts(t)
	w.ends[0].Start(0, &records.Record{ID: 1, From: 0, To: 1, Size: 10 * units.MB})
	w.run(15 * units.Microsecond)
	var s *tcpFlow
	for _, s = range w.ends[0].sending {
	}
	tell := func(cr units.Rate) {
		f := w.frps[0][len(w.frps[0])-1]
		f.Response, f.CR, f.DR = true, cr, cr
		p := w.pool.NewMessage(accurate.Protocol)
		*p.Message.Body.(*accurate.FRP) = f
		if !w.ends[0].ReceiveMessage(w.engine.Now(), p) {
			t.Fatalf("%+v is of no flow", f)
		}
		w.pool.Free(p)
	}
	tell(10 * units.Mbps)
	w.run(19 * units.Microsecond) // the next FRP comes later
	if at := s.sender.NextDeparture(); at < 100*units.Microsecond {
		t.Fatalf("the next segment leaves at %v", at)
	}
	tell(5 * units.Gbps)
	if at := s.sender.NextDeparture(); at > 23*units.Microsecond {
		t.Errorf("at 5 Gb/s the next segment leaves at %v", at)
	}
	foreign := w.pool.NewMessage(accurate.Protocol)
	*foreign.Message.Body.(*accurate.FRP) = accurate.FRP{Response: true, Flow: packet.FlowKey{Proto: 17, DstPort: SegmentPort}}
	if w.ends[0].ReceiveMessage(w.engine.Now(), foreign) {
		t.Error("an FRP of a queue pair is taken")
	}
	w.pool.Free(foreign)
}
