package rogue

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

const us = units.Microsecond

// TestWindow compares the window with Vegas, step by step.
func TestWindow(t *testing.T) {
	const mtu, frame = 1000, 1100
	w := NewWindow(Default(10*units.Gbps), 10*units.Gbps, mtu, frame, 10*us)
	steps := []struct {
		what  string
		rtt   units.Time
		size  units.Bytes
		limit units.Rate
		slow  bool
	}{
		// The line carries 11.36 packets in 10 us; at most 4 more are allowed.
		{"slow start doubles, up to what fills the line", 10 * us, 15363, 10 * units.Gbps, false},
		{"2 < 2.56 < 4 packets queued", 12 * us, 15363, 10 * units.Gbps, false},
		{"7.7 packets queued", 20 * us, 14363, 10 * units.Gbps, false},
		{"7.2 packets queued", 20 * us, 13363, 10 * units.Gbps, false},
		{"6.7 packets queued", 20 * us, 12363, 10 * units.Gbps, false},
		{"6.2 packets queued", 20 * us, 11363, 9_999_440_000, false},
		{"5.7 packets queued", 20 * us, 10363, 9_119_440_000, false},
		{"less than the base RTT is not believed", us, 11363, 9_999_440_000, false},
		{"10 packets queued", 100 * us, 10363, 9_119_440_000, false},
	}
	if w.Size() != 10*mtu || !w.SlowStart() || w.RateLimit() != 0 {
		t.Fatalf("a new window is %v, slow start %v, limit %v", w.Size(), w.SlowStart(), w.RateLimit())
	}
	for _, s := range steps {
		was := w.RateLimit()
		changed := w.SampleRTT(s.rtt)
		near := math.Abs(float64(w.RateLimit()-s.limit)) < 1e6
		if w.Size() != s.size || !near || w.SlowStart() != s.slow || changed != (w.RateLimit() != was) {
			t.Fatalf("%s: window %d, limit %d, slow start %v, changed %v; want %+v", s.what, int64(w.Size()), int64(w.RateLimit()), w.SlowStart(), changed, s)
		}
	}
	// Slow start ends when a queue forms, with the window of the base RTT plus one packet.
	w = NewWindow(Default(100*units.Gbps), 100*units.Gbps, mtu, frame, 0)
	w.SampleRTT(10 * us)
	if w.SampleRTT(50 * us); w.Size() != 5000 || w.SlowStart() || w.RateLimit() != 4400*units.Mbps {
		t.Errorf("after slow start: window %d, limit %v, slow start %v", int64(w.Size()), w.RateLimit(), w.SlowStart())
	}
	w.RestartSlowStart()
	if w.Size() != 10_000 || !w.SlowStart() || w.RateLimit() != 0 || w.BaseRTT() != 10*us {
		t.Errorf("after a restart: window %d, base %v", int64(w.Size()), w.BaseRTT())
	}
}

// TestWindowBounds: whatever is measured, the window stays between one packet and what
// fills the line, and limits change by at most a step.
func TestWindowBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default(10 * units.Gbps)
		w := NewWindow(c, 10*units.Gbps, 1000, 1100, 5*us)
		for range 200 {
			was := w.RateLimit()
			w.SampleRTT(units.Time(rapid.Int64Range(0, int64(units.Millisecond)).Draw(t, "rtt")))
			if w.Size() < 1000 || float64(w.Size()) > max(w.maxSize(), 10_000*2) {
				t.Fatalf("the window is %d", int64(w.Size()))
			}
			step := w.RateLimit() - was
			if was > 0 && w.RateLimit() > 0 && (step > c.RateStep || step < -c.RateStep) || w.RateLimit() > 10*units.Gbps {
				t.Fatalf("the limit went from %v to %v", was, w.RateLimit())
			}
		}
	})
}

