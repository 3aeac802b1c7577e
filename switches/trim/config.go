// Package trim cuts packets down to their headers where they would otherwise
// be dropped, so that the receiver learns at once what was lost: NDP (Handley
// et al., SIGCOMM 2017, §3.2) and packet trimming of Ultra Ethernet (UEC 1.0,
// §4.1).
package trim

import "github.com/weftlab/weft/sim/units"

// Config is how the packets of a class are trimmed when they do not fit into
// its queue.
type Config struct {
	// Keep is how much is left behind the IP header, in bytes. A packet that
	// has no more than that is dropped.
	Keep units.Bytes
	// DSCP is given to trimmed packets, and decides their class by the
	// switch's map; that class's queue is where they go.
	DSCP uint8
	// Tail is the probability that not the arriving packet is trimmed but the
	// last one in the queue, whose place it then takes (NDP: 50%).
	Tail units.Fraction
	// Return sends a trimmed packet that does not fit into the queue of
	// trimmed ones back to its sender (NDP §3.2.4); otherwise it is dropped.
	Return bool
	// FixLength adjusts the length in the IP header to what is left. UEC
	// leaves all lengths as they were, so that the receiver knows how much
	// was cut.
	FixLength bool
}
