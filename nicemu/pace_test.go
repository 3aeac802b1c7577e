package nicemu

import (
	"math"
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// modelled gives a host a region of which only the size is modelled.
func (h *host) modelled() *MR {
	h.t.Helper()
	mr, err := h.pd.RegisterSize(units.GB, anyAccess)
	if err != nil {
		h.t.Fatal(err)
	}
	return mr
}

// keepBusy posts one long message.
func keepBusy(t testing.TB, q *QP, from, to *MR, op transport.Op, n units.Bytes) {
	t.Helper()
	post(t, q, transport.SendWR{Op: op, SGL: []memory.SGE{from.SGE(0, n)}, RemoteVA: to.Addr(0), RKey: to.RKey()})
}

// wireRate returns the rate of the packets for a queue pair between two times, on the wire.
func (w *world) wireRate(from int, number uint32, begin, end units.Time) float64 {
	sum := units.Bytes(0)
	for _, s := range w.log {
		if s.from == from && s.qp == number && s.at >= begin && s.at < end {
			sum += packet.OnWire(s.size)
		}
	}
	return float64(sum) * 8 / (end - begin).Seconds()
}

// TestPacedRates measures uneven rates over a long time.
func TestPacedRates(t *testing.T) {
	for _, rate := range []units.Rate{1_234_567, 333_333_333, 2_718_281_828, 7_777_777_777, 9_999_999_999, lineRate} {
		w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{rate: rate} }))
		a, b := w.host(0), w.host(1)
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		keepBusy(t, x, a.modelled(), b.modelled(), transport.Write, 200*units.MB)
		end := max(20*units.Millisecond, rate.TimeOf(2000*1100))
		w.run(end)
		if got := w.wireRate(0, y.Number(), 0, end); math.Abs(got/float64(rate)-1) > 0.001 {
			t.Errorf("%v: %.0f b/s on the wire", rate, got)
		}
	}
}

// TestPaceAfterContention: queue pairs that had to wait for each other return to their own rates as
// soon as there is room.
func TestPaceAfterContention(t *testing.T) {
	const rate = 4 * units.Gbps
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{rate: rate} }))
	a, b := w.host(0), w.host(1)
	from, to := a.modelled(), b.modelled()
	var number [3]uint32
	for i, n := range []units.Bytes{200 * units.MB, 200 * units.MB, units.MB} {
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		number[i] = y.Number()
		keepBusy(t, x, from, to, transport.Write, n)
	}
	w.run(20 * units.Millisecond)
	if got := w.wireRate(0, number[0], 0, 2*units.Millisecond) * 3; math.Abs(got/float64(lineRate)-1) > 0.01 {
		t.Errorf("three share %.0f b/s", got)
	}
	for i := range 2 {
		if got := w.wireRate(0, number[i], 5*units.Millisecond, 20*units.Millisecond); math.Abs(got/float64(rate)-1) > 0.001 {
			t.Errorf("queue pair %d has %.0f b/s, its rate is %v", i, got, rate)
		}
	}
}

// TestPaceBesideAcks: a paced queue pair that acknowledges its peer's data keeps its rate on a busy
// line.
func TestPaceBesideAcks(t *testing.T) {
	const rate = 3 * units.Gbps
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{rate: rate} }), func(s *Settings, _ *Env) { s.AckEvery = 1 })
	a, b := w.host(0), w.host(1)
	from, to := a.modelled(), b.modelled()
	var number uint32
	for i := range 3 {
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		join(t, x, y, qp.MTU1024, false)
		keepBusy(t, x, from, to, transport.Write, 200*units.MB)
		if i == 0 {
			number = y.Number()
			keepBusy(t, y, to, from, transport.Write, 200*units.MB)
		}
	}
	w.run(20 * units.Millisecond)
	acks := 0
	data := units.Bytes(0)
	for _, s := range w.log {
		if s.from == 0 && s.qp == number {
			if s.size < 100 {
				acks++
			} else {
				data += packet.OnWire(s.size)
			}
		}
	}
	if got := float64(data) * 8 / 0.02; math.Abs(got/float64(rate)-1) > 0.001 || acks < 1000 {
		t.Errorf("%.0f b/s, its rate is %v; %d ACKs", got, rate, acks)
	}
}
