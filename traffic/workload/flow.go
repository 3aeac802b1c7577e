// Package workload generates modelled traffic: packets of modelled hosts, sent
// according to a law of arrivals and received by a sink that keeps the flow's
// record. It runs under either clock; no real program takes part.
package workload

import "github.com/weftlab/weft/sim/units"

// Pattern is the law by which a flow sends its packets.
type Pattern uint8

// The patterns of modelled traffic.
const (
	CBR     Pattern = iota // one packet every Size/Rate
	Poisson                // exponential gaps with mean Size/Rate
	OnOff                  // CBR at Rate during On, silence during Off, in turn
)

// String returns the name that a lab file uses.
func (p Pattern) String() string { return [...]string{"cbr", "poisson", "on-off"}[p] }

// Interface chooses an interface of a host for modelled packets: the index of its port in the
// plan plus 1; or 0, if the sender's routes choose.
type Interface int

// Port returns the index of the port, -1 if the sender's routes choose.
func (i Interface) Port() int { return int(i) - 1 }

// Flow is one stream of UDP packets from one host to another.
type Flow struct {
	Name             string // of the flow in records; unique in a lab
	Pattern          Pattern
	From             int         // sending host, an index into the plan's nodes
	To               int         // receiving host, likewise
	FromPort, ToPort Interface   // interfaces that it leaves and arrives by
	Rate             units.Rate  // of UDP payload, as iperf3 -b counts
	Size             units.Bytes // of UDP payload of each packet, as iperf3 -l counts
	At               units.Time  // when it starts
	For              units.Time  // how long it sends; 0 means until the run ends
	On, Off          units.Time  // OnOff: mean lengths of the two phases

	Exponential bool  // OnOff: phases drawn from an exponential law, not fixed
	ECT         bool  // packets carry ECT(0)
	DSCP        uint8 // 0 to 63
	IPv6        bool  // over IPv6, otherwise IPv4
}
