package congestion

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/emu/units"
)

// Config chooses the congestion point of a queue; at most one is set. The
// zero Config is plain drop-tail.
type Config struct {
	Step *Step `yaml:"step,omitempty" json:"step,omitempty"`
	RED  *RED  `yaml:"red,omitempty" json:"red,omitempty"`
}

// Step marks every packet that meets a queue longer than K bytes: the switch
// side of DCTCP (Alizadeh et al., SIGCOMM 2010, §3.1).
type Step struct {
	K      units.Bytes `yaml:"k" json:"k"`
	NotECT NotECT      `yaml:"not-ect,omitempty" json:"not-ect,omitempty"`
}

// RED marks with a probability that rises linearly from 0 at KMin to PMax at
// KMax and is 1 above KMax, judged on the instantaneous queue: RED (Floyd and
// Jacobson 1993) as DCQCN sets it (Zhu et al., SIGCOMM 2015, Fig. 5).
type RED struct {
	KMin   units.Bytes    `yaml:"kmin" json:"kmin"`
	KMax   units.Bytes    `yaml:"kmax" json:"kmax"`
	PMax   units.Fraction `yaml:"pmax" json:"pmax"`
	NotECT NotECT         `yaml:"not-ect,omitempty" json:"not-ect,omitempty"`
}

// NotECT says what a marking queue does to a packet that it would mark but
// that does not understand ECN.
type NotECT uint8

// What happens to packets that are not ECN-capable.
const (
	// PassNotECT lets them in until the queue is full.
	PassNotECT NotECT = iota
	// DropNotECT drops them where another would be marked (RFC 3168 §7), as
	// switches with WRED do.
	DropNotECT
)

var notECTNames = [...]string{"pass", "drop"}

// String gives the name that a lab file uses.
func (n NotECT) String() string { return notECTNames[n] }

// MarshalText gives the name that a lab file uses.
func (n NotECT) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads the name that a lab file uses.
func (n *NotECT) UnmarshalText(b []byte) error {
	s := strings.Trim(string(b), `"' `)
	for i, name := range notECTNames {
		if name == s {
			*n = NotECT(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a treatment of packets without ECN (there are pass and drop)", s)
}
