package telemetry

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// TestRates: every rate except "unknown" has a unique code, which decodes to it.
func TestRates(t *testing.T) {
	if len(RateCodes()) != 15 {
		t.Errorf("%d rates have a code", len(RateCodes()))
	}
	last := units.Rate(0)
	for i, r := range RateCodes() {
		code, ok := RateCode(r)
		if !ok || int(code) != i+1 || NewHop(code, 0, 0, 0).Rate() != r {
			t.Errorf("%v has the code %d, %v, which stands for %v", r, code, ok, NewHop(code, 0, 0, 0).Rate())
		}
		if r <= last {
			t.Errorf("%v comes after %v", r, last)
		}
		last = r
	}
	for _, r := range []units.Rate{0, 1, 3 * units.Gbps, units.Gbps + 1, -units.Gbps} {
		if code, ok := RateCode(r); ok || code != 0 {
			t.Errorf("%v has the code %d", r, code)
		}
	}
	if h := NewHop(0, 0, 0, 0); h.Rate() != 0 {
		t.Errorf("code 0 stands for %v", h.Rate())
	}
}

// TestHopFields: no field of a hop spills into another, whatever the values, and values
// that are too fine or too large for a field are cut as its comment says.
func TestHopFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := uint8(rapid.IntRange(1, 15).Draw(t, "code"))
		at := units.Time(rapid.Int64Range(0, math.MaxInt64).Draw(t, "at"))
		sent := units.Bytes(rapid.Int64Range(0, math.MaxInt64).Draw(t, "sent"))
		queue := units.Bytes(rapid.OneOf(rapid.Int64Range(0, 6_000_000), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "queue"))
		h := NewHop(code, at, sent, queue)
		if h.Rate() != RateCodes()[code-1] {
			t.Fatalf("%v has another rate than code %d", h, code)
		}
		if want := min(queue/80*80, 5_242_800); h.Queue() != want {
			t.Fatalf("%v for a queue of %d", h, queue)
		}
		origin := NewHop(code, 0, 0, 0)
		elapsed, moved := h.Since(origin)
		if elapsed != at/units.Nanosecond*units.Nanosecond%TimeWrap || moved != sent/128*128%SentWrap {
			t.Fatalf("%v and %d bytes since the start, from %d ps and %d bytes", elapsed, moved, at, sent)
		}
	})
}

// TestSinceOverTheWrap: differences are right if time or bytes wrap around once between
// two hops.
func TestSinceOverTheWrap(t *testing.T) {
	if TimeWrap != 16_777_216*units.Nanosecond || SentWrap != 134_217_728 {
		t.Errorf("time wraps after %v, bytes after %d", TimeWrap, SentWrap)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := units.Time(rapid.Int64Range(0, 40_000_000).Draw(t, "ns")) * units.Nanosecond
		sent := units.Bytes(rapid.Int64Range(0, 3_000_000).Draw(t, "blocks")) * 128
		later := units.Time(rapid.Int64Range(0, 1<<24-1).Draw(t, "ns later")) * units.Nanosecond
		more := units.Bytes(rapid.Int64Range(0, 1<<20-1).Draw(t, "blocks more")) * 128
		elapsed, moved := NewHop(1, at+later, sent+more, 0).Since(NewHop(1, at, sent, 0))
		if elapsed != later || moved != more {
			t.Fatalf("%v and %d bytes, not %v and %d", elapsed, moved, later, more)
		}
	})
}

// TestBetween: with a clock, time is right over any number of wraps, and unusable results
// are reported as such.
func TestBetween(t *testing.T) {
	const ns, ms = units.Nanosecond, units.Millisecond
	hop := func(rate units.Rate, at units.Time, sent units.Bytes) Hop {
		code, _ := RateCode(rate)
		return NewHop(code, at, sent, 0)
	}
	for _, c := range []struct {
		name   string
		rate   units.Rate
		passed units.Time
		clock  units.Time
		ok     bool
	}{
		{"at once", 100 * units.Gbps, ns, 0, true},
		{"the same instant", 100 * units.Gbps, 0, ns, false},
		{"earlier", 100 * units.Gbps, -ns, ns, false},
		{"much earlier", 100 * units.Gbps, -ms, ms, false},
		{"the queue was longer then", units.Gbps, ms, 9 * ms, true},
		{"the queue is longer now", units.Gbps, 9 * ms, ms, true},
		{"just one wrap", units.Gbps, TimeWrap, TimeWrap + ms, true},
		{"many wraps", 100 * units.Mbps, 5 * units.Second, 5*units.Second + ms, true},
		{"bytes have not wrapped", 100 * units.Gbps, 10_700_000 * ns, 10 * ms, true},
		{"bytes can have wrapped", 100 * units.Gbps, 10_740_000 * ns, 10 * ms, false},
		{"no rate", 0, ms, ms, false},
	} {
		before := TimeWrap * 3 / 2
		sent := c.rate.BytesIn(max(c.passed, 0)) / 2 / 128 * 128
		elapsed, moved, ok := hop(c.rate, before+c.passed, sent).Between(hop(c.rate, before, 0), c.clock)
		if ok != c.ok || ok && (elapsed != c.passed || moved != sent) {
			t.Errorf("%s: %v, %d bytes, %v; want %v, %d, %v", c.name, elapsed, moved, ok, c.passed, sent, c.ok)
		}
	}
}

