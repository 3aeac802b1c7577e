package status

import "github.com/weftlab/weft/sim/units"

// The kinds of timeline entries.
const (
	LinkDown     = "link-down"
	LinkUp       = "link-up"
	LinkSet      = "link-set"      // settings other than up and down
	QueueSet     = "queue-set"     // settings of a queue of a port
	Rerouted     = "rerouted"      // the tables of switches follow links that went down or up
	Watchdog     = "watchdog"      // a pause watchdog gave up a queue
	WatchdogOver = "watchdog-over" // the watchdog lets the queue go on
	Stuck        = "deadlock"
	StuckOver    = "deadlock-over"
	HostLost     = "host-lost"     // a virtual machine ended before the lab
	ProgramReady = "program-ready" // of exec: in the lab file
	ProgramEnded = "program-ended"
)

// Who changed a link.
const (
	ByEvent = "event" // of the lab file
	BySet   = "set"   // weft set, or the control socket
)

// Moment is an entry of the timeline of a run.
type Moment struct {
	At     units.Time `json:"at"`
	Event  string     `json:"event"`             // one of the kinds above
	Where  string     `json:"where,omitempty"`   // port, such as s1:3, or host
	Peer   string     `json:"peer,omitempty"`    // port at the other end of a link
	OneWay bool       `json:"one_way,omitempty"` // only the direction from Where to Peer
	By     string     `json:"by,omitempty"`      // who changed a link
	Text   string     `json:"text,omitempty"`    // settings, traffic class, how a program ended
}

// Place names where a moment was: a host, a port, or a link by its two ends.
func (m *Moment) Place() string {
	switch {
	case m.Peer == "":
		return m.Where
	case m.OneWay:
		return m.Where + " -> " + m.Peer
	}
	return m.Where + " - " + m.Peer
}
