package status

import "github.com/weftlab/weft/sim/units"

// PauseCheck explains why a port of a switch did or did not pause its peer: how
// near the bytes that came in through it have been to every threshold.
type PauseCheck struct {
	Port   string       `json:"port"`
	Peer   string       `json:"peer,omitempty"`
	Now    units.Time   `json:"now"`
	Global bool         `json:"global"`           // PAUSE for the whole port instead of PFC by class
	Reason string       `json:"reason,omitempty"` // why no class of the port can ever pause
	Buffer units.Bytes  `json:"buffer"`           // size of the shared memory, 0 without a limit
	Held   units.Bytes  `json:"held"`
	Rows   []PauseClass `json:"classes"`
}

// PauseClass is one class in a PauseCheck.
type PauseClass struct {
	Name      string `json:"name"`
	Priority  uint8  `json:"priority"`
	Lossless  bool   `json:"lossless"`
	Credits   bool   `json:"credits,omitempty"` // it gives credits, and never pauses
	RxPackets uint64 `json:"rx_packets"`        // that came in through the port

	Pauses      uint64        `json:"pauses"`       // that have begun
	PauseFrames uint64        `json:"pause_frames"` // sent for them, with refreshes
	PausingTime units.Time    `json:"pausing_time"`
	Xoff        HighWatermark `json:"xoff"`            // bytes beyond the reserve, against the threshold
	Dynamic     float64       `json:"alpha,omitempty"` // of the threshold, 0 for a static one
	Reserve     units.Bytes   `json:"reserve"`
	Headroom    units.Bytes   `json:"headroom"`
	HeadroomMax units.Bytes   `json:"headroom_max"`
	Refused     uint64        `json:"headroom_refused"`          // packets that found no room in it
	Needed      units.Bytes   `json:"headroom_needed,omitempty"` // for the link, over all that events and weft set did to it
	Follows     string        `json:"headroom_follows,omitempty"`
	IngressMax  units.Bytes   `json:"ingress_max"`

	// The queues of the class at the ports of the switch, in which incoming
	// packets may have waited, and what else held them down.
	Queues []PauseQueue `json:"queues,omitempty"`
}

// PauseQueue is a queue in which something has waited.
type PauseQueue struct {
	Port    string        `json:"port"`
	Max     units.Bytes   `json:"max"`
	Limit   HighWatermark `json:"limit"`
	Marking units.Bytes   `json:"marking,omitempty"` // length from which packets are marked, 0 without marking
	Marked  uint64        `json:"marked"`
	Dropped uint64        `json:"dropped"`
	Trimmed uint64        `json:"trimmed"`
}

// HighWatermark is how near a queue or the ingress of a class has come to a threshold: to
// its limit, or to pausing the peer.
type HighWatermark struct {
	Threshold units.Bytes `json:"threshold"` // at this moment; 0 means none
	Known     bool        `json:"known"`     // whether anything has ever counted against it
	Used      units.Bytes `json:"used"`      // at the nearest,
	Of        units.Bytes `json:"of"`        // with the threshold then
	At        units.Time  `json:"at"`
}
