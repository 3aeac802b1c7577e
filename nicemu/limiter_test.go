package nicemu

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

func withLimiter(r RateLimiter) option { return func(s *Settings, _ *Env) { s.RateLimiter = r } }

func limit(t testing.TB, q *QP, r units.Rate) {
	t.Helper()
	if err := q.SetRateLimit(qp.RateLimit{Rate: r}); err != nil {
		t.Fatal(err)
	}
}

// flood keeps a queue pair of host 0 to one of host 1 busy, and returns both.
func (w *world) flood(a, b *host, kind qp.Type) (x, y *QP) {
	w.t.Helper()
	x, y = a.qp(kind), b.qp(kind)
	join(w.t, x, y, qp.MTU1024, false)
	keepBusy(w.t.(testing.TB), x, a.modelled(), b.modelled(), transport.Write, 900*units.MB)
	return x, y
}

// packets returns the packets of a host for a queue pair that left since a given time.
func (w *world) packets(from int, number uint32, since units.Time) (list []sent) {
	for _, s := range w.log {
		if s.from == from && s.qp == number && s.at >= since && s.size > 100 {
			list = append(list, s)
		}
	}
	return list
}

// TestRateLimit: requests of RC and UC, READ responses and datagrams keep to the limit, on the
// wire, and are unlimited once it has ended.
func TestRateLimit(t *testing.T) {
	for _, rate := range []units.Rate{64 * units.Mbps, 1_234_567_890, 5 * units.Gbps, 9_999 * units.Mbps} {
		for _, what := range []string{"RC WRITE", "UC WRITE", "RC READ", "UD SEND"} {
			t.Run(fmt.Sprintf("%s, %v", what, rate), func(t *testing.T) {
				end := max(20*units.Millisecond, rate.TimeOf(500*1100))
				w := newWorld(t, 2)
				a, b := w.host(0), w.host(1)
				kind := map[string]qp.Type{"RC": qp.RC, "UC": qp.UC, "UD": qp.UD}[what[:2]]
				x, y := a.qp(kind), b.qp(kind)
				join(t, x, y, qp.MTU1024, false)
				number, more := y.Number(), func() {}
				switch what {
				case "RC READ":
					// The limit is the responder's: x answers.
					number = y.Number()
					keepBusy(t, y, b.modelled(), a.modelled(), transport.Read, 900*units.MB)
				case "UD SEND":
					h, err := a.pd.CreateAHTo(v4(1))
					if err != nil {
						t.Fatal(err)
					}
					from := a.modelled()
					wr := transport.SendWR{Op: transport.Send, SGL: []memory.SGE{from.SGE(0, 1000)}, Path: h.Path(), DestQP: number, QKey: 0x1234}
					more = func() {
						a.poll()
						for x.PostSend(&wr) == nil {
						}
					}
				default:
					keepBusy(t, x, a.modelled(), b.modelled(), transport.Write, 900*units.MB)
				}
				run := func(until units.Time) {
					for now := w.engine.Now(); now < until; {
						now += 20 * us
						more()
						w.run(now)
					}
				}
				limit(t, x, rate)
				if got := x.RateLimit().Rate; got != rate {
					t.Errorf("the limit is %v, it was set to %v", got, rate)
				}
				if got, _ := x.Rate(); got != rate || !x.IsLimited() {
					t.Errorf("its rate is %v, the limit %v", got, rate)
				}
				run(end)
				if got := w.wireRate(0, number, 0, end); math.Abs(got/float64(rate)-1) > 0.005 {
					t.Errorf("%.0f b/s on the wire, the limit is %v", got, rate)
				}
				limit(t, x, 0)
				run(2 * end)
				if got := w.wireRate(0, number, end+units.Millisecond, 2*end); math.Abs(got/float64(lineRate)-1) > 0.005 {
					t.Errorf("%.0f b/s on the wire without a limit", got)
				}
				if x.limiter != nil || x.IsLimited() {
					t.Error("it still has a limiter")
				}
			})
		}
	}
}

