package eqds

// epochBits is the length of an epoch in bits, and seqBits the number of bits below it in a
// sequence number (Appendix A).
const (
	epochBits = 6
	seqBits   = 16 - epochBits
)

// Span is the number of sequence numbers with the same epoch.
const Span = 1 << seqBits

// Epoch distinguishes the incarnations of a tunnel: 0 to 63.
type Epoch uint8

// EpochOf returns the epoch in the sequence number of a SYN packet.
func EpochOf(seq uint16) Epoch { return Epoch(seq >> seqBits) }

// First returns the sequence number of the first packet of an incarnation.
func (e Epoch) First() uint16 { return uint16(e) << seqBits }

// Next returns the epoch after e.
func (e Epoch) Next() Epoch { return (e + 1) % (1 << epochBits) }

// After reports whether e is greater than f. Epochs wrap around: those up to 31 ahead are
// greater, all others are not.
func (e Epoch) After(f Epoch) bool {
	d := (e - f) % (1 << epochBits)
	return d > 0 && d < 1<<(epochBits-1)
}
