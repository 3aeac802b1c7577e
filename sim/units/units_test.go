package units

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	times := map[string]Time{"50us": 50 * Microsecond, "1.5 ms": 1500 * Microsecond, "0": 0, "2s": 2 * Second, "3µs": 3 * Microsecond, "-1ns": -Nanosecond}
	for s, want := range times {
		if got, err := ParseTime(s); err != nil || got != want {
			t.Errorf("ParseTime(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	rates := map[string]Rate{"10Gbps": 10 * Gbps, "100 Mb/s": 100 * Mbps, "1gbit": Gbps, "2.5Gbps": 2500 * Mbps, "unlimited": 0}
	for s, want := range rates {
		if got, err := ParseRate(s); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	sizes := map[string]Bytes{"1MB": MB, "64 KiB": 64 * KiB, "1500B": 1500, "0": 0, "1.5KB": 1500}
	for s, want := range sizes {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	shares := map[string]Fraction{"1%": 0.01, "0.25": 0.25, "100%": 1, "1e-6": 1e-6}
	for s, want := range shares {
		if got, err := ParseFraction(s); err != nil || got != want {
			t.Errorf("ParseFraction(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
}

// TestErrorsNameTheMend checks that the parsers' errors say what would be valid.
func TestErrorsNameTheMend(t *testing.T) {
	for _, c := range []struct{ kind, in, say string }{
		{"time", "50", "write for example 50us"}, {"time", "5 parsecs", "units: ps, ns, us"},
		{"time", "soon", "such as 50us"}, {"time", "99999999999999999999s", "too large"},
		{"rate", "10", "write for example 10Gbps"}, {"rate", "0Gbps", "unlimited"}, {"rate", "-1Gbps", "negative"},
		{"bytes", "64", "64KB"}, {"bytes", "1Mb", "units: B, KB"}, {"bytes", "-1B", "negative"},
		{"share", "120%", "outside"}, {"share", "few", "percentage"}, {"share", "NaN", "outside"}, {"share", "1.5", "outside"},
		{"share", "1", "1% or 100%"}, {"share", "1.0", "1% or 100%"}, {"share", " 1e0 ", "1% or 100%"},
	} {
		var err error
		switch c.kind {
		case "time":
			_, err = ParseTime(c.in)
		case "rate":
			_, err = ParseRate(c.in)
		case "bytes":
			_, err = ParseBytes(c.in)
		case "share":
			_, err = ParseFraction(c.in)
		}
		if err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s %q: error %v does not say %q", c.kind, c.in, err, c.say)
		}
	}
}

// TestPrintedParsesBack: every printed value parses to the same value.
func TestPrintedParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Int64Range(0, 1<<62), rapid.Int64Range(0, 2_000_000), rapid.Map(rapid.Int64Range(0, 1<<30), func(m int64) int64 { return m * int64(MiB) })).Draw(t, "v")
		if got, err := ParseTime(Time(-v).String()); err != nil || got != Time(-v) {
			t.Fatalf("time %d prints %s, read as %d, %v", -v, Time(-v), got, err)
		}
		if got, err := ParseTime(Time(v).String()); err != nil || got != Time(v) {
			t.Fatalf("time %d prints %s, read as %d, %v", v, Time(v), got, err)
		}
		if got, err := ParseRate(Rate(v).String()); err != nil || got != Rate(v) {
			t.Fatalf("rate %d prints %s, read as %d, %v", v, Rate(v), got, err)
		}
		if got, err := ParseBytes(Bytes(v).String()); err != nil || got != Bytes(v) {
			t.Fatalf("bytes %d prints %s, read as %d, %v", v, Bytes(v), got, err)
		}
	})
}

func TestTimeOf(t *testing.T) {
	if got := (10 * Gbps).TimeOf(1500); got != 1200*Nanosecond {
		t.Errorf("1500 B at 10 Gb/s take %v, want 1.2us", got)
	}
	if got := (100 * Gbps).TimeOf(1); got != 80 {
		t.Errorf("1 B at 100 Gb/s takes %v, want 80ps", got)
	}
	if got := (1 * Gbps).TimeOf(10 * MB); got != 80*Millisecond {
		t.Errorf("10 MB at 1 Gb/s take %v, want 80ms", got)
	}
	if got := Rate(0).TimeOf(1500); got != 0 {
		t.Errorf("an unlimited rate takes %v, want 0", got)
	}
}
