package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// RateLimiter describes the rate limiters of a NIC. The zero RateLimiter has one for each queue
// pair, which takes any rate and has effect at once.
type RateLimiter struct {
	// Limiters is their number, 0 for one per queue pair, as a ConnectX-4 has; a ConnectX-3 Pro has
	// 8, one per priority. It limits how many queue pairs have a limit at a time.
	Limiters int
	// Lag is how much a queue pair still sends, in bytes on the wire, until a new limit has effect:
	// up to 160 KB with ConnectX-3 and 4 (RoGUE, §3.3).
	Lag units.Bytes
	// Min and Max are the lowest and the highest rate of a limit (qp_rate_limit_min and
	// qp_rate_limit_max of ibv_packet_pacing_caps); 0 means any.
	Min, Max units.Rate
}

// Presets of RateLimiter, for the NICs measured in the paper on RoGUE.
var (
	ConnectX3Limiter = RateLimiter{Limiters: 8, Lag: 160_000}
	ConnectX4Limiter = RateLimiter{Lag: 160_000}
)

// Check returns an error if a parameter is invalid.
func (r RateLimiter) Check() error {
	switch {
	case r.Limiters < 0:
		return fmt.Errorf("limiters is %d: it can be 0, for one per queue pair, or more", r.Limiters)
	case r.Lag < 0:
		return fmt.Errorf("lag is %d bytes: it can be 0 or more", int64(r.Lag))
	case r.Min < 0:
		return fmt.Errorf("min is %d b/s: it can be 0, for any rate, or more", int64(r.Min))
	case r.Max < 0:
		return fmt.Errorf("max is %d b/s: it can be 0, for any rate, or more", int64(r.Max))
	case r.Max > 0 && r.Min > r.Max:
		return fmt.Errorf("min is %v and max is %v: min can be at most max", r.Min, r.Max)
	}
	return nil
}

// checkRate returns an error if a rate, which is above 0, is out of range.
func (r RateLimiter) checkRate(rate units.Rate) error {
	switch {
	case r.Min > 0 && rate < r.Min:
		return fmt.Errorf("%w: a rate limit of %v is below the NIC's minimum, %v", syscall.EINVAL, rate, r.Min)
	case r.Max > 0 && rate > r.Max:
		return fmt.Errorf("%w: a rate limit of %v is above the NIC's maximum, %v", syscall.EINVAL, rate, r.Max)
	}
	return nil
}

// limiter is the rate limiter of a queue pair.
type limiter struct {
	limit qp.RateLimit // as set
	rate  units.Rate   // in force; 0 if none
	burst units.Bytes  // in force
	left  units.Bytes  // to be sent until limit is in force
	held  bool         // it counts among the NIC's: not once its limit has been ended
}

// SetRateLimit limits the rate at which the queue pair sends (ibv_modify_qp_rate_limit(3)); a Rate
// of 0 removes the limit. RESET removes it too.
//
// The rate counts all of a packet on the wire: payload, headers, FCS, preamble and inter-frame gap,
// as rate controls and port shapers do. Retransmissions and READ responses count too. Packets that
// take no turn are not limited: acknowledgements, responses of atomics and CNPs. With a rate
// control or a static rate the lowest rate applies.
//
// The limit takes effect when the queue pair has sent RateLimiter.Lag, counted likewise; until then
// the previous limit applies. If several are set meanwhile, the newest wins, and it waits for the
// whole lag from then on. The queue pair takes one of the NIC's limiters with its first limit and
// gives it back with one of Rate 0, in RESET, and when it is destroyed.
//
// EINVAL: the queue pair is neither in RTR, RTS nor SQD; Rate is outside RateLimiter.Min and Max, a
// value is negative, or MaxBurst or TypicalPacket is given without a Rate. ENOSPC: all limiters of
// the NIC are in use. EOPNOTSUPP: a layer above the queue pair sets the limit.
func (q *QP) SetRateLimit(l qp.RateLimit) error {
	if s := q.State(); s != qp.RTR && s != qp.RTS && s != qp.SQD {
		return fmt.Errorf("%w: queue pair %d is in %v: a rate limit can be set in RTR, RTS and SQD", syscall.EINVAL, q.Number(), s)
	}
	switch {
	case l.Rate < 0 || l.MaxBurst < 0 || l.TypicalPacket < 0:
		return fmt.Errorf("%w: rate limit %+v of queue pair %d: no part can be negative", syscall.EINVAL, l, q.Number())
	case l.Rate == 0 && l != (qp.RateLimit{}):
		return fmt.Errorf("%w: rate limit %+v of queue pair %d: a burst and a typical packet need a rate", syscall.EINVAL, l, q.Number())
	case q.layered != nil:
		return fmt.Errorf("%w: the rate limit of queue pair %d is set by the layer %s of %s", syscall.EOPNOTSUPP, q.Number(), q.device.settings.Layer.Name, q.device.env.Name)
	}
	return q.setRateLimit(l)
}

