package bbr

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

const ms = units.Millisecond

// TestAggregation: 8 Mb/s are 1000 bytes a millisecond. Bytes acknowledged beyond that since
// the epoch began are extra; an epoch ends when there is no extra.
func TestAggregation(t *testing.T) {
	var x aggregation
	const bw = 8 * units.Mbps
	for i, step := range []struct {
		at    units.Time
		newly units.Bytes
		round bool
		want  units.Bytes
	}{
		{10 * ms, 2000, false, 2000}, // an epoch begins: all of it is extra
		{11 * ms, 3000, false, 4000}, // 5000, of which 1000 were due
		{12 * ms, 500, false, 4000},  // 5500 - 2000 is less
		{16 * ms, 1000, false, 4000}, // 6500 - 6000; before it 5500 were fewer than due: a new epoch, of 1000
		{17 * ms, 1000, true, 4000},  // 1000 were due: a new epoch
		{18 * ms, 1000, true, 4000},  //
		{19 * ms, 1000, true, 4000},  //
		{20 * ms, 1000, true, 4000},  //
		{21 * ms, 1500, true, 4000},  // the fifth round: other rounds count, the old ones still hold
		{22 * ms, 1000, true, 4000},  //
		{23 * ms, 1000, true, 4000},  //
		{24 * ms, 1000, true, 4000},  //
		{25 * ms, 1000, true, 4000},  //
		{26 * ms, 1000, true, 1500},  // the tenth: the 4000 are gone
		{26 * ms, 9_999, true, 5000}, // no more than the window
	} {
		x.addAcked(step.at, step.newly, bw, 5000, 1000, step.round)
		if got := x.extraWindow(bw); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
	if got := x.extraWindow(80 * units.Kbps); got != 1000 {
		t.Errorf("at 80 kb/s the window grows by %d, want 1000: what the rate carries in 100 ms", got)
	}
}

// TestLongTerm: losses of a fifth in two intervals of at least four rounds, at about the same
// rate, mean a policer. Its rate is used for 48 rounds.
func TestLongTerm(t *testing.T) {
	type step struct {
		at                    units.Time
		delivered, lost       units.Bytes
		round, limited, begin bool // begin means that it is after the intervals of a policer
	}
	play := func(x *longTerm, steps ...step) (over bool) {
		for _, s := range steps {
			x.lost += s.lost
			over = x.addAcked(s.at, s.delivered, s.lost, s.round, s.limited, true)
		}
		return over
	}
	// The first loss begins an interval. Four rounds of 10 ms later 40 KB are delivered and
	// 9 KB lost, 22.5%: 8 Mb/s.
	first := []step{{10 * ms, 1000, 1000, true, false, false}, {20 * ms, 11_000, 0, true, false, false},
		{30 * ms, 21_000, 0, true, false, false}, {40 * ms, 31_000, 0, true, false, false}}
	var x longTerm
	play(&x, first...)
	if x.rate != 0 || !x.sampling {
		t.Fatalf("after three rounds: rate %v, sampling %v", x.rate, x.sampling)
	}
	play(&x, step{50 * ms, 41_000, 9000, true, false, false})
	if x.rate != 8*units.Mbps || x.use {
		t.Fatalf("after an interval: rate %v, in use %v, want 8Mbps, not in use", x.rate, x.use)
	}
	second := func(delivered, lost units.Bytes) longTerm {
		y := x
		play(&y, step{60 * ms, 41_000, 0, true, false, false}, step{70 * ms, 41_000, 0, true, false, false},
			step{80 * ms, 41_000, 0, true, false, false}, step{90 * ms, 41_000 + delivered, lost, true, false, false})
		return y
	}
	if y := second(44_000, 10_000); !y.use || y.rate != 8_400*units.Kbps { // 8.8 Mb/s is within an eighth
		t.Errorf("8 and 8.8 Mb/s: %v, in use %v, want 8.4Mbps", y.rate, y.use)
	}
	if y := second(46_000, 10_000); y.use || y.rate != 9_200*units.Kbps {
		t.Errorf("8 and 9.2 Mb/s: %v, in use %v, want 9.2Mbps, not in use", y.rate, y.use)
	}
	if y := second(44_000, 8_500); y.use || y.rate != 8*units.Mbps { // 19.3% is too little
		t.Errorf("with 19%% lost: %v, in use %v", y.rate, y.use)
	}
	y := second(44_000, 10_000)
	for i := range 48 {
		if over := play(&y, step{units.Time(100+i) * ms, 90_000, 0, true, false, false}); over != (i == 47) || y.use == over {
			t.Fatalf("round %d: over %v, in use %v", i, over, y.use)
		}
	}
	y = x
	if play(&y, step{60 * ms, 42_000, 0, false, true, false}); y.sampling || y.rate != 0 {
		t.Error("a sample with nothing more to send does not end the search")
	}
	y = x
	for i := range 17 {
		play(&y, step{units.Time(60+i) * ms, 42_000, 0, true, false, false})
	}
	if y.sampling {
		t.Error("an interval of 17 rounds goes on")
	}
}

// made returns a control in ProbeBW whose path has 80 Mb/s and 10 ms, a BDP of 100 packets of
// 1000 bytes.
func made(t *testing.T, c *Config) *Control {
	if err := c.Validate(units.Gbps); err != nil {
		t.Fatal(err)
	}
	b := New(c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100, Rand: rand.New(rand.NewPCG(1, 2))})
	b.state, b.filled, b.phase, b.rtprop, b.cwnd = probeBW, true, 3, 10*ms, 100_000
	b.btlbw.addSample(1, 80*units.Mbps)
	b.setPacingRate()
	return b
}

