package pfc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

const (
	rate = 10 * units.Gbps
	us   = units.Microsecond
)

// TestPauseTime: 65535 quanta of 512 bits are 3.355 ms at 10 Gb/s.
func TestPauseTime(t *testing.T) {
	if got := PauseTime(65535, rate); got != 3_355_392*units.Nanosecond {
		t.Errorf("%v", got)
	}
	if got := PauseTime(1, 512*units.BitPerSecond); got != units.Second {
		t.Errorf("%v", got)
	}
}

// TestSenderTranscript: two classes of one port, with pauses that overlap.
func TestSenderTranscript(t *testing.T) {
	s := NewSender(false, &Configs{3: {Quanta: 100}, 5: {Quanta: 200, Refresh: 2 * us}}) // 5.12 us, refreshed after 2.56
	if s.NextRefresh() != units.Never {
		t.Fatalf("due at %v before anything", s.NextRefresh())
	}
	if f := s.PauseClass(0, 3, 7, rate); f != (wire.Pause{Classes: 8, Quanta: [8]uint16{3: 100}}) || s.NextRefresh() != 2_560_000 {
		t.Fatalf("xoff: %+v, due %v", f, s.NextRefresh())
	}
	if f := s.PauseClass(us, 5, 2, rate); f != (wire.Pause{Classes: 32, Quanta: [8]uint16{5: 200}}) || s.NextRefresh() != 2_560_000 {
		t.Fatalf("second xoff: %+v, due %v", f, s.NextRefresh())
	}
	if f := s.RefreshPauses(2_560_000, rate); f != (wire.Pause{Classes: 40, Quanta: [8]uint16{3: 100, 5: 200}}) || s.NextRefresh() != 4_560_000 {
		t.Fatalf("refresh: %+v, due %v", f, s.NextRefresh())
	}
	if f := s.ResumeClass(4*us, 3); f != (wire.Pause{Classes: 8}) {
		t.Fatalf("xon: %+v", f)
	}
	want := Sent{Time: 4 * us, Pauses: 1, PauseFrames: 2, ResumeFrames: 1, Causes: []units.Time{7: 4 * us}}
	if diff := cmp.Diff(want, s.Statistics(9*us, 3)); diff != "" {
		t.Errorf("class 3 (-want +got):\n%s", diff)
	}
	want = Sent{Asking: true, Time: 8 * us, Pauses: 1, PauseFrames: 2, Causes: []units.Time{2: 8 * us}}
	if diff := cmp.Diff(want, s.Statistics(9*us, 5)); diff != "" {
		t.Errorf("class 5 (-want +got):\n%s", diff)
	}
	s.ResumeClass(9*us, 5)
	if s.NextRefresh() != units.Never || s.RequestedClasses() != 0 {
		t.Errorf("in the end due %v, asking %b", s.NextRefresh(), s.RequestedClasses())
	}
}

// TestReceiverTranscript: a pause, its extension, its expiry.
func TestReceiverTranscript(t *testing.T) {
	r := NewReceiver(&Configs{}, Obeyed{Classes: 0xff})
	frame := wire.Pause{Classes: 8, Quanta: [8]uint16{3: 100}} // 5.12 us
	r.ApplyFrame(0, &frame, rate, 0)
	if r.BlockedClasses() != 8 || r.NextExpiry() != 5_120_000 {
		t.Fatalf("blocked %b, due %v", r.BlockedClasses(), r.NextExpiry())
	}
	r.ApplyFrame(3*us, &frame, rate, 0)
	if r.NextExpiry() != 8_120_000 {
		t.Fatalf("a second frame leaves it at %v", r.NextExpiry())
	}
	r.ExpirePauses(8_120_000)
	if r.BlockedClasses() != 0 || r.NextExpiry() != units.Never {
		t.Fatalf("after it expired: blocked %b, due %v", r.BlockedClasses(), r.NextExpiry())
	}
	if got := r.Statistics(20*us, 3); got != (Got{Time: 8_120_000, Pauses: 1, PauseFrames: 2}) {
		t.Errorf("%+v", got)
	}
	// A class that is not paused can be resumed.
	r.ApplyFrame(20*us, &wire.Pause{Classes: 0xff}, rate, 0)
	if got := r.Statistics(20*us, 3); got.ResumeFrames != 1 || got.Paused {
		t.Errorf("%+v", got)
	}
}

