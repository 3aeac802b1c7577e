// Package mactable is the table of Ethernet addresses that a switch has learned: the filtering
// database of IEEE 802.1Q-2022 §8.8, with its dynamic entries. A switch puts the source of a
// frame into it and looks the destination of others up.
//
// An entry says behind which endpoint of the fabric an address of a VLAN is, and not through
// which port it is reached: the switch knows the paths to endpoints, so that entries hold when
// paths change, and frames to an address can take several paths. This is how the ends of TRILL
// and of VXLAN tunnels learn (RFC 6325 §4.8, RFC 7348 §4.1). Where there is one path, it is the
// same as learning ports.
//
// Entries that are not static age. The table has no clock: its methods get the time. It does not
// have independent tables for groups of VLANs (shared learning), nor locks on entries against
// stations that move.
package mactable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Defaults of Config.
const (
	DefaultAge  = 300 * units.Second // IEEE 802.1Q-2022 §8.8.3, table 8-6
	DefaultSize = 8192               // of many switches with 24 to 48 ports
)

// Config holds the settings of a table.
type Config struct {
	Age  units.Time // how long an entry lives after the last frame of its address; positive
	Size int        // maximum number of entries; positive
}

// Default returns the default settings.
func Default() Config { return Config{Age: DefaultAge, Size: DefaultSize} }

// Key is an address in a VLAN.
type Key struct {
	VLAN uint16 // 1 to 4095; 0 for frames without a tag
	MAC  wire.MAC
}

// Entry is what a table knows about an address.
type Entry struct {
	Key
	At    packet.Endpoint // it is behind this
	Seen  units.Time      // when its last frame arrived
	Moved bool            // the lab file has the address at another place
}

// Counters count what has happened to a table since the start.
type Counters struct {
	Learned uint64 // addresses that got an entry
	Moved   uint64 // entries whose address appeared at another endpoint, or back at that of the lab file
	Aged    uint64 // entries that were too old
	Flushed uint64 // entries that were removed with the link to their endpoint
	Full    uint64 // frames whose source was not learned because the table was full
}

// Table is a table of learned addresses. Make it with New.
type Table struct {
	config   Config
	counters Counters
	entries  map[Key]*node
	root     node  // of the list of entries by Seen, the oldest first
	free     *node // by next
	moved    int
}

type node struct {
	Entry
	next, previous *node
}

// New returns an empty table.
func New(c Config) *Table {
	t := &Table{config: c, entries: map[Key]*node{}}
	t.root.next, t.root.previous = &t.root, &t.root
	return t
}

// Config returns the settings.
func (t *Table) Config() Config { return t.config }

// Counters returns the counters.
func (t *Table) Counters() Counters { return t.counters }

// Len returns the number of entries that are not too old.
func (t *Table) Len(now units.Time) int {
	t.expire(now)
	return len(t.entries)
}

// Moved returns the number of entries for addresses that the lab file has elsewhere.
func (t *Table) Moved() int { return t.moved }

// Learn records that a frame from k, which is not the address of a group, has come in at an
// endpoint. moved says that the lab file has k at another endpoint.
func (t *Table) Learn(now units.Time, k Key, at packet.Endpoint, moved bool) {
	t.expire(now)
	e := t.entries[k]
	switch {
	case e == nil && len(t.entries) >= t.config.Size:
		t.counters.Full++
		return
	case e == nil:
		e = t.takeNode()
		e.Key, e.At = k, at
		t.entries[k] = e
		t.counters.Learned++
		if moved {
			t.counters.Moved++
		}
	default:
		t.unlink(e)
		if e.At != at {
			e.At = at
			t.counters.Moved++
		}
	}
	e.Seen = now
	t.setMoved(e, moved)
	e.previous, e.next = t.root.previous, &t.root
	e.previous.next, t.root.previous = e, e
}

// Find returns the endpoint behind which k is.
func (t *Table) Find(now units.Time, k Key) (packet.Endpoint, bool) {
	e := t.entries[k]
	if e == nil || now-e.Seen >= t.config.Age {
		return 0, false
	}
	return e.At, true
}

// Return removes the entry of k, an address of the lab file that has moved, because its owner
// there sends again.
func (t *Table) Return(k Key) {
	if e := t.entries[k]; e != nil {
		t.removeEntry(e)
		t.counters.Moved++
	}
}

// FlushEntries removes the entries at endpoints for which gone returns true.
func (t *Table) FlushEntries(gone func(packet.Endpoint) bool) {
	for e := t.root.next; e != &t.root; {
		next := e.next
		if gone(e.At) {
			t.removeEntry(e)
			t.counters.Flushed++
		}
		e = next
	}
}

// Entries returns the entries that are not too old, the newest first.
func (t *Table) Entries(now units.Time) (all []Entry) {
	t.expire(now)
	for e := t.root.previous; e != &t.root; e = e.previous {
		all = append(all, e.Entry)
	}
	return all
}

// expire removes the entries that are too old.
func (t *Table) expire(now units.Time) {
	for e := t.root.next; e != &t.root && now-e.Seen >= t.config.Age; e = t.root.next {
		t.removeEntry(e)
		t.counters.Aged++
	}
}

// setMoved sets whether an entry is for an address that the lab file has elsewhere.
func (t *Table) setMoved(e *node, moved bool) {
	if e.Moved != moved {
		e.Moved = moved
		if moved {
			t.moved++
		} else {
			t.moved--
		}
	}
}

func (t *Table) takeNode() *node {
	e := t.free
	if e == nil {
		return new(node)
	}
	t.free = e.next
	return e
}

func (t *Table) removeEntry(e *node) {
	t.setMoved(e, false)
	t.unlink(e)
	delete(t.entries, e.Key)
	*e = node{next: t.free}
	t.free = e
}

func (t *Table) unlink(e *node) {
	e.previous.next, e.next.previous = e.next, e.previous
}