// TestBurst: 79.2 Mb/s are 9668 bytes in 1/1024 s, nine packets, and the window has room for
// three bursts, an even number of packets.
func TestBurst(t *testing.T) {
	c := Preset("v1")
	b := made(t, &c)
	if got := b.BurstSize(); got != 9000 {
		t.Errorf("a burst is %d, want 9000", got)
	}
	if got := b.targetInflight(b.btlbw.maxRate(), 1); got != 128_000 { // 100 + 27, and one to be even
		t.Errorf("a BDP and bursts are %d, want 128000", got)
	}
	if b.phase = 0; b.targetInflight(b.btlbw.maxRate(), 1.25) != 154_000 { // 125 + 27, and two
		t.Errorf("while it probes a BDP is %d, want 154000", b.targetInflight(b.btlbw.maxRate(), 1.25))
	}
	for _, x := range []struct {
		rate units.Rate // on the wire
		want units.Bytes
	}{{units.Gbps, 65_000}, {16 * units.Mbps, 2000}, {1_321 * units.Kbps, 2000}, {1_319 * units.Kbps, 1000}} {
		if b.rate = x.rate; b.BurstSize() != x.want {
			t.Errorf("at %v a burst is %d, want %d", x.rate, b.BurstSize(), x.want)
		}
	}
	c.SendQuantum = 0
	if b = made(t, &c); b.BurstSize() != 0 || b.targetInflight(b.btlbw.maxRate(), 1) != 104_000 { // 100 + 3, and one to be even
		t.Errorf("without bursts they are %d, and a BDP %d", b.BurstSize(), b.targetInflight(b.btlbw.maxRate(), 1))
	}
}

// TestInNetwork: the bytes in flight less those delivered until the next packet may leave, plus
// the burst that leaves then while the flight grows.
func TestInNetwork(t *testing.T) {
	c := Preset("v1")
	b := made(t, &c)
	b.departs = 12 * ms
	if got := b.inNetwork(10*ms, 50_000); got != 30_000 {
		t.Errorf("%d, want 30000: 80 Mb/s are 20000 bytes in 2 ms", got)
	}
	if b.phase = 0; b.inNetwork(10*ms, 50_000) != 39_000 {
		t.Errorf("%d, want 39000", b.inNetwork(10*ms, 50_000))
	}
	if got := b.inNetwork(10*ms, 5000); got != 0 {
		t.Errorf("%d, want 0", got)
	}
	if got := b.inNetwork(20*ms, 50_000); got != 59_000 {
		t.Errorf("behind that time %d, want 59000", got)
	}
}