// TestRateLimitOfSeveral: each queue pair keeps to its own limit, and those without a limit share
// the rest of the line.
func TestRateLimitOfSeveral(t *testing.T) {
	const end = 20 * units.Millisecond
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	want := []units.Rate{700 * units.Mbps, 1600 * units.Mbps, 2100 * units.Mbps, 0}
	var number []uint32
	for _, r := range want {
		x, y := w.flood(a, b, qp.RC)
		number = append(number, y.Number())
		limit(t, x, r)
	}
	w.run(end)
	rest := float64(lineRate)
	for i, r := range want[:3] {
		rest -= float64(r)
		if got := w.wireRate(0, number[i], 0, end); math.Abs(got/float64(r)-1) > 0.005 {
			t.Errorf("%.0f b/s, the limit is %v", got, r)
		}
	}
	if got := w.wireRate(0, number[3], 0, end); math.Abs(got/rest-1) > 0.005 {
		t.Errorf("%.0f b/s without a limit, of %.0f that are left", got, rest)
	}
}

// TestRateLimitLag: the old rate holds for exactly the bytes of the lag, whatever the old and the
// new one are.
func TestRateLimitLag(t *testing.T) {
	const lag = 160_000
	rates := []units.Rate{0, 1 * units.Gbps, 4 * units.Gbps}
	for _, old := range rates {
		for _, next := range rates {
			if old == next {
				continue
			}
			t.Run(fmt.Sprintf("from %v to %v", old, next), func(t *testing.T) {
				w := newWorld(t, 2, withLimiter(RateLimiter{Lag: lag}))
				a, b := w.host(0), w.host(1)
				x, y := w.flood(a, b, qp.RC)
				limit(t, x, old)
				begin := 5 * units.Millisecond
				w.run(begin)
				limit(t, x, next)
				if got := x.RateLimit().Rate; got != next {
					t.Errorf("the limit is %v, it was set to %v", got, next)
				}
				w.run(begin + 5*units.Millisecond)
				gap := func(r units.Rate, size units.Bytes) units.Time {
					if r == 0 {
						r = lineRate
					}
					return r.TimeOf(packet.OnWire(size))
				}
				list, sum, changed := w.packets(0, y.Number(), begin), units.Bytes(0), 0
				for i, s := range list[:len(list)-1] {
					sum += packet.OnWire(s.size)
					now := old
					if sum >= lag {
						now = next
						changed++
					}
					if got, want := list[i+1].at-s.at, gap(now, s.size); got != want {
						t.Fatalf("after %d bytes %v from packet to packet, not %v", sum, got, want)
					}
				}
				if changed < 100 {
					t.Errorf("%d packets with the new limit in force", changed)
				}
			})
		}
	}
}

// TestRateLimitLagNewest: a limit set while another is pending replaces it, and waits for the whole
// lag.
func TestRateLimitLagNewest(t *testing.T) {
	const lag = 100_000
	w := newWorld(t, 2, withLimiter(RateLimiter{Lag: lag}))
	a, b := w.host(0), w.host(1)
	x, y := w.flood(a, b, qp.UC)
	limit(t, x, units.Gbps)
	w.run(lineRate.TimeOf(lag) / 2)
	limit(t, x, 3*units.Gbps)
	first := len(w.packets(0, y.Number(), 0))
	w.run(5 * units.Millisecond)
	list, sum := w.packets(0, y.Number(), 0), units.Bytes(0)
	for i, s := range list[:len(list)-1] {
		if i >= first {
			sum += packet.OnWire(s.size)
		}
		want := lineRate.TimeOf(packet.OnWire(s.size))
		if sum >= lag {
			want = (3 * units.Gbps).TimeOf(packet.OnWire(s.size))
		}
		if got := list[i+1].at - s.at; got != want {
			t.Fatalf("%d bytes after the second limit %v from packet to packet, not %v", sum, got, want)
		}
	}
	if sum < 2*lag {
		t.Errorf("%d bytes after the second limit", sum)
	}
}

// TestRateLimitChanges: a limit in force at once applies from the next packet on, also for a queue
// pair that waits at a low rate.
func TestRateLimitChanges(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x, y := w.flood(a, b, qp.RC)
	limit(t, x, 1000*units.Kbps)
	w.run(20 * us)
	if n := len(w.packets(0, y.Number(), 0)); n != 2 { // the first left before there was a limit
		t.Fatalf("%d packets in 20 us, of which one at 1 Mb/s", n)
	}
	limit(t, x, 0)
	w.run(21 * us)
	if n := len(w.packets(0, y.Number(), 20*us)); n < 1 {
		t.Error("it goes on waiting without a limit")
	}
}

