package telemetry

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestSinceWraps: time and bytes may go beyond what a hop can say.
func TestSinceWraps(t *testing.T) {
	code, ok := RateCode(40 * units.Gbps)
	if !ok {
		t.Fatal("40 Gb/s has no code")
	}
	before := NewHop(code, 16777*units.Microsecond, 134_217_600, 800)
	after := NewHop(code, 16778*units.Microsecond, 134_217_600+128*5, 1<<40)
	d, n := after.Since(before)
	if d != units.Microsecond || n != 640 || after.Rate() != 40*units.Gbps || before.Queue() != 800 || after.Queue() != 65535*80 {
		t.Errorf("%v and %v after %v: %v, %v", after, n, before, d, n)
	}
}

func TestRateCodes(t *testing.T) {
	for i, r := range Rates() {
		if code, ok := RateCode(r); !ok || int(code) != i+1 || NewHop(code, 0, 0, 0).Rate() != r {
			t.Errorf("%v: %d, %v", r, code, ok)
		}
	}
	for _, r := range []units.Rate{0, 3 * units.Gbps} {
		if code, ok := RateCode(r); ok {
			t.Errorf("%v has the code %d", r, code)
		}
	}
}
