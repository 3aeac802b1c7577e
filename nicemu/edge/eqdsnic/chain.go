package eqdsnic

// hook is a sender's place in a chain.
type hook struct {
	before, after *sender
	in            bool
}

// chain is an ordered list of senders. A sender can be in several, each with a separate hook.
type chain struct {
	first, last *sender
	count       int
	hook        func(x *sender) *hook
}

// push appends a sender that is not in the chain.
func (c *chain) push(x *sender) {
	*c.hook(x) = hook{before: c.last, in: true}
	if c.last != nil {
		c.hook(c.last).after = x
	} else {
		c.first = x
	}
	c.last = x
	c.count++
}

// remove removes a sender, if it is in the chain.
func (c *chain) remove(x *sender) {
	h := c.hook(x)
	if !h.in {
		return
	}
	if h.before != nil {
		c.hook(h.before).after = h.after
	} else {
		c.first = h.after
	}
	if h.after != nil {
		c.hook(h.after).before = h.before
	} else {
		c.last = h.before
	}
	*h = hook{}
	c.count--
}
