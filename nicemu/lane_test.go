package nicemu

import (
	"math"
	"testing"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestAcksDoNotCostTheTurn: a queue pair that acknowledges packets more often than it has its turn
// among many still gets its share.
func TestAcksDoNotCostTheTurn(t *testing.T) {
	w := newWorld(t, 2, func(s *Settings, _ *Env) { s.AckEvery = 1 })
	a, b := w.host(0), w.host(1)
	from, to := a.modelled(), b.modelled()
	const n = 50
	var number [n]uint32
	for i := range n {
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		number[i] = y.Number()
		keepBusy(t, x, from, to, transport.Write, 100*units.MB)
		if i == 0 {
			keepBusy(t, y, to, from, transport.Write, 100*units.MB)
		}
	}
	w.run(20 * units.Millisecond)
	var bytes [n]units.Bytes
	var all units.Bytes
	for _, s := range w.log {
		if s.from == 0 && s.size > 100 {
			bytes[s.qp-number[0]] += s.size
			all += s.size
		}
	}
	for i, got := range bytes {
		if share := float64(got) / float64(all) * n; math.Abs(share-1) > 0.01 {
			t.Errorf("queue pair %d has %.3f of its share", i, share)
		}
	}
}

// TestManyQueuePairs keeps 1000 queue pairs busy: all have equal shares of a full line, of requests
// and of READ responses.
func TestManyQueuePairs(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	from, to := a.modelled(), b.modelled()
	const n = 1000
	bytes := map[uint32]units.Bytes{}
	for i := range n {
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		bytes[y.Number()] = 0
		if i%2 == 0 {
			keepBusy(t, x, from, to, transport.Write, 100*units.MB)
		} else {
			keepBusy(t, y, to, from, transport.Read, 100*units.MB)
		}
	}
	w.run(60 * units.Millisecond)
	var all units.Bytes
	for _, s := range w.log {
		if s.from == 0 {
			bytes[s.qp] += s.size
			all += s.size
		}
	}
	for q, got := range bytes {
		if share := float64(got) / float64(all) * n; math.Abs(share-1) > 0.05 {
			t.Errorf("queue pair %d has %.3f of its share", q, share)
		}
	}
	if got := float64(wire.EthernetOverhead*units.Bytes(len(w.departuresOf(0)))+all) * 8 / 0.06; math.Abs(got/float64(lineRate)-1) > 0.001 {
		t.Errorf("%.0f b/s of the line are used", got)
	}
}

// departuresOf returns the packets that a NIC has sent.
func (w *world) departuresOf(from int) (list []sent) {
	for _, s := range w.log {
		if s.from == from {
			list = append(list, s)
		}
	}
	return list
}

// TestLoopTakesTime: a packet that a NIC sends to itself takes as long as on the line, whatever
// comes back meanwhile, and paced queue pairs keep their rates, both in loopback and on the port.
func TestLoopTakesTime(t *testing.T) {
	for _, rate := range []units.Rate{0, 3 * units.Gbps} {
		w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{rate: rate} }), func(s *Settings, _ *Env) { s.AckEvery = 1 })
		a, b := w.host(0), w.host(1)
		mr, to := a.modelled(), b.modelled()
		x, y := a.qp(qp.RC), a.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		keepBusy(t, x, mr, mr, transport.Write, 200*units.MB)
		out, far := a.qp(qp.RC), b.qp(qp.RC)
		join(t, out, far, qp.MTU1024, false)
		keepBusy(t, out, mr, to, transport.Write, 200*units.MB)
		w.run(20 * units.Millisecond)
		if rate == 0 {
			rate = lineRate
		}
		// Each packet is followed by an acknowledgement on the same loop.
		frame, ack := units.Bytes(14+20+8+12+1024+4), units.Bytes(14+20+8+12+4+4)
		maxRate := float64(rate)
		if rate == lineRate {
			maxRate *= float64(packet.OnWire(frame)) / float64(packet.OnWire(frame)+packet.OnWire(ack))
		}
		_, c := x.Counters()
		if got := float64(c.DataBytes+c.DataPackets*wire.EthernetOverhead) * 8 / 0.02; math.Abs(got/maxRate-1) > 0.001 {
			t.Errorf("%.0f b/s go round, want %.0f", got, maxRate)
		}
		if got := w.wireRate(0, far.Number(), 0, 20*units.Millisecond); math.Abs(got/float64(rate)-1) > 0.001 {
			t.Errorf("%.0f b/s leave, the rate is %v", got, rate)
		}
		k, _ := a.Device.Counters()
		if n := len(w.departuresOf(1)); k.RcvPackets > uint64(n) {
			t.Errorf("the port has received %d packets of %d", k.RcvPackets, n)
		}
	}
}
