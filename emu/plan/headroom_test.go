package plan

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestHeadroom_IsWhatArrivesAfterAPauseIsSent compares with sums computed by hand, in bytes on the
// wire.
func TestHeadroom_IsWhatArrivesAfterAPauseIsSent(t *testing.T) {
	fast := Extreme{Slowest: 100 * units.Gbps, Fastest: 100 * units.Gbps, Delay: units.Microsecond, MTU: 1500}
	slow := Extreme{Slowest: units.Gbps, Fastest: units.Gbps, MTU: 1000}
	for _, test := range []struct {
		name    string
		in, out Extreme
		want    units.Bytes
	}{
		{"two delays, three frames and a request", fast, fast, 2*12500 + 3*1538 + 84},
		{"a slow way back delays the request", fast, slow, 12500 + 100*(1038+84) + 2*1538},
		{"a link without delay", slow, slow, 3*1038 + 84},
	} {
		if got := HeadroomFor(test.in, test.out).Bytes(); got != test.want {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}

// TestHeadroom_ShowsHowItFollows: the text has every number of the sum.
func TestHeadroom_ShowsHowItFollows(t *testing.T) {
	x := Extreme{Slowest: 25 * units.Gbps, Fastest: 25 * units.Gbps, Delay: units.Microsecond, MTU: 1500}
	h := HeadroomFor(x, x)
	if got, want := h.String(), "25Gbps · (2us + 519.04ns) + 2 · 1.538KB"; got != want || h.Bytes() != 10948 {
		t.Errorf("%s = %d, want %s = 10948", got, h.Bytes(), want)
	}
}
