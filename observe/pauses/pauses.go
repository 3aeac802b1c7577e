// Package pauses records for how long ports were paused by their peers (PFC, PAUSE): each
// pause with its beginning and its end.
package pauses

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/weftlab/weft/sim/units"
)

// Record is one pause of a class of a port by its peer. Frames that repeat a pause before
// it has ended extend it.
type Record struct {
	Port     string  `json:"port"` // that was paused: "s1:3"
	Node     string  `json:"node"` // its node
	Peer     string  `json:"peer"` // port that paused it
	Class    string  `json:"class"`
	Priority uint8   `json:"priority"`
	Start    float64 `json:"start_s"` // emulated
	End      float64 `json:"end_s"`   // end of the run if it has not ended
	Ended    bool    `json:"ended"`
}

// Event is the beginning or the end of a pause.
type Event struct {
	At       units.Time
	Node     int // of the port, an index into the plan's nodes
	Port     int // of the node
	Priority uint8
	Paused   bool // it begins
}

// Log holds the events of one engine, those of each port in order of time. The zero Log is
// empty.
type Log struct {
	events []Event
}

// AddEvent records an event.
func (l *Log) AddEvent(e Event) { l.events = append(l.events, e) }

// Pause is a pause, with its port identified by numbers.
type Pause struct {
	Event            // its beginning
	End   units.Time // that of the run if it has not ended
	Ended bool
}

// JoinPauses makes pauses from the events of several engines, in order of their beginnings and,
// at one instant, of nodes, ports and priorities. End is the end of the run.
func JoinPauses(logs []*Log, end units.Time) (all []Pause) {
	type place struct {
		node, port int
		priority   uint8
	}
	for _, l := range logs {
		open := map[place]int{}
		for _, e := range l.events {
			at := place{e.Node, e.Port, e.Priority}
			if e.Paused {
				open[at] = len(all)
				all = append(all, Pause{Event: e, End: end})
			} else if i, ok := open[at]; ok {
				all[i].End, all[i].Ended = e.At, true
				delete(open, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b Pause) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Priority, b.Priority))
	})
	return all
}

// Columns are the names of the columns of files, in their order.
var Columns = []string{"port", "node", "peer", "class", "priority", "start_s", "end_s", "ended"}

// WriteCSV writes records as CSV with a header line.
func WriteCSV(w io.Writer, records []Record) error {
	out := csv.NewWriter(w)
	_ = out.Write(Columns) // Error tells
	seconds := func(x float64) string { return strconv.FormatFloat(x, 'f', 12, 64) }
	for i := range records {
		r := &records[i]
		_ = out.Write([]string{r.Port, r.Node, r.Peer, r.Class, strconv.Itoa(int(r.Priority)), seconds(r.Start), seconds(r.End), strconv.FormatBool(r.Ended)})
	}
	out.Flush()
	return out.Error()
}
