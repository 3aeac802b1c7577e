// Package records is what becomes of flows: a record of each, streamed as flows end, in
// an order that depends neither on who runs the fabric nor on who looks, to
// sinks that write files or add up statistics.
package records

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// State is how a flow stands.
type State uint8

// The states.
const (
	Done       State = iota
	Failed           // the carrier has given up: Failure says why
	Unfinished       // it was under way when the run ended, or waited to begin
)

var stateNames = [...]string{"done", "failed", "unfinished"}

// String is the name in files.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Record is what became of one flow. All times are emulated ones, since the start of the
// run.
type Record struct {
	ID       uint64 // unique in a run; the host that started it and a count
	Traffic  int32  // number of its traffic
	From, To int32  // hosts, as indices of the plan's nodes: From has the data
	Tag      uint32 // the pattern's own
	Group    uint64 // the pattern's own; 0 for none
	Size     units.Bytes
	State    State
	Counted  bool // born in the measurement window; always true if there is none

	// Born is when the pattern wanted it, Started when the first packet could leave: they
	// differ where it had to wait for a queue pair.
	Born, Started units.Time
	// End is when the flow was over to its sender, from which HPCC's and most papers'
	// completion times count: when the last acknowledgement had come. Of a READ it is when
	// the host that asked had all data; of UDP, which nobody acknowledges, when the
	// receiver had. Of an unfinished flow it is when the run ended.
	End units.Time
	// Arrived is when the receiver had all data; units.Never if it had not.
	Arrived units.Time
	// Ideal is how long it would take alone on its path; 0 if that is not known.
	Ideal units.Time

	Failure       string      // of a failed one, such as IBV_WC_RETRY_EXC_ERR
	Retransmitted uint64      // packets that its sender has retransmitted; for a READ, requests
	Acked         units.Bytes // payload acknowledged; for a READ, received; for UDP, received if all was
	SrcPort       uint16      // UDP
	Path          string      // the ports that its packets leave by, if requested
}

// FCT is the flow's completion time, from its birth to its end.
func (r *Record) FCT() units.Time { return r.End - r.Born }

// Slowdown is how many times as long as alone on its path it took; 0 if that is not
// known or the flow is not done.
func (r *Record) Slowdown() float64 {
	if r.Ideal <= 0 || r.State != Done {
		return 0
	}
	return float64(r.FCT()) / float64(r.Ideal)
}

// before is the order of streams: by end, then by ID.
func (r *Record) before(o *Record) bool {
	return r.End < o.End || r.End == o.End && r.ID < o.ID
}

// Sink takes records in the order of their ends.
type Sink interface {
	// Put takes a record, which is lent.
	Put(r *Record) error
	// Close writes what is left. Nothing is put afterwards.
	Close() error
}

// Names says what numbers in records stand for.
type Names struct {
	Traffic []string // by Record.Traffic
	Hosts   []string // by Record.From and To
}

// Tee is a sink that passes records on to several.
func Tee(sinks ...Sink) Sink { return tee(sinks) }

type tee []Sink

// Put implements Sink. All get the record; the error is the first.
func (t tee) Put(r *Record) error {
	return t.each(func(s Sink) error { return s.Put(r) })
}

// Close implements Sink.
func (t tee) Close() error { return t.each(Sink.Close) }

func (t tee) each(f func(Sink) error) (first error) {
	for _, s := range t {
		if err := f(s); err != nil && first == nil {
			first = err
		}
	}
	return first
}
