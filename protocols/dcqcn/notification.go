package dcqcn

import "github.com/weftlab/weft/sim/units"

// Notification is the notification point of one flow, at its receiver: it says
// which packets are answered by a CNP (§3.1, Fig. 6). A packet with CE is, if
// the CNP before it is NPMinTimeBetweenCNPs or longer ago; one without CE never
// is. Marks in between are not made up for by a CNP of their own at the end of
// that time: while congestion lasts another marked packet is on its way.
//
// The zero value is a flow that has not had a CNP. One instant is all of the
// state, so it can live with the receiving queue pair. Whoever limits CNPs by
// sender or by port instead, as ROCE_CC_CNP_MODERATION of mlxconfig can, has
// one Notification for each of those.
type Notification struct {
	next units.Time // the earliest next CNP; from 0 on is at once
}

// Packet judges a packet that arrives at now, with or without CE: true is to
// send a CNP.
func (n *Notification) Packet(now units.Time, ce bool, c *Config) bool {
	if !ce || now < n.next {
		return false
	}
	n.next = now + c.NPMinTimeBetweenCNPs
	return true
}
