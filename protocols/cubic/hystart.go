package cubic

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// hystart finds where slow start should end (Ha and Rhee 2011). It uses the constants of Linux
// (net/ipv4/tcp_cubic.c).
type hystart struct {
	begun   bool
	end     units.Bytes // the round is over when more than this is acknowledged
	start   units.Time  // of the round
	last    units.Time  // acknowledgement of the train
	minRTT  units.Time  // RTT in the round
	samples int
}

// The constants.
const (
	hystartWindow  = 16                    // packets: below this, nothing ends slow start
	hystartSamples = 8                     // RTTs of a round
	hystartGap     = 2 * units.Millisecond // between acknowledgements of a train, at most
	hystartLow     = 4 * units.Millisecond // growth of the RTT that counts, at least
	hystartHigh    = 16 * units.Millisecond
	hystartBurst   = 4 * 64 * units.KiB // acknowledged together by a receiver that merges packets
	hystartHold    = units.Millisecond  // for which it delays acknowledgements, at most
)

// onAck handles an acknowledgement in slow start and reports whether slow start should end. rtt
// is the lowest RTT of the flow.
func (h *hystart) onAck(now units.Time, a *cc.Ack, rtt units.Time, cwnd, mtu units.Bytes) bool {
	if !h.begun || a.Acked > h.end {
		*h = hystart{begun: true, end: a.Sent, start: now, last: now}
	}
	if cwnd < hystartWindow*mtu {
		return false
	}
	// A train of acknowledgements that lasts half an RTT fills the path.
	if now-h.last <= hystartGap {
		h.last = now
		if now-h.start > (rtt+ackDelay(max(a.RTT, rtt), cwnd))/2 {
			return true
		}
	}
	if a.RTT == 0 {
		return false
	}
	if h.minRTT == 0 || a.RTT < h.minRTT {
		h.minRTT = a.RTT
	}
	if h.samples++; h.samples < hystartSamples {
		return false
	}
	return h.minRTT > rtt+min(max(rtt/8, hystartLow), hystartHigh)
}

// ackDelay is how much longer a train may be because the receiver merges packets: the time
// of a burst at the rate of slow start, two windows an RTT.
func ackDelay(rtt units.Time, cwnd units.Bytes) units.Time {
	return min(hystartHold, units.Time(float64(hystartBurst)*float64(rtt)/float64(2*cwnd)))
}
