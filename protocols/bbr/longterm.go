package bbr

import "github.com/weftlab/weft/sim/units"

// longTerm detects the rate of a policer. A policer drops what exceeds its rate once its bucket
// is empty, which makes BtlBw too high. It is detected by two intervals in a row, from loss to
// loss, in which much is lost and about as much is delivered (Linux's lt_bw; Flach et al., "An
// Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016). The flow then keeps to that rate
// for some time.
type longTerm struct {
	use      bool
	sampling bool
	rounds   uint8       // of the interval or, in use, since it ended
	rate     units.Rate  // of the last interval or, in use, of the policer; 0 before the first
	lost     units.Bytes // in total

	at                   units.Time // when the interval began
	delivered, lostUntil units.Bytes
}

const (
	intervalRounds = 4  // least rounds of an interval
	maxInterval    = 16 // most rounds of an interval
	keptRounds     = 48
	lossShare      = 50. / 256 // least loss of a lossy interval, as a share of what is delivered
	rateShare      = 8         // rates count as equal if they differ by at most 1/rateShare
	rateDiff       = 4 * units.Kbps
)

// beginInterval begins an interval.
func (x *longTerm) beginInterval(now units.Time, delivered units.Bytes) {
	x.at, x.delivered, x.lostUntil, x.rounds = now, delivered, x.lost, 0
}

// restartSampling restarts the sampling at the next loss.
func (x *longTerm) restartSampling() { x.use, x.sampling, x.rate, x.rounds = false, false, 0, 0 }

// addAcked handles an acknowledgement. delivered is the total delivered so far, lost what was lost
// since the previous acknowledgement. round means that it begins a round, limited that the
// sender had nothing more to send. add reports whether to stop keeping to a policer's rate.
func (x *longTerm) addAcked(now units.Time, delivered, lost units.Bytes, round, limited, probing bool) (over bool) {
	if x.use {
		if probing && round {
			x.rounds++
		}
		if x.rounds < keptRounds {
			return false
		}
		x.restartSampling()
		return true
	}
	if !x.sampling {
		if lost == 0 {
			return false // a policer still has tokens
		}
		x.sampling = true
		x.beginInterval(now, delivered)
	}
	if limited {
		x.restartSampling()
		return false
	}
	if round {
		x.rounds++
	}
	switch {
	case x.rounds < intervalRounds:
	case x.rounds > maxInterval:
		x.restartSampling()
	case lost > 0: // the tokens are used up
		x.checkInterval(now, delivered)
	}
	return false
}

// checkInterval checks an interval that may end here.
func (x *longTerm) checkInterval(now units.Time, total units.Bytes) {
	delivered, took := total-x.delivered, now-x.at
	if delivered == 0 || float64(x.lost-x.lostUntil) < lossShare*float64(delivered) || took < units.Millisecond {
		return
	}
	rate := units.Rate(float64(delivered) * 8 / took.Seconds())
	diff := rate - x.rate
	if diff < 0 {
		diff = -diff
	}
	if x.rate > 0 && (diff*rateShare <= x.rate || diff <= rateDiff) {
		x.use, x.rate, x.rounds = true, (rate+x.rate)/2, 0
		return
	}
	x.rate = rate
	x.beginInterval(now, total)
}
