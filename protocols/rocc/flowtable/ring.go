package flowtable

// The rings that an entry can be in.
const (
	inKnown = iota // flows that are told, as they became known
	inQuiet        // flows by their last packet, the silent ones first
	rings
)

// ring is entries in an order.
type ring struct {
	of          int // which of an entry's links
	first, last *entry
	n           int
}

// link is an entry's place in a ring.
type link struct {
	before, behind *entry
	in             bool
}

// push puts an entry last, which is not in the ring.
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

// remove takes an entry out, if it is in the ring.
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

// next is the entry behind e.
func (r *ring) next(e *entry) *entry { return e.links[r.of].behind }
