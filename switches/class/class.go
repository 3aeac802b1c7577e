// Package class describes traffic classes: how packets of up to eight priorities
// are queued, scheduled, marked, paused and trimmed, and how a packet's priority is
// determined. It only holds settings; packages buffer, pfc, trim, congestion and
// port act on them.
package class

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/trim"
)

// Count is the number of priorities (IEEE 802.1Q §6.9.3): queues of a port, and
// classes that PFC can pause.
const Count = 8

// Class is one traffic class: a queue at every port. The zero Class is best effort:
// a single plain queue without a limit.
type Class struct {
	Name     string
	Priority uint8 // 0 to 7: the queue's number, and the class that PFC pauses

	// Weight is the share of a class among those with a weight, by deficit weighted
	// round robin (DWRR), 1 to 1000. A class with weight 0 has strict priority: it
	// is served before all classes with a weight and before strict classes with a
	// lower Priority.
	Weight int
	// Fair shares the class's bandwidth equally among its flows: each has a queue,
	// served by deficit round robin. Without it packets leave in order of arrival.
	Fair bool

	// Settings of the egress queue at each port:
	Limit   units.Bytes // maximum length; 0 means no separate limit
	Reserve units.Bytes // of the buffer, kept for this queue only
	Alpha   float64     // limit as a multiple of the free shared buffer; 0 means none
	Mark    congestion.Choice
	Trim    *trim.Config // instead of drops; nil means no trimming

	Ingress Ingress
	PFC     *pfc.Config
	Credits *credit.Config // instead of PFC. With neither a class is lossy
}

// Ingress limits the buffer use of packets of a class that came in through one
// port. Beyond the reserve a lossless class is bounded by its pauses and then by
// the port's headroom; its Limit and Alpha are 0.
type Ingress struct {
	Reserve units.Bytes // kept for this port and class only
	Limit   units.Bytes // maximum beyond the reserve; 0 means no static limit
	Alpha   float64     // times the free shared buffer; 0 means no such threshold
}

// Map determines a packet's priority: by its DSCP if it is IP, otherwise by the
// priority code point (PCP) of its 802.1Q tag, otherwise it is Untagged.
type Map struct {
	DSCP     [64]uint8
	PCP      [8]uint8
	Untagged uint8
}
