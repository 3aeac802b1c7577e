package flowtable

// Rings that an entry can be in.
const (
	inKnown = iota // known flows, in the order in which they became known
	inQuiet        // flows by their last packet, oldest first
	rings
)

// ring is an ordered list of entries.
type ring struct {
	of          int // index into an entry's links
	first, last *entry
	n           int
}

// link is an entry's place in a ring.
type link struct {
	before, behind *entry
	in             bool
}

// push appends an entry, which must not be in the ring.
func (r *ring) push(e *entry) {
	e.links[r.of] = link{before: r.last, in: true}
	if r.last == nil {
		r.first = e
	} else {
		r.last.links[r.of].behind = e
	}
	r.last = e
	r.n++
}

// remove removes an entry if it is in the ring.
func (r *ring) remove(e *entry) {
	k := &e.links[r.of]
	if !k.in {
		return
	}
	if k.before == nil {
		r.first = k.behind
	} else {
		k.before.links[r.of].behind = k.behind
	}
	if k.behind == nil {
		r.last = k.before
	} else {
		k.behind.links[r.of].before = k.before
	}
	*k = link{}
	r.n--
}

// next returns the entry after e.
func (r *ring) next(e *entry) *entry { return e.links[r.of].behind }
