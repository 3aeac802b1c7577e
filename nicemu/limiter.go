package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// RateLimiter is what the rate limiters of a NIC are like. The zero RateLimiter has one for
// each queue pair, in force at once.
type RateLimiter struct {
	// Limiters is how many there are, 0 for one a queue pair, as a ConnectX-4 has; a
	// ConnectX-3 Pro has 8, one a priority, and so queue pairs that have a limit at a time.
	Limiters int
	// Lag is how much a queue pair still sends, as bytes on the wire, until a new limit is
	// in force: up to 160 KB with ConnectX-3 and 4 (RoGUE, §3.3).
	Lag units.Bytes
}

// Presets of RateLimiter, of the NICs that the paper on RoGUE has measured.
var (
	ConnectX3Limiter = RateLimiter{Limiters: 8, Lag: 160_000}
	ConnectX4Limiter = RateLimiter{Lag: 160_000}
)

// Check tells what cannot be, if something cannot.
func (r RateLimiter) Check() error {
	switch {
	case r.Limiters < 0:
		return fmt.Errorf("limiters is %d: it can be 0, for one a queue pair, or more", r.Limiters)
	case r.Lag < 0:
		return fmt.Errorf("lag is %d bytes: it can be 0 or more", int64(r.Lag))
	}
	return nil
}

// limiter is the rate limiter of a queue pair.
type limiter struct {
	limit qp.RateLimit // as it was set
	rate  units.Rate   // in force; 0 is none
	left  units.Bytes  // to be sent until limit is
}

// SetRateLimit limits the rate of the queue pair's packets, counted as bytes on the wire
// (ibv_modify_qp_rate_limit(3)); a Rate of 0 ends that. It comes into force after
// RateLimiter.Lag; a limit that is set meanwhile takes its place, and begins the lag anew. With a
// rate control the lower of both holds. What the queue pair sends without a turn,
// acknowledgements, is not limited. RESET ends the limit.
//
// EINVAL: the queue pair is neither in RTR, RTS nor SQD, or something is negative; ENOSPC:
// all limiters of the NIC are in use.
func (q *QP) SetRateLimit(l qp.RateLimit) error {
	if s := q.State(); s != qp.RTR && s != qp.RTS && s != qp.SQD {
		return fmt.Errorf("%w: queue pair %d is in %v: a rate limit can be set in RTR, RTS and SQD", syscall.EINVAL, q.Number(), s)
	}
	if l.Rate < 0 || l.MaxBurst < 0 || l.TypicalPacket < 0 {
		return fmt.Errorf("%w: rate limit %+v of queue pair %d: no part can be negative", syscall.EINVAL, l, q.Number())
	}
	return q.setRateLimit(l)
}

func (q *QP) setRateLimit(l qp.RateLimit) error {
	d := q.device
	lag := d.settings.RateLimiter.Lag
	switch {
	case q.limiter == nil && l.Rate == 0:
		return nil
	case q.limiter == nil:
		if n := d.settings.RateLimiter.Limiters; n > 0 && d.limited >= n {
			return fmt.Errorf("%w: all %d rate limiters of %s are in use: end a limit by one of rate 0", syscall.ENOSPC, n, d.env.Name)
		}
		d.limited++
		q.limiter = &limiter{}
	}
	x := q.limiter
	x.limit, x.left = l, lag
	if lag == 0 {
		q.enforce()
	}
	d.settle(d.Now(), q)
	d.arm()
	return nil
}

// RateLimit is the limit that was set last.
func (q *QP) RateLimit() qp.RateLimit {
	if q.limiter == nil {
		return qp.RateLimit{}
	}
	return q.limiter.limit
}

// enforce brings the limit that was set last into force.
func (q *QP) enforce() {
	x := q.limiter
	if x.rate, x.left = x.limit.Rate, 0; x.rate == 0 {
		q.unlimit()
	}
}

// unlimit gives the limiter back.
func (q *QP) unlimit() {
	if q.limiter != nil {
		q.limiter = nil
		q.device.limited--
	}
}

// burst is how much may leave without a gap.
func (q *QP) burst() units.Bytes {
	if q.limiter != nil && q.limiter.limit.MaxBurst > 0 && q.limiter.rate > 0 {
		return q.limiter.limit.MaxBurst
	}
	return q.device.traits.Burst
}

// paced is the rate that packets keep to: the lower of that of rate control and limiter; 0 is
// without limit.
func (q *QP) paced() (r units.Rate) {
	if q.control != nil {
		r = q.control.Rate()
	}
	if x := q.limiter; x != nil && x.rate > 0 && (r == 0 || x.rate < r) {
		r = x.rate
	}
	return r
}

// limits counts what has left towards a limit that is to come.
func (q *QP) limits(size units.Bytes) {
	x := q.limiter
	if x == nil || x.left == 0 {
		return
	}
	if x.left -= size; x.left <= 0 {
		q.enforce()
	}
}
