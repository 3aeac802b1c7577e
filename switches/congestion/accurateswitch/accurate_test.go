package accurateswitch

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
)

const us = units.Microsecond

// world is the environment of a point, and the packets that it has sent.
type world struct {
	pool  *packet.Pool
	point congestion.Point
	sent  []*packet.Packet
	lost  bool // senders cannot be found
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kind, err := congestion.Points.Find("accurate")
	if err != nil {
		t.Fatal(err)
	}
	s := kind.Settings("", 10*units.Gbps)
	if err := s.Validate(1); err != nil { // whatever the queue's limit is
		t.Fatal(err)
	}
	w := &world{pool: packet.NewPools(1)[0]}
	w.point = congestion.New(congestion.Choice{Settings: s}, congestion.Env{
		Pool: w.pool,
		ReplyTo: func(_ congestion.Sender, m *packet.MessageProtocol) *packet.Packet {
			if w.lost {
				return nil
			}
			return w.pool.NewMessage(m)
		},
		Send: func(p *packet.Packet) { w.sent = append(w.sent, p) },
	})
	return w
}

// frp passes an FRP through the point.
func (w *world) frp(now units.Time, f accurate.FRP) accurate.FRP {
	p := w.pool.NewMessage(accurate.Protocol)
	p.Message.From, p.Message.To = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p.Message.Body.Set(&f)
	p.SetFields()
	p.TOS = 48 << 2
	if fate := w.point.OnEnqueue(now, congestion.Queue{}, p); fate != packet.Fine {
		panic(fate)
	}
	return *p.Message.Body.(*accurate.FRP)
}

func (w *world) gauges(now units.Time) []float64 {
	return w.point.AppendGauges(now, congestion.Queue{}, nil)
}

// TestPoint: FRPs are limited and counted, and those that are too fast are answered;
// responses and other packets pass unchanged.
func TestPoint(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		w.frp(1*us, accurate.FRP{Kind: accurate.Init, CR: 10 * units.Gbps, DR: 10 * units.Gbps})
	}
	if len(w.sent) != 1 {
		t.Fatalf("%d short-circuit replies, want 1: the first flow has less than twice its share", len(w.sent))
	}
	p := w.sent[0]
	want := accurate.FRP{Kind: accurate.Init, Response: true, Short: true, CR: 4750 * units.Mbps, DR: 4750 * units.Mbps}
	if f := *p.Message.Body.(*accurate.FRP); f != want || p.TOS != 48<<2 || p.SrcPort != 0 {
		t.Errorf("the reply is %+v with TOS %d, want %+v", f, p.TOS, want)
	}
	for _, f := range []accurate.FRP{
		{Response: true, CR: 10 * units.Gbps, DR: 10 * units.Gbps},
		{CR: units.Gbps, DR: 4 * units.Gbps},
	} {
		if got := w.frp(2*us, f); got != f {
			t.Errorf("%+v leaves as %+v", f, got)
		}
	}
	w.frp(3*us, accurate.FRP{Kind: accurate.Stop, Counted: true, CR: 10 * units.Gbps})
	other := w.pool.New()
	other.Version, other.Proto, other.DstPort = 4, wire.ProtoUDP, accurate.Port
	if fate := w.point.OnEnqueue(3*us, congestion.Queue{}, other); fate != packet.Fine {
		t.Errorf("a packet of a program's is %v", fate)
	}
	// In the next period: one flow bottlenecked here, one of 1 Gb/s elsewhere.
	got := w.gauges(20 * us)
	for i, v := range []float64{8.5e9, 1, 1e9, 1e9, 2, 1, 2, 1, 1} {
		if got[i] != v {
			t.Errorf("gauge %d is %v, want %v: %v", i, got[i], v, got)
		}
	}
}

// TestTrimmedFRPs: trimmed FRPs do not count, as their rates have been cut off.
func TestTrimmedFRPs(t *testing.T) {
	w := newWorld(t)
	p := w.pool.NewMessage(accurate.Protocol)
	p.Trimmed = true
	p.Message.Body.(*accurate.FRP).CR = units.Gbps
	w.point.OnEnqueue(us, congestion.Queue{}, p)
	if got := w.gauges(20 * us); got[4] != 0 {
		t.Errorf("a trimmed FRP is counted: %v", got)
	}
}

// TestRepliesToNobody: if the sender cannot be found, no reply is sent or counted.
func TestRepliesToNobody(t *testing.T) {
	w := newWorld(t)
	w.lost = true
	for range 3 {
		w.frp(us, accurate.FRP{Kind: accurate.Init, CR: 10 * units.Gbps, DR: 10 * units.Gbps})
	}
	if got := w.gauges(2 * us); got[8] != 0 {
		t.Errorf("%v replies", got[8])
	}
}

// TestErrors: each mistake gives one error, which says what is valid.
func TestErrors(t *testing.T) {
	kind, err := congestion.Points.Find("accurate")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(s *Settings)
		want   string
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.Capacity = 0 }, "ACCurate needs the rate of the link, which it shares out: give the link a rate"},
		{func(s *Settings) { s.RRP = 1 }, "rrp: 1ps is out of range: give a time from 1us to 3600s, such as 50us"},
		{func(s *Settings) { s.Skew = -1 }, "skew: -1ps is out of range: give a time from 0 to 3600s, such as 50us"},
		{func(s *Settings) { s.Drift = 0.02 }, "drift: 2% is out of range: give a share from 0% to 1%"},
		{func(s *Settings) { s.Alpha = 0.95 }, "alpha: 95% is out of range: give a share from 0% to 90%"},
		{func(s *Settings) { s.ShortCircuit = 0.5 }, "short_circuit: 0.5 is out of range: give a number from 1 to 1000, or 0 for no short-circuit replies"},
	} {
		s := kind.Settings("", 10*units.Gbps).(*Settings)
		c.change(s)
		got := ""
		if err := s.Validate(0); err != nil {
			got = err.Error()
		}
		if first, _, _ := strings.Cut(got, "\n"); first != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	var o accurate.Overhead
	if err := o.UnmarshalText([]byte("none")); err == nil || err.Error() != `unknown overhead "none": must be reserve or measure` {
		t.Error(err)
	}
}
