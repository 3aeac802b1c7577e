package pull

// Policy is how a host shares what it receives among senders: it ranks them when they enter
// the active-sender list, which is a PIFO (Sivaraman et al., SIGCOMM 2016). The least rank is
// next; of equal ones, who came first.
type Policy interface {
	// Rank ranks a sender of a class that enters now. virtual is the rank of the sender
	// that was served last, given how many MTUs of credit the sender was given since it
	// entered before. last is the sender's own, 0 at first, for the policy to keep something
	// there.
	Rank(class uint8, virtual uint64, given int, last *uint64) uint64
}

// Fair gives all senders the same: the list is a FIFO. It is what the paper has by default.
type Fair struct{}

// Rank is the same for all.
func (Fair) Rank(uint8, uint64, int, *uint64) uint64 { return 0 }

// Strict serves the highest class first, and senders of one class by turns.
type Strict struct{}

// Rank is lower for higher classes.
func (Strict) Rank(class uint8, _ uint64, _ int, _ *uint64) uint64 { return uint64(255 - class) }

// Weighted gives senders shares by the weights of their classes: start-time fair queueing
// (Goyal, Vin and Cheng, SIGCOMM 1996). A weight of 0 counts as 1.
type Weighted [256]uint16

// weightScale is what an MTU counts at weight 1: the rounding of weights is far below it.
const weightScale = 1 << 24

// Rank is the start tag of the sender's next PULL: no earlier than the finish tag of the one
// before.
func (w *Weighted) Rank(class uint8, virtual uint64, given int, last *uint64) uint64 {
	*last = max(virtual, *last+uint64(given)*weightScale/uint64(max(1, w[class])))
	return *last
}
