package lab

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// The links of senders count, the links of interfaces that only acknowledge do not.
func TestDemand_CountsLinksOfSenders(t *testing.T) {
	for name, c := range map[string]struct {
		from, to []sender
		want     units.Rate
	}{
		"one sends":          {[]sender{{10, 7}, {0, 8}}, []sender{{1010, 7}, {50, 8}}, 7},
		"both send":          {[]sender{{10, 7}, {0, 8}}, []sender{{1010, 7}, {500, 8}}, 15},
		"nobody sends":       {[]sender{{10, 7}, {5, 8}}, []sender{{10, 7}, {5, 8}}, 0},
		"a link of no rate":  {[]sender{{0, 7}, {0, 0}}, []sender{{1000, 7}, {1000, 0}}, 0},
		"nothing to compare": {nil, []sender{{1000, 7}}, 0},
	} {
		if got := sumDemand(c.from, c.to); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
