package limit

// ring is an ordered list of flows, each with a link.
type ring struct {
	first, last *flow
	link        func(f *flow) *link
}

// link is a flow's place in a ring.
type link struct {
	before, behind *flow
	in             bool
}

// push appends a flow that is not in the ring.
func (r *ring) push(f *flow) {
	k := r.link(f)
	*k = link{before: r.last, in: true}
	if r.last == nil {
		r.first = f
	} else {
		r.link(r.last).behind = f
	}
	r.last = f
}

// remove removes a flow, if it is in the ring.
func (r *ring) remove(f *flow) {
	k := r.link(f)
	if !k.in {
		return
	}
	if k.before == nil {
		r.first = k.behind
	} else {
		r.link(k.before).behind = k.behind
	}
	if k.behind == nil {
		r.last = k.before
	} else {
		r.link(k.behind).before = k.before
	}
	*k = link{}
}