// TestMeter: batches through a pacer whose limit lags, and a network, have the RTTs of the
// network, whatever their sizes, gaps and limits.
func TestMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const line = 10 * units.Gbps
		lag := units.Bytes(rapid.SampledFrom([]int{0, 160_000}).Draw(t, "lag"))
		m := NewMeter(line, lag, 1000)
		var free units.Time // of the pacer
		var sent units.Bytes
		rate, next, from := units.Rate(line), units.Rate(line), units.Bytes(0)
		leave := func(n units.Bytes) units.Time {
			for ; n > 0; n, sent = n-1000, sent+1000 {
				if sent >= from {
					rate = next
				}
				free += rate.TimeOf(1000)
			}
			return free
		}
		var now units.Time
		for range 100 {
			now = max(now, free) + units.Time(rapid.Int64Range(0, int64(10*us)).Draw(t, "gap"))
			if rapid.Bool().Draw(t, "limit") {
				r := units.Rate(rapid.IntRange(1, 10).Draw(t, "rate")) * units.Gbps
				m.RecordLimit(now, r)
				if sent >= from {
					rate = next
				}
				next, from = r, sent+lag
			}
			n := units.Bytes(rapid.IntRange(1, 100).Draw(t, "size")) * 1000
			m.RecordPosted(n)
			free = now
			rtt := units.Time(rapid.Int64Range(int64(us), int64(100*us)).Draw(t, "rtt"))
			got := m.RecordCompletion(now, leave(n)+rtt, n)
			if diff := got - rtt; diff < -10*units.Nanosecond || diff > 10*units.Nanosecond {
				t.Fatalf("an RTT of %v is measured as %v", rtt, got)
			}
			now = free + rtt
		}
	})
}

// TestMeterOfBacklog: batches posted before the previous one has left begin where that
// ends, and a queue in the network counts fully.
func TestMeterOfBacklog(t *testing.T) {
	const batch = 64_000
	m := NewMeter(10*units.Gbps, 0, 1000)
	m.RecordLimit(0, 5*units.Gbps)
	takes := (5 * units.Gbps).TimeOf(batch)
	var done units.Time
	for i := range 50 {
		posted := max(0, units.Time(i-1)*takes) // two are queued
		m.RecordPosted(batch)
		queue := units.Time(i) * us
		done = units.Time(i+1)*takes + 10*us + queue
		if got := m.RecordCompletion(posted, done, batch); got != 10*us+queue {
			t.Fatalf("batch %d: %v, want %v", i, got, 10*us+queue)
		}
	}
	if m.BacklogTime() != 0 {
		t.Errorf("%v are under way", m.BacklogTime())
	}
}