// ack acknowledges newly more bytes, of packets that left when prior was delivered, at 80 Mb/s.
func ack(b *Control, now units.Time, newly, prior, flight units.Bytes) {
	b.OnAck(now, &cc.Ack{
		Acked: b.total + newly, Sent: b.total + newly + flight, Newly: newly, InFlight: flight, RTT: 11 * ms,
		Delivery: cc.Delivery{Total: b.total + newly, Prior: prior, Interval: units.Rate(80 * units.Mbps).TimeOf(b.total + newly - prior)},
	})
}

// TestConservation: in the first round of a recovery as much is sent as arrives, then the
// window grows again, and after the recovery it is what it was before. A recovery that follows
// at once has no such round.
func TestConservation(t *testing.T) {
	c := Preset("v1")
	c.AckAggregation = false
	b := made(t, &c)
	b.cwnd, b.delivered, b.total, b.totalAt = 150_000, 1_000_000, 900_000, ms
	window := func(what string, want units.Bytes) {
		t.Helper()
		if b.cwnd != want {
			t.Errorf("%s: the window is %d, want %d", what, b.cwnd, want)
		}
	}
	b.rtpropAt, b.cycleAt = 10*ms, 10*ms
	b.OnLoss(11*ms, cc.Loss{Payload: 3000})
	ack(b, 11*ms, 2000, 800_000, 120_000) // 902000 delivered: the round ends with what left then
	window("at the loss what flies and arrives", 122_000)
	ack(b, 12*ms, 2000, 802_000, 119_000)
	window("nothing more", 122_000)
	b.OnLoss(13*ms, cc.Loss{Payload: 1000})
	ack(b, 13*ms, 2000, 804_000, 117_000)
	window("a further loss", 121_000)
	ack(b, 14*ms, 2000, 902_000, 115_000)
	window("the second round", 123_000)
	b.OnLoss(15*ms, cc.Loss{Payload: 5000, Again: true})
	ack(b, 15*ms, 2000, 903_000, 110_000)
	window("the next recovery", 120_000)
	if b.held || !b.recovering {
		t.Errorf("held %v, recovering %v in a recovery that follows at once", b.held, b.recovering)
	}
	b.total = 2_000_000 // all of that is acknowledged
	ack(b, 16*ms, 2000, 1_999_000, 100_000)
	window("behind the recovery", 152_000)
}

// TestProbeRTTIsLimited: samples of packets that left in ProbeRTT do not lower BtlBw.
func TestProbeRTTIsLimited(t *testing.T) {
	c := Preset("v1")
	b := made(t, &c)
	b.total, b.totalAt = 1_000_000, ms
	ack(b, 10*units.Second+20*ms, 1000, 990_000, 4000) // RTprop is of 10 s ago
	if b.state != probeRTT || b.few != [2]units.Bytes{1_001_000, 1_005_000} {
		t.Fatalf("state %d, limited from and until %d", b.state, b.few)
	}
	for _, x := range []struct {
		prior units.Bytes
		want  bool
	}{{1_000_999, false}, {1_001_000, true}, {1_005_000, true}, {1_005_001, false}} {
		if got := b.isAppLimited(&cc.Delivery{Prior: x.prior}); got != x.want {
			t.Errorf("a packet that left at %d: limited %v", x.prior, got)
		}
	}
}

// TestHandshake: RTprop begins with the handshake's RTT.
func TestHandshake(t *testing.T) {
	c := Preset("v1")
	b := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100, Rand: rand.New(rand.NewPCG(1, 2))})
	b.OnAck(30*ms, &cc.Ack{Acked: 1000, Sent: 10_000, Newly: 1000, InFlight: 9000, RTT: 11 * ms, Delivery: cc.Delivery{Total: 1000, MinRTT: 10 * ms}})
	if b.rtprop != 10*ms {
		t.Errorf("RTprop is %v, want 10ms", b.rtprop)
	}
}
