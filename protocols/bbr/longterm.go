package bbr

import "github.com/weftlab/weft/sim/units"

// longTerm finds out the rate of a policer, which drops what is above its rate once its bucket
// is empty, and so lets BtlBw be too high: two intervals in a row, from loss to loss, in which
// much is lost and about as much is delivered (Linux's lt_bw; Flach et al., "An Internet-Wide
// Analysis of Traffic Policing", SIGCOMM 2016). That rate is then kept to for some time.
type longTerm struct {
	use      bool
	sampling bool
	rounds   uint8       // of the interval or, in use, since then
	rate     units.Rate  // of the last interval or, in use, of the policer; 0 before the first
	lost     units.Bytes // in all

	at                   units.Time // when the interval began
	delivered, lostUntil units.Bytes
}

const (
	intervalRounds = 4  // an interval has at least so many
	mostInterval   = 16 // and at most
	keptRounds     = 48
	lossShare      = 50. / 256 // of what is delivered, from which on an interval is lossy
	rateShare      = 8         // rates differ by less than this part of the rate
	rateDiff       = 4 * units.Kbps
)

// begin begins an interval.
func (x *longTerm) begin(now units.Time, delivered units.Bytes) {
	x.at, x.delivered, x.lostUntil, x.rounds = now, delivered, x.lost, 0
}

// reset makes the sampling start over with the next loss.
func (x *longTerm) reset() { x.use, x.sampling, x.rate, x.rounds = false, false, 0, 0 }

// add takes an acknowledgement. delivered is what has been delivered in all, lost what was lost
// since the acknowledgement before. round means that it begins a round, limited that the sender
// had nothing more to send. add tells whether to stop keeping to a policer's rate.
func (x *longTerm) add(now units.Time, delivered, lost units.Bytes, round, limited, probing bool) (over bool) {
	if x.use {
		if probing && round {
			x.rounds++
		}
		if x.rounds < keptRounds {
			return false
		}
		x.reset()
		return true
	}
	if !x.sampling {
		if lost == 0 {
			return false // a policer still has tokens
		}
		x.sampling = true
		x.begin(now, delivered)
	}
	if limited {
		x.reset()
		return false
	}
	if round {
		x.rounds++
	}
	switch {
	case x.rounds < intervalRounds:
	case x.rounds > mostInterval:
		x.reset()
	case lost > 0: // the tokens are used up
		x.interval(now, delivered)
	}
	return false
}

// interval looks at an interval that may end here.
func (x *longTerm) interval(now units.Time, total units.Bytes) {
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
	x.begin(now, total)
}
