// Package trim cuts packets down to their headers where they would otherwise
// be dropped, so that the receiver learns at once what was lost: NDP (Handley
// et al., SIGCOMM 2017, §3.2) and packet trimming of Ultra Ethernet (UEC 1.0,
// §4.1).
package trim

import "github.com/weftlab/weft/sim/units"

// Config is how the packets of a class are trimmed when they do not fit into
// its queue.
type Config struct {
	// Keep is the number of bytes left after the IP header. A packet that has no
	// more than that is dropped.
	Keep units.Bytes
	// DSCP is the DSCP of trimmed packets. It determines their class by the
	// switch's map, and so their queue.
	DSCP uint8
	// Tail is the probability that the last packet in the queue is trimmed instead
	// of the arriving one, which then takes its place (NDP: 50%).
	Tail units.Fraction
	// Return sends a trimmed packet back to its sender if it does not fit into the
	// queue of trimmed packets (NDP §3.2.4); otherwise it is dropped.
	Return bool
	// FixLength adjusts the length in the IP header to the trimmed packet. UEC
	// leaves all lengths unchanged, so that the receiver knows how much was cut.
	FixLength bool
}