func TestRateLimiters(t *testing.T) {
	for _, lag := range []units.Bytes{0, 160_000} {
		t.Run(fmt.Sprint("lag ", lag), func(t *testing.T) {
			w := newWorld(t, 2, withLimiter(RateLimiter{Limiters: 2, Lag: lag}))
			a, b := w.host(0), w.host(1)
			var x [4]*QP
			for i := range x {
				x[i], _ = w.flood(a, b, qp.RC)
			}
			set := func(i int, r units.Rate) error { return x[i].SetRateLimit(qp.RateLimit{Rate: r}) }
			full := func(i int) {
				t.Helper()
				err := set(i, units.Gbps)
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "all 2 rate limiters of nic0") {
					t.Errorf("with all limiters in use: %v", err)
				}
				if x[i].RateLimit() != (qp.RateLimit{}) {
					t.Errorf("it has the limit %v", x[i].RateLimit())
				}
			}
			good := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			good(set(0, units.Gbps))
			good(set(1, units.Gbps))
			good(set(1, 2*units.Gbps)) // has one
			good(set(2, 0))            // needs none
			full(2)
			good(set(0, 0))
			good(set(0, 0))
			good(set(2, units.Gbps))
			full(0)
			good(x[1].SetState(qp.Reset))
			good(set(0, units.Gbps))
			full(3)
			good(x[2].Destroy())
			good(set(3, units.Gbps))
			good(x[0].SetState(qp.Err)) // keeps it, until RESET
			if a.limited != 2 {
				t.Errorf("%d limiters are in use", a.limited)
			}
			good(x[0].SetState(qp.Reset))
			good(x[3].Destroy())
			if a.limited != 0 {
				t.Errorf("%d limiters are in use", a.limited)
			}
		})
	}
}

// TestRateLimitGivenBack: a returned limiter can be taken at once, while its limit is still in
// force for the lag.
func TestRateLimitGivenBack(t *testing.T) {
	const lag = 100_000
	w := newWorld(t, 2, withLimiter(RateLimiter{Limiters: 1, Lag: lag}))
	a, b := w.host(0), w.host(1)
	x, y := w.flood(a, b, qp.RC)
	limit(t, x, units.Gbps)
	w.run(units.Millisecond)
	limit(t, x, 0)
	if got, _ := x.Rate(); got != units.Gbps {
		t.Errorf("its rate is %v before the lag", got)
	}
	z, _ := w.flood(a, b, qp.RC)
	limit(t, z, 100*units.Mbps)
	if err := x.SetRateLimit(qp.RateLimit{Rate: units.Gbps}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the limiter is another's: %v", err)
	}
	w.run(3 * units.Millisecond)
	if x.limiter != nil || a.limited != 1 {
		t.Errorf("%d limiters are in use", a.limited)
	}
	if got := w.wireRate(0, y.Number(), 2*units.Millisecond, 3*units.Millisecond); got < 9e9 {
		t.Errorf("%.0f b/s when the limit has ended", got)
	}
}

// TestRateLimitReset: a reset queue pair has no limit, pending or in force.
func TestRateLimitReset(t *testing.T) {
	for _, lag := range []units.Bytes{0, 160_000} {
		w := newWorld(t, 2, withLimiter(RateLimiter{Lag: lag}))
		a, b := w.host(0), w.host(1)
		x, y := w.flood(a, b, qp.RC)
		limit(t, x, 100*units.Mbps)
		w.run(units.Millisecond)
		for _, q := range []*QP{x, y} {
			if err := q.SetState(qp.Reset); err != nil {
				t.Fatal(err)
			}
		}
		if x.RateLimit() != (qp.RateLimit{}) {
			t.Errorf("the limit is %v in RESET", x.RateLimit())
		}
		join(t, x, y, qp.MTU1024, false)
		keepBusy(t, x, a.modelled(), b.modelled(), transport.Write, 900*units.MB)
		w.run(3 * units.Millisecond)
		if got := w.wireRate(0, y.Number(), 2*units.Millisecond, 3*units.Millisecond); got < 9.9e9 {
			t.Errorf("%.0f b/s after RESET", got)
		}
	}
}

