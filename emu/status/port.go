// Package status is what can be read about a running network: plain data, as reports,
// metrics, the terminal and the control socket show it. A fabric fills it.
package status

import (
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Port is the state of one port at one moment, with its counts since the start.
type Port struct {
	Name string `json:"name"` // "s1:3"
	Peer string `json:"peer,omitempty"`
	Node string `json:"node"`
	Kind string `json:"kind"` // of the node: host or switch

	Link *Link `json:"link,omitempty"` // leaving the port

	QueuePackets int         `json:"queue_packets"`
	QueueBytes   units.Bytes `json:"queue"`
	QueueLimit   units.Bytes `json:"queue_limit"` // with classes that of the shared buffer; 0 without a limit
	QueueMax     units.Bytes `json:"queue_max"`
	QueueMean    float64     `json:"queue_mean_bytes"` // time average since the start

	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"` // frames without FCS
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	Marked    uint64 `json:"marked"`
	Dropped   uint64 `json:"dropped"`

	Drops map[string]uint64 `json:"drops,omitempty"` // by reason

	Gauges  []gauge.Value `json:"gauges,omitempty"` // of the congestion point of a port with one queue
	Trimmed uint64        `json:"trimmed,omitempty"`
	// PauseIgnored counts frames that asked for a pause that the port does not obey: a PFC
	// frame that names a class without pfc, a PAUSE where the port has none.
	PauseIgnored uint64  `json:"pause_ignored_frames,omitempty"`
	Classes      []Class `json:"classes,omitempty"` // of a port with several queues, by rising priority
	Edge         *Edge   `json:"edge,omitempty"`    // the edge service in front of a host's port
}

// Class is the state of one class of a port: first its egress queue, then
// pauses by the peer, then the ingress of the port.
type Class struct {
	Name     string `json:"name"`
	Priority uint8  `json:"priority"`

	QueuePackets int         `json:"queue_packets"`
	QueueBytes   units.Bytes `json:"queue"`
	QueueLimit   units.Bytes `json:"queue_limit"` // static limit or threshold at this moment, 0 without one
	QueueMax     units.Bytes `json:"queue_max"`
	QueueMean    float64     `json:"queue_mean_bytes"`
	TxPackets    uint64      `json:"tx_packets"`
	TxBytes      uint64      `json:"tx_bytes"`
	RxPackets    uint64      `json:"rx_packets"` // switches only
	Marked       uint64      `json:"marked"`
	Trimmed      uint64      `json:"trimmed"`
	Dropped      uint64      `json:"dropped"`

	Gauges []gauge.Value `json:"gauges,omitempty"` // of the congestion point

	Paused         bool       `json:"paused"`           // by the peer now, or waiting for its credit
	PausedTime     units.Time `json:"paused_time"`      // in total
	PausedCount    uint64     `json:"paused_count"`     // pauses by the peer that have begun; a frame that extends one begins none
	PauseFramesRx  uint64     `json:"pause_rx_frames"`  // frames that asked for a pause of this class
	ResumeFramesRx uint64     `json:"resume_rx_frames"` // frames that ended one
	PauseIgnored   uint64     `json:"pause_ignored_frames"`
	Stormed        uint64     `json:"stormed"` // times that the watchdog stepped in

	CreditSpent *CreditSpent `json:"credit_spent,omitempty"` // of the peer; nil if the class needs none
	CreditGiven *CreditGiven `json:"credit_given,omitempty"` // to the peer; nil if the class gives none

	Lossless       bool         `json:"lossless"`
	Pausing        bool         `json:"pausing"`       // the peer, now
	PausingTime    units.Time   `json:"pausing_time"`  // in total
	PausingCount   uint64       `json:"pausing_count"` // pauses of the peer that have begun
	PauseFramesTx  uint64       `json:"pause_tx_frames"`
	ResumeFramesTx uint64       `json:"resume_tx_frames"`
	PauseCauses    []PauseCause `json:"pause_causes,omitempty"`
	IngressBytes   units.Bytes  `json:"ingress"`
	IngressMax     units.Bytes  `json:"ingress_max"`
	Xoff           units.Bytes  `json:"xoff,omitempty"` // threshold at this moment
	Headroom       units.Bytes  `json:"headroom,omitempty"`
	HeadroomMax    units.Bytes  `json:"headroom_max,omitempty"`     // largest use
	NoHeadroom     uint64       `json:"headroom_refused,omitempty"` // packets that found no room in it

	FormerPauses
}

// FormerPauses has counts of a Class under the names that they had before they said what they
// count. They will not be there in the next release.
type FormerPauses struct {
	PauseRx  uint64 `json:"pause_rx"`  // Class.PauseFramesRx
	ResumeRx uint64 `json:"resume_rx"` // Class.ResumeFramesRx
	PauseTx  uint64 `json:"pause_tx"`  // Class.PauseFramesTx
	ResumeTx uint64 `json:"resume_tx"` // Class.ResumeFramesTx
}

// PauseCause is a port whose queue filled up and so caused a pause.
type PauseCause struct {
	Port string     `json:"port"` // "s1:3"
	Time units.Time `json:"time"` // of the pauses that it caused
}

// CreditSpent is the state of one class of a port that sends only what its peer gives credit
// for. Class.PausedTime includes the time that packets waited for credit.
type CreditSpent struct {
	Buffer    units.Bytes `json:"buffer"`    // the peer's, in whole blocks
	Available units.Bytes `json:"available"` // now; negative if the peer has taken some back
	Waits     uint64      `json:"waits"`     // times that a packet had to wait for it
	Updates   uint64      `json:"updates"`   // frames from the peer
}

// CreditGiven is the state of one class of a port that gives its peer credit.
type CreditGiven struct {
	Buffer  units.Bytes `json:"buffer"` // in whole blocks
	Held    units.Bytes `json:"held"`   // arrived and waiting now, in whole blocks
	HeldMax units.Bytes `json:"held_max"`
	Updates uint64      `json:"updates"` // frames to the peer
	Lost    units.Bytes `json:"lost"`    // sent by the peer but not received
	Surplus units.Bytes `json:"surplus"` // received but not sent: copies that the link made
}