func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32Max(1<<24 - 1)
		m := Message{
			Kind: Kind(rapid.IntRange(1, len(kinds)-1).Draw(t, "kind")), From: n.Draw(t, "from"), To: n.Draw(t, "to"), Epoch: rapid.Uint32().Draw(t, "epoch"),
			Other: n.Draw(t, "other"), PSN: n.Draw(t, "psn"), Received: rapid.Uint32().Draw(t, "received"),
			Limit: units.Rate(rapid.Int64Range(0, maxLimit).Draw(t, "limit")) * units.Kbps,
		}
		if m.Kind.isHello() {
			m.Received, m.Echoes = 0, n.Draw(t, "echoes")
		}
		b := m.Append(nil)
		if got, err := Parse(b); len(b) != MessageLen || err != nil || got != m {
			t.Fatalf("%+v reads back as %+v, %v", m, got, err)
		}
		i := rapid.IntRange(0, MessageLen-1).Draw(t, "at")
		if _, err := Parse(b[:i]); !errors.Is(err, ErrMessage) {
			t.Fatalf("%d bytes are taken: %v", i, err)
		}
	})
	for _, b := range [][]byte{
		append([]byte{2, 1}, make([]byte, 34)...), append([]byte{1, 0}, make([]byte, 34)...), append([]byte{1, 99}, make([]byte, 34)...),
		slices.Concat([]byte{1, 1, 0, 0, 1}, make([]byte, 31)), slices.Concat([]byte{1, 1}, make([]byte, 26), []byte{1}, make([]byte, 7)),
	} {
		if _, err := Parse(b); !errors.Is(err, ErrMessage) {
			t.Errorf("%x is taken", b)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := Default(units.Gbps).Validate(units.Gbps); err != nil {
		t.Fatal(err)
	}
	if Default(100*units.Gbps).Segment != 256<<10 {
		t.Error("the paper has 256 KB at 100 Gb/s")
	}
	bad := Config{Segment: 3, Queued: 0, Initial: 0, Alpha: -1, Beta: -2, Gamma: math.NaN(), RateStep: -1, Hold: -1, BaseRTT: -1, Noise: -1, Retries: 8}
	var keys []string
	for _, e := range bad.Validate(0).(interface{ Unwrap() []error }).Unwrap() {
		var r *registry.RangeError
		if errors.As(e, &r) {
			keys = append(keys, r.Key)
		}
	}
	want := []string{"segment", "queued", "initial", "alpha", "beta", "gamma", "rate-step", "hold", "base-rtt", "noise", "echo-timeout", "retries"}
	if !slices.Equal(keys, want) {
		t.Errorf("errors of %v, want %v", keys, want)
	}
}

// TestEcho: the 32 bits of an echo preserve its fields, up to their unit.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Echo{Batch: rapid.Uint16Max(EchoBatches-1).Draw(t, "batch"), Response: units.Time(rapid.Int64Range(0, int64(20*units.Millisecond)).Draw(t, "response"))}
		got := EchoOf(e.Immediate())
		if got.Batch != e.Batch {
			t.Fatalf("batch %d", got.Batch)
		}
		if late := e.Response >= maxEcho*EchoUnit; got.Late != late || !late && (got.Response > e.Response || e.Response-got.Response >= EchoUnit) {
			t.Fatalf("%v became %+v", e.Response, got)
		}
	})
	if e := EchoOf(Echo{Late: true}.Immediate()); !e.Late {
		t.Errorf("%+v", e)
	}
}

// TestEchoed: sending time at an earlier limit, and time spent waiting for the previous
// batch, do not count.
func TestEchoed(t *testing.T) {
	const frame, batch = 1000, 100_000 // 80 us at 10 Gb/s
	m := NewMeter(10*units.Gbps, 0, frame)
	for i, x := range []struct {
		start, sent, echo, response, want units.Time
	}{
		{0, 80 * us, 100 * us, 5 * us, 15 * us},
		{80 * us, 160 * us, 170 * us, 0, 10 * us},
		{160 * us, 320 * us, 335 * us, 10 * us, 5 * us}, // at 5 Gb/s
		{320 * us, 480 * us, 470 * us, 0, 0},
	} {
		at := m.PostedBytes()
		if m.RecordPosted(batch); i == 2 {
			m.RecordLimit(x.start, 5*units.Gbps)
		}
		if rtt := m.RecordEcho(at, batch, x.start, x.echo, x.response); rtt != x.want {
			t.Errorf("batch %d: RTT %v, want %v", i, rtt, x.want)
		}
		m.SkipCompletion(x.sent, batch)
	}
}

// TestLost: a loss halves the window and ends slow start, and the limit follows by a step.
func TestLost(t *testing.T) {
	w := NewWindow(Default(10*units.Gbps), 10*units.Gbps, 1000, 1100, 10*us)
	if w.OnLoss() || w.Size() != 5000 || w.SlowStart() || w.RateLimit() != 0 {
		t.Errorf("before the first sample: window %d, limit %v", int64(w.Size()), w.RateLimit())
	}
	w.RestartSlowStart()
	w.SampleRTT(10 * us)
	if was := w.Size(); !w.OnLoss() || w.Size() != was/2 || w.RateLimit() != 9*units.Gbps {
		t.Errorf("window %d of %d, limit %v", int64(w.Size()), int64(was), w.RateLimit())
	}
	for range 20 {
		w.OnLoss()
	}
	if w.Size() != 1000 {
		t.Errorf("window %d after 21 losses", int64(w.Size()))
	}
}