// TestRateLimitBesideControl: the lower of the rate control's rate and the limit applies.
func TestRateLimitBesideControl(t *testing.T) {
	const end = 10 * units.Millisecond
	for _, c := range []struct{ control, limit, want units.Rate }{
		{2 * units.Gbps, 3 * units.Gbps, 2 * units.Gbps},
		{2 * units.Gbps, units.Gbps, units.Gbps},
		{0, units.Gbps, units.Gbps}, // only a window
	} {
		control := &fixed{rate: c.control}
		w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return control }))
		x, y := w.flood(w.host(0), w.host(1), qp.RC)
		limit(t, x, c.limit)
		w.run(end)
		if got := w.wireRate(0, y.Number(), 0, end); math.Abs(got/float64(c.want)-1) > 0.005 {
			t.Errorf("%.0f b/s by a control of %v and a limit of %v", got, c.control, c.limit)
		}
		if got, _ := x.Rate(); got != c.want {
			t.Errorf("its rate is %v by a control of %v and a limit of %v", got, c.control, c.limit)
		}
	}
}

// TestRateLimitEndsBesideControl: from the packet with which a limit ends, gaps are the rate
// control's.
func TestRateLimitEndsBesideControl(t *testing.T) {
	const lag = 50_000
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control { return &fixed{rate: 2 * units.Gbps} }), withLimiter(RateLimiter{Lag: lag}))
	x, y := w.flood(w.host(0), w.host(1), qp.RC)
	limit(t, x, units.Gbps)
	w.run(units.Millisecond)
	limit(t, x, 0)
	w.run(3 * units.Millisecond)
	list, sum := w.packets(0, y.Number(), units.Millisecond), units.Bytes(0)
	for i, s := range list[:len(list)-1] {
		sum += packet.OnWire(s.size)
		rate := units.Gbps
		if sum >= lag {
			rate = 2 * units.Gbps
		}
		if got, want := list[i+1].at-s.at, rate.TimeOf(packet.OnWire(s.size)); got != want {
			t.Fatalf("after %d bytes %v from packet to packet, not %v", sum, got, want)
		}
	}
	if sum < 3*lag || x.limiter != nil {
		t.Errorf("%d bytes, limiter %v", sum, x.limiter)
	}
}

// TestRateLimitBesideDCQCN: marks take DCQCN below the limit, and it recovers up to the limit only.
func TestRateLimitBesideDCQCN(t *testing.T) {
	const limited = 2e9 // b/s
	w := newWorld(t, 2, withDCQCN)
	marks := false
	w.touch = func(from int, p *packet.Packet) bool {
		if marks && from == 0 && p.RoCE != nil {
			p.TOS |= wire.CE
		}
		return true
	}
	x, y := w.flood(w.host(0), w.host(1), qp.RC)
	limit(t, x, units.Rate(limited))
	w.run(5 * units.Millisecond)
	if got := w.wireRate(0, y.Number(), 0, 5*units.Millisecond); math.Abs(got/limited-1) > 0.01 {
		t.Errorf("%.0f b/s without marks, the limit is %v", got, units.Rate(limited))
	}
	marks = true
	w.run(10 * units.Millisecond)
	low, _ := x.Rate()
	if low >= limited/2 || low != x.Control().Rate() {
		t.Errorf("%v when all packets are marked, rate control allows %v", low, x.Control().Rate())
	}
	if got := w.wireRate(0, y.Number(), 9*units.Millisecond, 10*units.Millisecond); got > limited/2 {
		t.Errorf("%.0f b/s when all packets are marked", got)
	}
	marks = false
	w.run(400 * units.Millisecond)
	if c := x.Control().Rate(); c <= limited {
		t.Fatalf("rate control has recovered to %v only", c)
	}
	if got := w.wireRate(0, y.Number(), 390*units.Millisecond, 400*units.Millisecond); math.Abs(got/limited-1) > 0.01 {
		t.Errorf("%.0f b/s when rate control has recovered, the limit is %v", got, units.Rate(limited))
	}
}