func (q *QP) setRateLimit(l qp.RateLimit) error {
	d, x := q.device, q.limiter
	r := &d.settings.RateLimiter
	switch {
	case l.Rate > 0:
		if err := r.checkRate(l.Rate); err != nil {
			return err
		}
		if x == nil || !x.held {
			if r.Limiters > 0 && d.limited >= r.Limiters {
				return fmt.Errorf("%w: all %d rate limiters of %s are in use: end the limit of another queue pair with a rate of 0", syscall.ENOSPC, r.Limiters, d.env.Name)
			}
			d.limited++
		}
		if x == nil {
			x = &limiter{}
			q.limiter = x
		}
		x.held = true
	case x == nil:
		return nil
	case x.held:
		d.limited--
		x.held = false
	}
	x.limit, x.left = l, r.Lag
	if x.left == 0 {
		q.applyRateLimit()
	}
	d.rescheduleQP(d.Now(), q)
	d.armTimer()
	return nil
}

// RateLimit returns the limit set last, in force or not.
func (q *QP) RateLimit() qp.RateLimit {
	if q.limiter == nil {
		return qp.RateLimit{}
	}
	return q.limiter.limit
}

// applyRateLimit puts the limit set last into force.
func (q *QP) applyRateLimit() {
	x := q.limiter
	if x.rate, x.burst, x.left = x.limit.Rate, x.limit.MaxBurst, 0; x.rate == 0 {
		q.releaseLimiter()
	}
}

// releaseLimiter returns the limiter to the NIC.
func (q *QP) releaseLimiter() {
	if x := q.limiter; x != nil {
		if x.held {
			q.device.limited--
		}
		q.limiter = nil
	}
}

// burstSize returns the amount after which there is a gap: for a limit, when the frame on offer would
// exceed its burst.
func (q *QP) burstSize() units.Bytes {
	if x := q.limiter; x != nil && x.burst > 0 {
		return max(0, x.burst-packet.OnWire(q.frame)+1)
	}
	return q.device.traits.Burst
}

// pacingRate returns the rate that packets keep to: the lowest of rate control, limiter and static rate;
// 0 means no limit.
func (q *QP) pacingRate() units.Rate {
	r := qp.StaticRate(q.static)
	if q.control != nil {
		r = lowerRate(r, q.control.Rate())
	}
	if q.limiter != nil {
		r = lowerRate(r, q.limiter.rate)
	}
	return r
}

// lowerRate returns the lower of two rates, where 0 means no limit.
func lowerRate(a, b units.Rate) units.Rate {
	if a == 0 || 0 < b && b < a {
		return b
	}
	return a
}

// countTowardsLimit counts sent bytes towards the limit that is to take effect.
func (q *QP) countTowardsLimit(size units.Bytes) {
	x := q.limiter
	if x.left == 0 {
		return
	}
	if x.left -= size; x.left <= 0 {
		q.applyRateLimit()
	}
}
