package cell

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// FlowTable is a sink that keeps records of flows of patterns as columns, the same as in
// the files of weft sim --flow-records except for the ID. It has all flows; counted is true
// for those that were created in the measurement window.
type FlowTable struct {
	names                                                          records.Names
	traffic, from, to, state, failure, path                        []string
	group, tag, size, counted, created, started, end, arrived, fct []float64
	ideal, slowdown, retransmitted, acked, srcPort                 []float64
	known                                                          map[string]string // texts that many flows share
	groups                                                         map[groupKey]*group
}

type groupKey struct {
	traffic int32
	group   uint64
}

// group is a row of the table of groups: flows that belong together in a pattern, such as
// the answers to a request or an iteration of a collective.
type group struct {
	Traffic string  `json:"traffic"`
	Group   float64 `json:"group"`
	Start   float64 `json:"start_s"` // start of its first flow
	End     float64 `json:"end_s"`   // end of its last one
	Took    float64 `json:"completion_s"`
	Flows   uint64  `json:"flows"`
	Bytes   int64   `json:"size_bytes"`
	Open    uint64  `json:"open"`    // flows that failed or did not end: the group is incomplete
	Counted bool    `json:"counted"` // all its flows were created in the measurement window
}

// NewFlowTable returns a sink for a run whose records have these names.
func NewFlowTable(n records.Names) *FlowTable {
	return &FlowTable{names: n, known: map[string]string{}, groups: map[groupKey]*group{}}
}

// PutRecord implements records.Sink.
func (t *FlowTable) PutRecord(r *records.Record) error {
	time := func(at units.Time, known bool) float64 {
		if !known {
			return table.Unknown
		}
		return at.Seconds()
	}
	t.traffic = append(t.traffic, t.names.Traffic[r.Traffic])
	t.from, t.to = append(t.from, t.names.Hosts[r.From]), append(t.to, t.names.Hosts[r.To])
	t.state, t.failure, t.path = append(t.state, r.State.String()), append(t.failure, t.internString(r.Failure)), append(t.path, t.internString(r.Path))
	slowdown := table.Unknown
	if s := r.Slowdown(); s > 0 {
		slowdown = s
	}
	for _, c := range []struct {
		column *[]float64
		value  float64
	}{
		{&t.group, float64(r.Group)}, {&t.tag, float64(r.Tag)}, {&t.size, float64(r.Size)}, {&t.counted, table.NumberOfBool(r.Counted)},
		{&t.created, r.Created.Seconds()}, {&t.started, time(r.Started, r.Started != units.Never)}, {&t.end, r.End.Seconds()},
		{&t.arrived, time(r.Arrived, r.Arrived != units.Never)}, {&t.fct, time(r.FCT(), r.State == records.Done)},
		{&t.ideal, time(r.Ideal, r.Ideal > 0)}, {&t.slowdown, slowdown},
		{&t.retransmitted, float64(r.Retransmitted)}, {&t.acked, float64(r.Acked)}, {&t.srcPort, float64(r.SrcPort)},
	} {
		*c.column = append(*c.column, c.value)
	}
	t.addToGroup(r)
	return nil
}

// internString returns an equal string that is stored only once.
func (t *FlowTable) internString(s string) string {
	if have, ok := t.known[s]; ok {
		return have
	}
	t.known[s] = s
	return s
}

func (t *FlowTable) addToGroup(r *records.Record) {
	if r.Group == 0 {
		return
	}
	key := groupKey{r.Traffic, r.Group}
	g := t.groups[key]
	if g == nil {
		g = &group{Traffic: t.names.Traffic[r.Traffic], Group: float64(r.Group), Start: r.Created.Seconds(), Counted: true}
		t.groups[key] = g
	}
	g.Start, g.End = min(g.Start, r.Created.Seconds()), max(g.End, r.End.Seconds())
	g.Flows++
	g.Bytes += int64(r.Size)
	g.Counted = g.Counted && r.Counted
	if r.State != records.Done {
		g.Open++
	}
}

// Close implements records.Sink; it has nothing to do.
func (t *FlowTable) Close() error { return nil }

// Tables returns the flows, and the groups in order of pattern and number.
func (t *FlowTable) Tables() table.Bundle {
	text := func(name string, v []string) table.Column { return table.Column{Name: name, Texts: orEmpty(v)} }
	number := func(name string, v []float64) table.Column { return table.Column{Name: name, Numbers: orEmpty(v)} }
	flows := &table.Table{Name: Flows, Columns: []table.Column{
		text("traffic", t.traffic), number("group", t.group), number("tag", t.tag), text("from", t.from), text("to", t.to),
		number("size_bytes", t.size), text("state", t.state), text("failure", t.failure), {Name: Counted, Numbers: orEmpty(t.counted), Bool: true},
		number("created_s", t.created), number("started_s", t.started), number("end_s", t.end), number("arrived_s", t.arrived),
		number("fct_s", t.fct), number("ideal_s", t.ideal), number("slowdown", t.slowdown),
		number("retransmitted", t.retransmitted), number("acked_bytes", t.acked), number("udp_source_port", t.srcPort), text("path", t.path),
	}}
	keys := make([]groupKey, 0, len(t.groups))
	for k := range t.groups {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.traffic, b.traffic), cmp.Compare(a.group, b.group))
	})
	groups := make([]group, len(keys))
	for i, k := range keys {
		groups[i] = *t.groups[k]
		groups[i].Took = groups[i].End - groups[i].Start
	}
	return table.Bundle{flows, table.Of(Groups, groups)}
}

// orEmpty replaces a nil column by an empty one, as a column without rows is still one of
// text or of numbers.
func orEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}