// TestReceiver_IgnoresAndCountsWhatItDoesNotObey: a port obeys frames of one kind, and PFC
// frames for some classes. What it ignores neither pauses nor ends a pause.
func TestReceiver_IgnoresAndCountsWhatItDoesNotObey(t *testing.T) {
	ask := func(classes uint8, quanta uint16) *wire.Pause {
		f := &wire.Pause{Classes: classes}
		for i := range f.Quanta {
			f.Quanta[i] = quanta
		}
		return f
	}
	global := ask(0xff, 100)
	global.Global = true
	for _, c := range []struct {
		name    string
		obeys   Obeyed
		frame   *wire.Pause
		paused  uint8
		ignored bool
	}{
		{"a class with PFC", Obeyed{Classes: 1 << 3}, ask(1<<3, 100), 1 << 3, false},
		{"a class without", Obeyed{Classes: 1 << 3}, ask(1<<4, 100), 0, true},
		{"both in one frame", Obeyed{Classes: 1 << 3}, ask(1<<3|1<<4, 100), 1 << 3, true},
		{"the end of a pause of a class without", Obeyed{Classes: 1 << 3}, ask(1<<4, 0), 0, false},
		{"PAUSE at a port with PFC", Obeyed{Classes: 1 << 3}, global, 0, true},
		{"PAUSE at a port with neither", Obeyed{}, global, 0, true},
		{"PAUSE at a port with PAUSE", Obeyed{Pause: true}, global, 0xff, false},
		{"PFC at a port with PAUSE", Obeyed{Pause: true}, ask(0xff, 100), 0, true},
	} {
		r := NewReceiver(&Configs{}, c.obeys)
		ignored := r.ApplyFrame(0, c.frame, rate, 0xff)
		if r.PausedClasses() != c.paused || r.BlockedClasses() != c.paused || ignored != c.ignored {
			t.Errorf("%s: paused %08b, blocked %08b, ignored %v", c.name, r.PausedClasses(), r.BlockedClasses(), ignored)
		}
		for prio := range uint8(8) {
			want := Got{}
			switch named := c.frame.Classes>>prio&1 != 0 && c.frame.Quanta[prio] > 0; {
			case c.paused>>prio&1 != 0:
				want = Got{Paused: true, Pauses: 1, PauseFrames: 1}
			case named:
				want.Ignored = 1
			}
			if got := r.Statistics(0, prio); got != want {
				t.Errorf("%s: class %d: %+v, want %+v", c.name, prio, got, want)
			}
		}
	}
}

// TestReceiver_ObeyedPauseOutlivesIgnoredResume: a frame that a port does not obey does not
// end a pause either.
func TestReceiver_ObeyedPauseOutlivesIgnoredResume(t *testing.T) {
	r := NewReceiver(&Configs{}, Obeyed{Classes: 1 << 3})
	r.ApplyFrame(0, &wire.Pause{Classes: 1 << 3, Quanta: [8]uint16{3: 100}}, rate, 0)
	if r.ApplyFrame(us, &wire.Pause{Global: true, Classes: 0xff}, rate, 0); r.BlockedClasses() != 1<<3 {
		t.Errorf("a PAUSE of 0 ended a pause by PFC: blocked %08b", r.BlockedClasses())
	}
}

