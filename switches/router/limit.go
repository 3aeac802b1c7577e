package router

import "github.com/weftlab/weft/sim/units"

// Limit holds back ICMP messages (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f): a
// router says at most a thousand a second, and fifty at once, as Linux does
// (net.ipv4.icmp_msgs_per_sec, icmp_msgs_burst). The zero Limit has let none
// through yet.
type Limit struct {
	spent units.Time // what has been said and not yet made up for, as time
	last  units.Time
}

const (
	messageTime = units.Millisecond
	burst       = 50
)

// Allow tells whether the router may say something at now, and counts it as
// said then.
func (l *Limit) Allow(now units.Time) bool {
	l.spent = max(l.spent-(now-l.last), 0)
	l.last = now
	if l.spent > (burst-1)*messageTime {
		return false
	}
	l.spent += messageTime
	return true
}
