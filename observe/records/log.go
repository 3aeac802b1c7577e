package records

import (
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Log holds the events of flows in one shard that have not been collected yet. What the two
// hosts of a flow know is joined when it is collected, since they may be in different
// shards. The zero Log is empty.
type Log struct {
	ended    []Record
	arrivals []arrival
	opened   []Record
}

// arrival is the time at which all data of a flow had arrived.
type arrival struct {
	key uint64
	at  units.Time
}

// RecordEnd records a flow that ended at r.End, which is now. If its receiver records the
// arrival (Arrived), key is the same there; 0 means that it does not, and r.Arrived is known.
func (l *Log) RecordEnd(r *Record, key uint64) {
	l.ended = append(l.ended, *r)
	e := &l.ended[len(l.ended)-1]
	if key != 0 {
		e.Arrived = -units.Time(key) // until it is joined: times are never negative
	}
}

// RecordArrival records that all data of a flow has arrived. key is not 0, and has 62 bits.
func (l *Log) RecordArrival(key uint64, at units.Time) {
	l.arrivals = append(l.arrivals, arrival{key, at})
}

// RecordOpen records a flow whose end only its receiver knows: it ends when the receiver
// records an arrival with r.ID as key.
func (l *Log) RecordOpen(r *Record) { l.opened = append(l.opened, *r) }

// Len returns the number of events to collect.
func (l *Log) Len() int { return len(l.ended) + len(l.arrivals) + len(l.opened) }

// Collector joins the logs of all shards into one stream.
type Collector struct {
	// Finish fills in what nobody but the collector knows, such as Ideal. May be nil.
	Finish func(r *Record)

	logs    []*Log
	heads   []int                 // by log: how many of its records are put
	arrived map[uint64]units.Time // by key, of flows whose end was not collected yet
	open    map[uint64]*Record    // by ID, of flows whose receiver tells of the end
	free    []*Record
	late    Log // those that ended so
	sink    Sink
	err     error
	count   uint64
}

// NewCollector makes a collector of logs, which puts records into a sink; nil only counts
// them.
func NewCollector(logs []*Log, sink Sink) *Collector {
	c := &Collector{sink: sink, arrived: map[uint64]units.Time{}, open: map[uint64]*Record{}}
	c.logs = append(slices.Clone(logs), &c.late)
	c.heads = make([]int, len(c.logs))
	return c
}

// SetSink sets where records go from now on; nil discards them.
func (c *Collector) SetSink(s Sink) { c.sink = s }

// Count returns the number of records.
func (c *Collector) Count() uint64 { return c.count }

// Err returns the first error of the sink, after which no more records are put.
func (c *Collector) Err() error { return c.err }

// CollectBefore puts the records of flows that ended before a time, up to which no shard has
// anything left to do. No shard runs meanwhile. The times at which it is called make no
// difference to the stream.
func (c *Collector) CollectBefore(before units.Time) {
	for _, l := range c.logs {
		for i := range l.opened {
			c.openOne(&l.opened[i])
		}
		l.opened = l.opened[:0]
	}
	for _, l := range c.logs {
		for _, a := range l.arrivals {
			if r := c.open[a.key]; r != nil {
				c.closeOne(r, a.at)
			} else {
				c.arrived[a.key] = a.at
			}
		}
		l.arrivals = l.arrivals[:0]
	}
	for _, l := range c.logs {
		sortRecords(l.ended)
	}
	slices.SortFunc(c.late.ended, func(a, b Record) int {
		if a.isBefore(&b) {
			return -1
		}
		return 1
	})
	c.mergeLogs(before)
}

func (c *Collector) openOne(r *Record) {
	var o *Record
	if n := len(c.free); n > 0 {
		o, c.free = c.free[n-1], c.free[:n-1]
	} else {
		o = new(Record)
	}
	*o = *r
	c.open[r.ID] = o
}

// closeOne ends a flow whose end its receiver reports.
func (c *Collector) closeOne(r *Record, at units.Time) {
	r.End, r.Arrived, r.Acked, r.State = at, at, r.Size, Done
	c.late.RecordEnd(r, 0)
	delete(c.open, r.ID)
	c.free = append(c.free, r)
}

// sortRecords sorts records that are almost in order.
func sortRecords(list []Record) {
	for i := 1; i < len(list); i++ {
		if !list[i].isBefore(&list[i-1]) {
			continue
		}
		r, k := list[i], i
		for ; k > 0 && r.isBefore(&list[k-1]); k-- {
			list[k] = list[k-1]
		}
		list[k] = r
	}
}

// mergeLogs puts the records of all logs, in order.
func (c *Collector) mergeLogs(before units.Time) {
	heads := c.heads
	clear(heads)
	for {
		first := -1
		for i, l := range c.logs {
			if heads[i] == len(l.ended) {
				continue
			}
			r := &l.ended[heads[i]]
			if r.End < before && (first < 0 || r.isBefore(&c.logs[first].ended[heads[first]])) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		c.putRecord(&c.logs[first].ended[heads[first]])
		heads[first]++
	}
	for i, l := range c.logs {
		n := copy(l.ended, l.ended[heads[i]:])
		clear(l.ended[n:]) // failures and paths are strings
		l.ended = l.ended[:n]
	}
}

// putRecord completes a record and passes it on.
func (c *Collector) putRecord(r *Record) {
	if r.Arrived < 0 {
		key := uint64(-r.Arrived)
		r.Arrived = units.Never
		if at, ok := c.arrived[key]; ok {
			r.Arrived = at
			delete(c.arrived, key)
		}
	}
	c.count++
	if c.sink == nil || c.err != nil {
		return
	}
	if c.Finish != nil {
		c.Finish(r)
	}
	c.err = c.sink.PutRecord(r)
}

// PutRemaining puts the remaining records at the end of a run, at now: first the flows that have
// ended, then, as unfinished and by rising ID, the flows that hosts have under way and
// those whose receiver did not report their end.
func (c *Collector) PutRemaining(now units.Time, unfinished []Record) {
	c.CollectBefore(units.Never)
	for _, r := range c.open {
		unfinished = append(unfinished, *r)
	}
	clear(c.open)
	slices.SortFunc(unfinished, func(a, b Record) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for i := range unfinished {
		r := &unfinished[i]
		r.State, r.End, r.Arrived = Unfinished, now, units.Never
		c.putRecord(r)
	}
}
