// Package records writes a record of each flow when it ends, in an order that depends
// neither on the number of workers nor on observers, to sinks that write files or compute
// statistics.
package records

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// State is the state of a flow.
type State uint8

// The states.
const (
	Done       State = iota
	Failed           // the carrier has given up: Failure says why
	Unfinished       // it was under way when the run ended, or waited to begin
)

var stateNames = [...]string{"done", "failed", "unfinished"}

// String returns the name used in files.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Record is the outcome of one flow. All times are emulated, since the start of the run.
type Record struct {
	ID       uint64 // unique in a run; the host that started it and a count
	Traffic  int32  // number of its traffic
	From, To int32  // hosts, as indices of the plan's nodes: From has the data
	Tag      uint32 // the pattern's own
	Group    uint64 // the pattern's own; 0 for none
	Size     units.Bytes
	State    State
	Counted  bool // created in the measurement window; always true if there is none

	// Created is when the pattern created the flow, Started when the first packet could leave:
	// they differ if it had to wait for a queue pair.
	Created, Started units.Time
	// End is when the flow was complete at its sender, to which HPCC's and most papers'
	// completion times refer: when the last acknowledgement had arrived. For a READ it is
	// when the requesting host had all data; for UDP, which has no acknowledgements, when
	// the receiver had. For an unfinished flow it is when the run ended.
	End units.Time
	// Arrived is when the receiver had all data; units.Never if it had not.
	Arrived units.Time
	// Ideal is how long the flow would take alone on its path; 0 if unknown.
	Ideal units.Time

	Failure       string      // of a failed one, such as IBV_WC_RETRY_EXC_ERR
	Retransmitted uint64      // packets that its sender has retransmitted; for a READ, requests
	Acked         units.Bytes // payload acknowledged; for a READ, received; for UDP, received if all was
	SrcPort       uint16      // UDP
	Path          string      // the ports that its packets leave by, if requested
}

// FCT is the flow's completion time, from its birth to its end.
func (r *Record) FCT() units.Time { return r.End - r.Created }

// Slowdown is the completion time over the ideal time; 0 if that is unknown or the flow
// is not done.
func (r *Record) Slowdown() float64 {
	if r.Ideal <= 0 || r.State != Done {
		return 0
	}
	return float64(r.FCT()) / float64(r.Ideal)
}

// isBefore is the order of streams: by end, then by ID.
func (r *Record) isBefore(o *Record) bool {
	return r.End < o.End || r.End == o.End && r.ID < o.ID
}

// Sink takes records in the order in which their flows end.
type Sink interface {
	// PutRecord takes a record, which is valid only during the call.
	PutRecord(r *Record) error
	// Close writes what is left. Put is not called afterwards.
	Close() error
}

// Names maps the numbers in records to names.
type Names struct {
	Traffic []string // by Record.Traffic
	Hosts   []string // by Record.From and To
}

// Tee is a sink that passes records on to several sinks.
func Tee(sinks ...Sink) Sink { return tee(sinks) }

type tee []Sink

// PutRecord implements Sink. All sinks get the record; Put returns the first error.
func (t tee) PutRecord(r *Record) error {
	return t.eachSink(func(s Sink) error { return s.PutRecord(r) })
}

// Close implements Sink.
func (t tee) Close() error { return t.eachSink(Sink.Close) }

func (t tee) eachSink(f func(Sink) error) (first error) {
	for _, s := range t {
		if err := f(s); err != nil && first == nil {
			first = err
		}
	}
	return first
}
