package bbr

import "github.com/weftlab/weft/sim/units"

// aggregation measures how far acknowledgements ran ahead of the bandwidth. Receivers, links
// and hosts hold them back and release several at once, and the window needs room for that. The
// result is the maximum of the last five to ten rounds (Linux's extra_acked).
type aggregation struct {
	at       units.Time     // when the epoch began
	acked    units.Bytes    // in the epoch
	maxExtra [2]units.Bytes // maxima of the current and the previous rounds; see at1
	at1      bool           // most[1] is current
	rounds   uint8          // in the current maximum
}

const (
	aggregationRounds = 5
	longestSilence    = 100 * units.Millisecond // that the window makes room for
	longestEpoch      = 1 << 20                 // packets; Linux counts no further
)

// beginEpoch begins an epoch.
func (x *aggregation) beginEpoch(now units.Time) { x.at, x.acked = now, 0 }

// addAcked records newly acknowledged payload. An epoch lasts while more is acknowledged than bw
// would have delivered.
func (x *aggregation) addAcked(now units.Time, newly units.Bytes, bw units.Rate, cwnd, mtu units.Bytes, round bool) {
	if newly == 0 {
		return
	}
	if round {
		if x.rounds++; x.rounds >= aggregationRounds {
			x.rounds, x.at1 = 0, !x.at1
			*x.currentMax() = 0
		}
	}
	expected := bw.BytesIn(now - x.at)
	if x.acked <= expected || x.acked+newly >= longestEpoch*mtu {
		x.beginEpoch(now)
		expected = 0
	}
	x.acked += newly
	m := x.currentMax()
	*m = max(*m, min(x.acked-expected, cwnd))
}

func (x *aggregation) currentMax() *units.Bytes {
	if x.at1 {
		return &x.maxExtra[1]
	}
	return &x.maxExtra[0]
}

// extraWindow returns by how much the window must be larger.
func (x *aggregation) extraWindow(bw units.Rate) units.Bytes {
	return min(max(x.maxExtra[0], x.maxExtra[1]), bw.BytesIn(longestSilence))
}