// TestRateLimitBurst: no more than MaxBurst leaves at the line's rate, and packets leave at the
// limit over bursts; a queue pair that rested gets no more than that.
func TestRateLimitBurst(t *testing.T) {
	const (
		rate  = units.Gbps
		burst = 16 * units.KB
		end   = 20 * units.Millisecond
	)
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	from, to := a.modelled(), b.modelled()
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	if err := x.SetRateLimit(qp.RateLimit{Rate: rate, MaxBurst: burst, TypicalPacket: 1024}); err != nil {
		t.Fatal(err)
	}
	keepBusy(t, x, from, to, transport.Write, 3*units.KB) // part of a burst, then a rest
	w.run(units.Millisecond)
	keepBusy(t, x, from, to, transport.Write, 900*units.MB)
	w.run(end)
	if got := w.wireRate(0, y.Number(), units.Millisecond, end); math.Abs(got/float64(rate)-1) > 0.01 {
		t.Errorf("%.0f b/s, the limit is %v", got, rate)
	}
	list := w.packets(0, y.Number(), units.Millisecond)
	in, bursts := units.Bytes(0), 0
	for i, s := range list[:len(list)-1] {
		size := packet.OnWire(s.size)
		in += size
		if list[i+1].at-s.at > lineRate.TimeOf(size) {
			if in > burst || in <= burst-size {
				t.Fatalf("burst %d has %d bytes, MaxBurst is %d", bursts, in, burst)
			}
			in = 0
			bursts++
		}
	}
	if bursts < 100 {
		t.Errorf("%d bursts", bursts)
	}
}

