package units

import "testing"

// FuzzParse: the printed form of any accepted quantity parses to the same value;
// nothing panics.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"50us", "1.5 ms", "0", "-1ns", "9223372036854775807ps", "10Gbps", "2.5 Gb/s", "unlimited", "64KiB", "1e3B", ".5MB", "0.1%", "1e-6", "NaN", "", "µs", "1..2s", "+3h", "0.0000000000000000001s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseTime(s); err == nil {
			if w, err := ParseTime(v.String()); v != Never && (err != nil || w != v) {
				t.Errorf("time %q is %d, prints %q, read as %d, %v", s, v, v, w, err)
			}
		}
		if v, err := ParseRate(s); err == nil {
			if w, err := ParseRate(v.String()); err != nil || w != v {
				t.Errorf("rate %q is %d, prints %q, read as %d, %v", s, v, v, w, err)
			}
		}
		if v, err := ParseBytes(s); err == nil {
			if w, err := ParseBytes(v.String()); err != nil || w != v {
				t.Errorf("bytes %q is %d, prints %q, read as %d, %v", s, v, v, w, err)
			}
		}
		if v, err := ParseFraction(s); err == nil {
			if v < 0 || v > 1 {
				t.Errorf("share %q is %v", s, v)
			}
			if _, err := ParseFraction(v.String()); err != nil {
				t.Errorf("share %q prints %q: %v", s, v, err)
			}
		}
	})
}