// TestWatchdogOnlyBitesTheStuck: the watchdog does not trigger for a paused class
// without packets, or one that makes progress between pauses.
func TestWatchdogOnlyBitesTheStuck(t *testing.T) {
	r := NewReceiver(&Configs{3: {Watchdog: Watchdog{Detect: 10 * us, Restore: 5 * us}}}, Obeyed{Classes: 1 << 3})
	pause := wire.Pause{Classes: 8, Quanta: [8]uint16{3: 65535}}
	r.ApplyFrame(0, &pause, rate, 0)
	if bitten, _ := r.ExpirePauses(50 * us); bitten != 0 {
		t.Fatal("it bit where nothing waited")
	}
	r.SetBacklog(50*us, 8)
	r.ApplyFrame(55*us, &wire.Pause{Classes: 8}, rate, 8)
	r.ApplyFrame(56*us, &pause, rate, 8)
	if bitten, released := r.ExpirePauses(61 * us); bitten != 0 || released != 0 || r.NextExpiry() != 66*us {
		t.Fatalf("it bit though the class got on; due %v", r.NextExpiry())
	}
	if bitten, _ := r.ExpirePauses(66 * us); bitten != 8 || r.BlockedClasses() != 0 || r.DroppedClasses() != 8 {
		t.Fatalf("it did not bite: blocked %b, dropping %b", r.BlockedClasses(), r.DroppedClasses())
	}
	r.ExpirePauses(200 * us)
	if r.DroppedClasses() != 8 {
		t.Fatal("it let go while the peer still paused it")
	}
	r.ApplyFrame(201*us, &wire.Pause{Classes: 8}, rate, 0)
	r.ApplyFrame(204*us, &pause, rate, 8)
	r.ApplyFrame(205*us, &wire.Pause{Classes: 8}, rate, 8)
	if _, released := r.ExpirePauses(209 * us); released != 0 || r.DroppedClasses() != 8 || r.NextExpiry() != 210*us {
		t.Fatalf("after 4 us without a pause: dropping %b, due %v", r.DroppedClasses(), r.NextExpiry())
	}
	if _, released := r.ExpirePauses(210 * us); released != 8 || r.DroppedClasses() != 0 || r.BlockedClasses() != 0 {
		t.Fatalf("after 5 us without a pause: dropping %b, blocked %b", r.DroppedClasses(), r.BlockedClasses())
	}
	// A watchdog that has released a class can trigger again.
	r.ApplyFrame(300*us, &pause, rate, 8)
	if bitten, _ := r.ExpirePauses(310 * us); bitten != 8 {
		t.Error("it did not bite a second time")
	}
}

// TestSenderKeepsReceiverPaused: whatever happens, a receiver that hears a sender
// without delay is paused in exactly the classes that the sender pauses.
func TestSenderKeepsReceiverPaused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var configs Configs
		for i := range configs {
			configs[i] = &Config{Quanta: uint16(rapid.IntRange(1, 65535).Draw(t, "quanta"))}
		}
		s, r := NewSender(false, &configs), NewReceiver(&configs, Obeyed{Classes: 0xff})
		var now units.Time
		var sum [8]units.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			until := now + units.Time(rapid.IntRange(0, 5_000_000_000).Draw(t, "gap"))
			for due := min(s.NextRefresh(), r.NextExpiry()); due <= until; due = min(s.NextRefresh(), r.NextExpiry()) {
				if s.NextRefresh() <= due {
					f := s.RefreshPauses(due, rate)
					r.ApplyFrame(due, &f, rate, 0)
				}
				r.ExpirePauses(due)
				if r.BlockedClasses() != s.RequestedClasses() {
					t.Fatalf("at %v: asked for %b, paused %b", due, s.RequestedClasses(), r.BlockedClasses())
				}
			}
			for i := range sum {
				if s.RequestedClasses()>>i&1 != 0 {
					sum[i] += until - now
				}
			}
			now = until
			prio := uint8(rapid.IntRange(0, 7).Draw(t, "class"))
			var f wire.Pause
			if s.RequestedClasses()>>prio&1 == 0 {
				f = s.PauseClass(now, prio, 0, rate)
			} else {
				f = s.ResumeClass(now, prio)
			}
			r.ApplyFrame(now, &f, rate, 0)
			if r.BlockedClasses() != s.RequestedClasses() {
				t.Fatalf("at %v: asked for %b, paused %b", now, s.RequestedClasses(), r.BlockedClasses())
			}
		}
		for i := range sum {
			if sent, got := s.Statistics(now, uint8(i)), r.Statistics(now, uint8(i)); sent.Time != sum[i] || got.Time != sum[i] || sent.Pauses != got.Pauses || sent.PauseFrames != got.PauseFrames {
				t.Fatalf("class %d: paused for %v; the sender says %+v, the receiver %+v", i, sum[i], sent, got)
			}
		}
	})
}
