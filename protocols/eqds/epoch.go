package eqds

// epochBits is how many bits an epoch has, and seqBits how many below it a sequence number
// has (Appendix A).
const (
	epochBits = 6
	seqBits   = 16 - epochBits
)

// Span is how many sequence numbers have the same epoch.
const Span = 1 << seqBits

// Epoch tells the incarnations of a tunnel apart: 0 to 63.
type Epoch uint8

// EpochOf is the epoch in the sequence number of a SYN packet.
func EpochOf(seq uint16) Epoch { return Epoch(seq >> seqBits) }

// First is the sequence number of the first packet of an incarnation.
func (e Epoch) First() uint16 { return uint16(e) << seqBits }

// Next is the epoch after e.
func (e Epoch) Next() Epoch { return (e + 1) % (1 << epochBits) }

// After tells whether e is greater than f. Epochs go round: those up to 31 ahead are
// greater, all others are not.
func (e Epoch) After(f Epoch) bool {
	d := (e - f) % (1 << epochBits)
	return d > 0 && d < 1<<(epochBits-1)
}
