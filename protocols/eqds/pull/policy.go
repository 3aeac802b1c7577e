package pull

// Policy is how a host shares its link among senders. It ranks them when they enter the
// active-sender list, which is a PIFO (Sivaraman et al., SIGCOMM 2016). The lowest rank is
// next; equal ranks are served first come, first served.
type Policy interface {
	// Rank ranks a sender of a class that enters now. virtual is the rank of the sender that
	// was served last, given the MTUs of credit that this sender was given since it last
	// entered. last is state that the policy keeps for the sender, 0 at first.
	Rank(class uint8, virtual uint64, given int, last *uint64) uint64
}

// Fair gives all senders the same share: the list is a FIFO. It is the paper's default.
type Fair struct{}

// Rank returns the same rank for all.
func (Fair) Rank(uint8, uint64, int, *uint64) uint64 { return 0 }

// Strict serves the highest class first, and senders of one class in turn.
type Strict struct{}

// Rank returns lower ranks for higher classes.
func (Strict) Rank(class uint8, _ uint64, _ int, _ *uint64) uint64 { return uint64(255 - class) }

// Weighted gives senders shares by the weights of their classes: start-time fair queueing
// (Goyal, Vin and Cheng, SIGCOMM 1996). A weight of 0 counts as 1.
type Weighted [256]uint16

// weightScale is what an MTU counts at weight 1. It makes the rounding of weights negligible.
const weightScale = 1 << 24

// Rank returns the start tag of the sender's next PULL: no earlier than the finish tag of the
// previous one.
func (w *Weighted) Rank(class uint8, virtual uint64, given int, last *uint64) uint64 {
	*last = max(virtual, *last+uint64(given)*weightScale/uint64(max(1, w[class])))
	return *last
}
