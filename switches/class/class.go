// Package class describes traffic classes: how the packets of each of up to
// eight priorities are queued, scheduled, marked, paused and trimmed, and by
// what a packet's priority is known. It holds settings only; packages buffer,
// pfc, trim, congestion and port act on them.
package class

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/trim"
)

// Count is how many priorities there are (IEEE 802.1Q §6.9.3): queues of a
// port, and classes that PFC can pause.
const Count = 8

// Class is one traffic class: a queue at every port. The zero Class is the
// best effort of a single plain queue without a limit.
type Class struct {
	Name     string
	Priority uint8 // 0 to 7: the queue's number, and the class that PFC pauses

	// Weight is the share of a class among those with a weight, by deficit
	// weighted round robin (DWRR), 1 to 1000. A class with weight 0 has strict
	// priority: it goes before all with a weight and before strict classes
	// with a lower Priority.
	Weight int
	// Fair shares the class's bandwidth equally among its flows: a queue for
	// each, served by deficit round robin. Without it packets leave as they
	// came.
	Fair bool

	// Of the egress queue at each port:
	Limit   units.Bytes // most that waits; 0 is no limit of its own
	Reserve units.Bytes // of the buffer, kept for this queue alone
	Alpha   float64     // it may take Alpha times what is free of the shared buffer; 0 is no such threshold
	Mark    congestion.Config
	Trim    *trim.Config // in place of drops; nil never trims

	Ingress Ingress
	PFC     *pfc.Config
	Credits *credit.Config // in place of PFC. With neither a class is lossy
}

// Ingress is what packets of a class that came in through one port may take
// of the buffer. Beyond the reserve a lossless class is bounded by its pauses
// and then by the port's headroom; its Limit and Alpha are 0.
type Ingress struct {
	Reserve units.Bytes // kept for this port and class alone
	Limit   units.Bytes // most beyond the reserve; 0 is no static limit
	Alpha   float64     // times what is free of the shared buffer; 0 is no such threshold
}

// Map gives a packet's priority: by its DSCP if it is IP, otherwise by the
// priority code point (PCP) of its 802.1Q tag, otherwise priority Untagged.
type Map struct {
	DSCP     [64]uint8
	PCP      [8]uint8
	Untagged uint8
}
