package status

import (
	"net/netip"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// QP is the state of one queue pair at one moment. Timers that do not run are absent.
type QP struct {
	NIC   string `json:"nic"` // "h1:eth0"
	QPN   uint32 `json:"qpn"`
	Type  string `json:"type"`  // RC, UC or UD
	State string `json:"state"` // of ibv_qp_state: RESET, INIT, RTR, RTS, SQD, SQE, ERR

	// Only for RC and UC, from RTR on.
	Local         netip.Addr `json:"local,omitzero"`
	Remote        netip.Addr `json:"remote,omitzero"`
	Peer          string     `json:"peer,omitempty"` // the interface with Remote, such as "h2:eth0"
	RemoteQPN     uint32     `json:"remote_qpn,omitempty"`
	PathMTU       int        `json:"path_mtu,omitempty"`
	DSCP          uint8      `json:"dscp"`
	UDPSourcePort uint16     `json:"udp_source_port,omitempty"`
	Class         string     `json:"class,omitempty"` // class of its packets at the host's port

	// The requester.
	SQPSN          uint32      `json:"sq_psn"`                // the next PSN to send for the first time
	Unacknowledged uint32      `json:"sq_una"`                // the oldest unacknowledged PSN; sq_psn if there is none
	Sends          int         `json:"sends"`                 // work requests posted and not completed
	Fetches        int         `json:"fetches"`               // READs and atomics of these under way
	InFlight       units.Bytes `json:"in_flight"`             // payload of SENDs and WRITEs sent and not acknowledged
	Timeout        units.Time  `json:"ack_timeout,omitempty"` // RC: the local ACK timeout
	AckTimer       units.Time  `json:"ack_timer,omitempty"`   // RC: until it expires
	RNRTimer       units.Time  `json:"rnr_timer,omitempty"`   // RC: until it may send again after an RNR NAK
	Retries        Retries     `json:"retries,omitzero"`      // RC
	RNRRetries     Retries     `json:"rnr_retries,omitzero"`  // RC

	// The responder.
	RQPSN    uint32 `json:"rq_psn"`   // the next expected PSN
	Receives int    `json:"receives"` // posted to its own receive queue and not begun
	Replies  int    `json:"replies"`  // READs and atomics whose response is not completely sent

	Bitmaps *Bitmaps `json:"bitmaps,omitempty"` // of loss recovery that keeps packets out of order

	// Rate control.
	Rate     units.Rate    `json:"rate"`             // allowed now, on the wire; the line rate if nothing limits it
	LineRate units.Rate    `json:"line_rate"`        // of the port
	Window   units.Bytes   `json:"window,omitempty"` // most bytes in flight; 0 means no limit
	Gauges   []gauge.Value `json:"gauges,omitempty"` // of rate control, if there is one
	Control  string        `json:"cc"`               // rate control, as in the lab file
	CNPDue   bool          `json:"cnp_due,omitempty"`

	// Counts since it was created.
	TxPackets   uint64            `json:"tx_packets"` // requests and READ responses sent, for the first time or again
	TxBytes     uint64            `json:"tx_bytes"`   // of frames, without FCS
	RxPackets   uint64            `json:"rx_packets"` // all that arrived
	RxBytes     uint64            `json:"rx_bytes"`
	Marked      uint64            `json:"marked"` // with CE, among those received
	CNPsSent    uint64            `json:"cnps_sent"`
	CNPsHandled uint64            `json:"cnps_handled"`
	Counters    map[string]uint64 `json:"counters,omitempty"` // its share of the NIC's counters, without zeros
}

// Bitmaps are the memory that loss recovery needs in a NIC for each queue pair.
type Bitmaps struct {
	Count int         `json:"count"`
	Bits  int         `json:"bits"`  // of each
	Bytes units.Bytes `json:"bytes"` // of all
	Kept  int         `json:"kept"`  // packets kept out of order now
}

// Retries counts the remaining retries.
type Retries struct {
	Left  uint8 `json:"left"`  // meaningless if Limit means no limit
	Limit uint8 `json:"limit"` // for RNR retries, 7 means no limit
}