func TestRateLimitErrors(t *testing.T) {
	w := newWorld(t, 2, withLimiter(RateLimiter{Min: units.Mbps, Max: 5 * units.Gbps}))
	a, b := w.host(0), w.host(1)
	x, y := a.qp(qp.RC), b.qp(qp.RC)
	refuse := func(l qp.RateLimit, text string) {
		t.Helper()
		if err := x.SetRateLimit(l); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, not %q", l, err, text)
		}
	}
	one := qp.RateLimit{Rate: units.Gbps}
	refuse(one, "is in RESET: a rate limit can be set in RTR, RTS and SQD")
	join(t, x, y, qp.MTU1024, false)
	refuse(qp.RateLimit{Rate: -1}, "no part can be negative")
	refuse(qp.RateLimit{Rate: units.Gbps, MaxBurst: -1}, "no part can be negative")
	refuse(qp.RateLimit{MaxBurst: 5000}, "need a rate")
	refuse(qp.RateLimit{Rate: units.Mbps - 1}, "below the NIC's minimum, 1Mbps")
	refuse(qp.RateLimit{Rate: 5*units.Gbps + 1}, "above the NIC's maximum, 5Gbps")
	for _, l := range []qp.RateLimit{{Rate: units.Mbps}, {Rate: 5 * units.Gbps}, {}} {
		if err := x.SetRateLimit(l); err != nil {
			t.Error(err)
		}
	}
	if err := x.SetState(qp.Err); err != nil {
		t.Fatal(err)
	}
	refuse(one, "is in ERR")

	for text, r := range map[string]RateLimiter{
		"limiters is -1":              {Limiters: -1},
		"lag is -1 bytes":             {Lag: -1},
		"min is -1 b/s":               {Min: -1},
		"max is -1 b/s":               {Max: -1},
		"min is 2bps and max is 1bps": {Min: 2, Max: 1},
	} {
		if _, err := New(Settings{MTU: qp.MTU1024, RateLimiter: r, Limits: qp.ConnectX5()}, Env{Name: "nic"}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestStaticRate: the static rate of an address vector applies to its packets, beside a limit, and
// for each datagram separately.
func TestStaticRate(t *testing.T) {
	const end = 10 * units.Millisecond
	for _, kind := range []qp.Type{qp.RC, qp.UC} {
		for _, c := range []struct {
			code        uint8
			limit, want units.Rate
		}{{2, 0, 2500 * units.Mbps}, {5, 0, 5 * units.Gbps}, {5, units.Gbps, units.Gbps}, {2, 5 * units.Gbps, 2500 * units.Mbps}, {0, 0, lineRate}, {24, 0, lineRate}} {
			w := newWorld(t, 2)
			a, b := w.host(0), w.host(1)
			x, y := a.qp(kind), b.qp(kind)
			join(t, x, y, qp.MTU1024, false)
			attr, _ := x.Query()
			attr.AV.StaticRate = c.code
			for _, m := range []struct {
				a qp.Attr
				m qp.Mask
			}{{qp.Attr{State: qp.SQD}, qp.MaskState}, {qp.Attr{AV: attr.AV}, qp.MaskAV}, {qp.Attr{State: qp.RTS}, qp.MaskState}} {
				if err := x.Modify(m.a, m.m); err != nil {
					t.Fatal(err)
				}
			}
			keepBusy(t, x, a.modelled(), b.modelled(), transport.Write, 900*units.MB)
			limit(t, x, c.limit)
			w.run(end)
			if got := w.wireRate(0, y.Number(), 0, end); math.Abs(got/float64(c.want)-1) > 0.005 {
				t.Errorf("%v, static rate %d, limit %v: %.0f b/s", kind, c.code, c.limit, got)
			}
		}
	}
}

// TestStaticRateOfDatagrams: the gap after a datagram is that of its own address handle.
func TestStaticRateOfDatagrams(t *testing.T) {
	w := newWorld(t, 3)
	a, b, c := w.host(0), w.host(1), w.host(2)
	x := a.qp(qp.UD)
	join(t, x, b.qp(qp.UD), qp.MTU1024, false)
	handle := func(to *host, code uint8) uint32 {
		h, err := a.pd.CreateAH(AV{DGID: GID(to.Addresses()[0]), StaticRate: code, Global: true, Port: 1})
		if err != nil {
			t.Fatal(err)
		}
		return h.Path()
	}
	slow, fast := handle(b, 2), handle(c, 0)
	for _, path := range []uint32{slow, slow, fast, fast, slow, fast} {
		post(t, x, transport.SendWR{Op: transport.Send, SGL: []memory.SGE{a.modelled().SGE(0, 1000)}, Path: path, DestQP: 77})
	}
	w.run(units.Millisecond)
	var gaps []units.Time
	for i := range w.log[1:] {
		gaps = append(gaps, w.log[i+1].at-w.log[i].at)
	}
	size := packet.OnWire(w.log[0].size)
	s, f := (2500 * units.Mbps).TimeOf(size), lineRate.TimeOf(size)
	if want := []units.Time{s, s, f, f, s}; fmt.Sprint(gaps) != fmt.Sprint(want) {
		t.Errorf("gaps of %v, not %v", gaps, want)
	}
}

// TestTimestamps: an entry has the time at which the NIC made it: for a SEND of RC when the ACK
// arrived, of UC when its last packet left, for a receive when the last packet arrived; whatever
// the latency to the program.
func TestTimestamps(t *testing.T) {
	for _, kind := range []qp.Type{qp.RC, qp.UC} {
		for _, d := range []Delays{{}, {Completion: 7 * us}} {
			w := newWorld(t, 2, withDelays(d))
			a, b := w.host(0), w.host(1)
			x, y := a.qp(kind), b.qp(kind)
			join(t, x, y, qp.MTU1024, false)
			recv(t, y, 1, b.mr.SGE(0, 1<<16))
			w.run(50 * us)
			post(t, x, transport.SendWR{Op: transport.Send, SGL: []memory.SGE{a.mr.SGE(0, 3000)}})
			w.run(200 * us)
			data := w.packets(0, y.Number(), 0)
			if len(data) != 3 {
				t.Fatalf("%d packets", len(data))
			}
			last := data[2]
			came := last.at + lineRate.TimeOf(packet.OnWire(last.size)) + w.delay
			sent := last.at
			if kind == qp.RC {
				ack := w.log[len(w.log)-1]
				if ack.from != 1 {
					t.Fatal("no ACK")
				}
				sent = ack.at + lineRate.TimeOf(packet.OnWire(ack.size)) + w.delay
			}
			for h, want := range map[*host]units.Time{a: sent, b: came} {
				list := h.poll()
				if len(list) != 1 || list[0].Status != cq.Success || list[0].Timestamp != want {
					t.Errorf("%v with %+v: %+v, not the time %v", kind, d, list, want)
				}
			}
		}
	}
}