// TestPush: hops are in the order of their ports, up to the room, and echoes get none.
// The path is that of the ports that wrote.
func TestPush(t *testing.T) {
	s := Stack{Room: 2}
	one, two := NewHop(1, 1, 0, 0), NewHop(2, 2, 0, 0)
	s.Push(0x1234, one)
	s.Push(0x1111, two)
	full := s
	s.Push(0x7777, one)
	if diff := cmp.Diff(full, s); diff != "" {
		t.Errorf("a hop beyond the room (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff([]Hop{one, two}, s.WrittenHops()); diff != "" || s.Path != 0x0325 {
		t.Errorf("path %04x, hops (-want +got):\n%s", s.Path, diff)
	}
	back := Stack{Room: 2, Echo: true}
	back.Push(1, one)
	none := Stack{}
	none.Push(1, one)
	if back.Count != 0 || back.Path != 0 || none != (Stack{}) {
		t.Errorf("pushed to an echo %+v, without room %+v", back, none)
	}
	most := Stack{Room: MaxHops}
	for range MaxHops + 3 {
		most.Push(1, one)
	}
	if len(most.WrittenHops()) != MaxHops {
		t.Errorf("%d hops in the most room", len(most.WrittenHops()))
	}
}

// TestPut checks the bytes of a stack against the package's comment: rate code 11, time
// 0x030201 ns, 0x54321 blocks of 128 bytes, a queue of 0x1234 blocks of 80.
func TestPut(t *testing.T) {
	s := Stack{Room: 2, Echo: true, Count: 1, Path: 0xabcd}
	s.Hops[0] = NewHop(11, 0x030201*units.Nanosecond, 0x54321*128, 0x1234*80)
	b := bytes.Repeat([]byte{0xee}, int(s.Len())+1)
	s.EncodeTo(b)
	want := []byte{
		0x21, 0x80, 0xab, 0xcd,
		0xb0, 0x30, 0x20, 0x15, 0x43, 0x21, 0x12, 0x34,
		0, 0, 0, 0, 0, 0, 0, 0,
		0xee,
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Len() != 20 || StackSize(5) != 44 || StackSize(0) != 0 || new(Stack).Len() != 0 {
		t.Errorf("lengths %d, %d, %d, %d", s.Len(), StackSize(5), StackSize(0), new(Stack).Len())
	}
}

// TestRoundTrip: a written stack is parsed, whatever follows it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Stack{
			Room: uint8(rapid.IntRange(1, MaxHops).Draw(t, "room")),
			Echo: rapid.Bool().Draw(t, "echo"), Path: rapid.Uint16().Draw(t, "path"),
		}
		want.Count = uint8(rapid.IntRange(0, int(want.Room)).Draw(t, "count"))
		for i := range want.WrittenHops() {
			want.Hops[i] = Hop(rapid.Uint64().Draw(t, "hop"))
		}
		b := make([]byte, want.Len(), want.Len()+10)
		want.EncodeTo(b)
		for _, b := range [][]byte{b, append(b, "payload..."...)} {
			got := Stack{Room: MaxHops, Count: MaxHops, Hops: [MaxHops]Hop{1, 1, 1, 1, 1, 1, 1}}
			n, err := got.Parse(b)
			if err != nil || n != int(want.Len()) || got != want {
				t.Fatalf("%d bytes, %v: %+v, want %+v", n, err, got, want)
			}
		}
		for n := range b {
			if _, err := new(Stack).Parse(b[:n]); err == nil || !strings.Contains(err.Error(), "shorter than") {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	})
}

// TestParseRefuses checks that invalid stacks are refused.
func TestParseRefuses(t *testing.T) {
	for _, first := range []byte{0x00, 0x01, 0x12, 0x59, 0x80, 0xf0, 0xff} {
		var s Stack
		b := make([]byte, 200)
		b[0] = first
		n, err := s.Parse(b)
		if err == nil || n != 0 || s != (Stack{}) || !strings.Contains(err.Error(), "room is 1 to 7") {
			t.Errorf("%02x: %d bytes, %v, %+v", first, n, err, s)
		}
	}
}

// FuzzParse: any bytes are refused, or are a stack that is written unchanged.
func FuzzParse(f *testing.F) {
	s := Stack{Room: 3, Count: 2, Path: 7, Echo: true, Hops: [MaxHops]Hop{1, 2}}
	b := make([]byte, s.Len())
	s.EncodeTo(b)
	f.Add(b)
	f.Add([]byte{0x50, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Stack
		n, err := s.Parse(b)
		if err != nil {
			return
		}
		if n != int(s.Len()) || n > len(b) || s.Count > s.Room || s.Room > MaxHops {
			t.Fatalf("%+v from %d of %d bytes", s, n, len(b))
		}
		out := make([]byte, n)
		s.EncodeTo(out)
		if m, err := again.Parse(out); err != nil || m != n || again != s {
			t.Fatalf("%+v is read back as %+v: %v", s, again, err)
		}
	})
}

// TestNothingAllocates on a packet's path.
func TestNothingAllocates(t *testing.T) {
	s := Stack{Room: 5}
	b := make([]byte, s.Len())
	if n := testing.AllocsPerRun(100, func() {
		s.Count = 0
		s.Push(1, NewHop(3, units.Second, 1000, 1000))
		s.EncodeTo(b)
		if _, err := s.Parse(b); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
