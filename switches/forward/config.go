// Package forward chooses among the ways that lead from a switch to a
// destination: by a hash of the flow, at random, in turn, by flowlets, or as
// the source asks. It is pure: it is told the time and gives the number of a
// way.
package forward

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Config is how a switch chooses among several ways; at most one of Flowlet
// and Entropy is set, and then Spread is ECMP. The zero Config is ECMP.
type Config struct {
	Spread  Spread
	Flowlet *Flowlet
	Entropy *Entropy
}

// Spread is a way to choose that needs no numbers. A lab file names it.
type Spread uint8

// The ways to choose that need no numbers.
const (
	// ECMP gives each flow one way, by a hash of its addresses, protocol and
	// ports with a seed of the switch's own (RFC 2992).
	ECMP Spread = iota
	// Random draws a way for each packet (Dixit et al., INFOCOM 2013).
	Random
	// RoundRobin takes the ways in turn, packet by packet, separately for each
	// set of ways.
	RoundRobin
)

// SpreadNames are the names that a lab file uses.
var SpreadNames = []string{"ecmp", "random", "round-robin"}

// String gives the name that a lab file uses.
func (s Spread) String() string { return SpreadNames[s] }

// UnmarshalText reads the name that a lab file uses.
func (s *Spread) UnmarshalText(b []byte) error {
	i := slices.Index(SpreadNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %s", b, strings.Join(SpreadNames, ", "))
	}
	*s = Spread(i)
	return nil
}

// Flowlet lets a flow keep its way as long as its packets follow each other
// closely. After a gap of at least Gap since its last packet at this switch a
// way is drawn anew (LetFlow: Vanini et al., NSDI 2017, §3). Where Gap is more
// than what the delays of the ways differ by, no packet overtakes another of
// its flow.
type Flowlet struct {
	Gap units.Time `yaml:"gap" jsonschema_description:"silence of a flow after which its way is drawn anew"` // positive
	// Table is how many entries there are to remember flows by; 0 is
	// DefaultTable. A flow's hash says which is its own; flows that share one
	// are a single flow to the switch, as in hardware.
	Table TableSize `yaml:"table,omitempty" jsonschema_description:"entries of the table of flowlets, 1 to 1048576; flows share them by their hash; default 4096"`
}

// TableSize is a number of entries, 1 to MaxTable.
type TableSize int

// Sizes of the table of flowlets, in entries of 16 bytes.
const (
	DefaultTable = 4096
	MaxTable     = 1 << 20
)

// UnmarshalText reads a number from 1 to MaxTable.
func (s *TableSize) UnmarshalText(b []byte) error {
	n, err := parse(b, MaxTable)
	*s = TableSize(n)
	return err
}

// Entropy lets the source choose: the number of the way is the field divided
// by Divide, modulo the number of ways. With several tiers of m ways each,
// Divide 1, m, m*m, ... at the first, the second, the third makes each tier
// look at a digit of its own. Packets without the field go by ECMP.
type Entropy struct {
	Field  Field   `yaml:"field" jsonschema_description:"field of the header: the way is field / divide modulo the number of ways"`
	Divide Divisor `yaml:"divide,omitempty" jsonschema_description:"what the field is divided by, so that tiers look at different digits; default 1"` // 0 is 1
}

// Divisor is what a field is divided by, 1 to MaxDivide.
type Divisor uint32

// MaxDivide is beyond the values of every field.
const MaxDivide = 1 << 20

// UnmarshalText reads a number from 1 to MaxDivide.
func (d *Divisor) UnmarshalText(b []byte) error {
	n, err := parse(b, MaxDivide)
	*d = Divisor(n)
	return err
}

func parse(b []byte, most int) (int, error) {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%q is not a whole number from 1 to %d", b, most)
	}
	return n, nil
}

// Field is a field of a packet's header that a source can choose freely.
type Field uint8

// The fields.
const (
	// SourcePort is the UDP source port, as of RoCEv2 and of tunnels. Of
	// packets that are not UDP, that are fragments, or whose port is 0 (RFC
	// 768: none), there is none.
	SourcePort Field = iota
	// FlowLabel is IPv6's (RFC 6437); 0 is none.
	FlowLabel
)

// FieldNames are the names that a lab file uses.
var FieldNames = []string{"udp-source-port", "flow-label"}

// String gives the name that a lab file uses.
func (f Field) String() string { return FieldNames[f] }

// UnmarshalText reads the name that a lab file uses.
func (f *Field) UnmarshalText(b []byte) error {
	i := slices.Index(FieldNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %s", b, strings.Join(FieldNames, ", "))
	}
	*f = Field(i)
	return nil
}
