package router

import "github.com/weftlab/weft/sim/units"

// Limit limits the rate of ICMP messages (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f): a
// router sends at most a thousand per second, and fifty at once, as in Linux
// (net.ipv4.icmp_msgs_per_sec, icmp_msgs_burst). The zero Limit has let none
// through yet.
type Limit struct {
	spent units.Time // cost of messages sent and not yet recovered, as time
	last  units.Time
}

const (
	messageTime = units.Millisecond
	burst       = 50
)

// AllowMessage reports whether the router may send a message at now. If so, it counts the
// message.
func (l *Limit) AllowMessage(now units.Time) bool {
	l.spent = max(l.spent-(now-l.last), 0)
	l.last = now
	if l.spent > (burst-1)*messageTime {
		return false
	}
	l.spent += messageTime
	return true
}
