package congestion

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Choice is the chosen congestion point of a queue with its parameters. The zero Choice is plain
// drop-tail.
type Choice = registry.Choice[Settings]

// Adjuster is implemented by points whose settings can change during a run. A changed point
// keeps its state.
type Adjuster interface {
	// Adjusted returns a copy of the current settings.
	Adjusted() Settings
	// Adjust replaces the settings by others of the same type, which have passed Validate.
	Adjust(Settings)
}

// Step marks every packet that finds a queue longer than K bytes. It is the switch
// side of DCTCP (Alizadeh et al., SIGCOMM 2010, §3.1).
type Step struct {
	K units.Bytes `yaml:"k" json:"k"`
	// AtDequeue means that a packet is judged when it leaves the queue, by the bytes behind
	// it, instead of when it joins, by the bytes before it.
	AtDequeue bool   `yaml:"at-dequeue,omitempty" json:"at-dequeue,omitempty" jsonschema_description:"whether a packet is judged when it leaves the queue, not when it joins"`
	NotECT    NotECT `yaml:"not-ect,omitempty" json:"not-ect,omitempty"`
}

// RED marks with a probability that rises linearly from 0 at KMin to PMax at KMax
// and is 1 above KMax, using the instantaneous queue: RED (Floyd and Jacobson 1993)
// as configured by DCQCN (Zhu et al., SIGCOMM 2015, Fig. 5).
type RED struct {
	KMin      units.Bytes    `yaml:"kmin" json:"kmin"`
	KMax      units.Bytes    `yaml:"kmax" json:"kmax"`
	PMax      units.Fraction `yaml:"pmax" json:"pmax"`
	AtDequeue bool           `yaml:"at-dequeue,omitempty" json:"at-dequeue,omitempty" jsonschema_description:"whether a packet is judged when it leaves the queue, not when it joins"` // as of Step
	NotECT    NotECT         `yaml:"not-ect,omitempty" json:"not-ect,omitempty"`
}

// PI marks with a probability that a proportional-integral controller adjusts to
// keep the queue at Target bytes: Hollot, Misra, Towsley and Gong, INFOCOM 2001,
// §IV, in the form of RFC 8033 §4.2, but with the queue's length instead of its
// delay, and without that RFC's tuning of the gains. After each period the
// probability grows by
//
//	Alpha·(queue-Target)/Target + Beta·(queue-queue before)/Target
//
// Hollot's coefficients are a = (Alpha+Beta)/Target and b = Beta/Target. The gains
// are relative to the target, so that they suit any target.
type PI struct {
	Target units.Bytes    `yaml:"target" json:"target"`         // above 0
	Alpha  units.Fraction `yaml:"alpha,omitempty" json:"alpha"` // above 0
	Beta   units.Fraction `yaml:"beta,omitempty" json:"beta"`   // 0 means integral control only
	Every  units.Time     `yaml:"every,omitempty" json:"every"` // the period, above 0
	NotECT NotECT         `yaml:"not-ect,omitempty" json:"not-ect,omitempty"`
}

// CoDel (RFC 8289) marks or drops packets as they leave, once all packets have
// waited for Target or longer during Interval, and then more and more often until
// one has not. It does not touch a queue of one packet or less.
type CoDel struct {
	Target   units.Time `yaml:"target,omitempty" json:"target"`     // above 0
	Interval units.Time `yaml:"interval,omitempty" json:"interval"` // above Target
	NotECT   NotECT     `yaml:"not-ect,omitempty" json:"not-ect"`
}

// NotECT says what a marking queue does to a packet that it would mark but that is
// not ECN-capable.
type NotECT uint8

// Treatments of packets that are not ECN-capable.
const (
	// PassNotECT admits them until the queue is full.
	PassNotECT NotECT = iota
	// DropNotECT drops them where an ECN-capable packet would be marked (RFC 3168
	// §7), as switches with WRED do.
	DropNotECT
)

var notECTNames = [...]string{"pass", "drop"}

// String returns the name that a lab file uses.
func (n NotECT) String() string { return notECTNames[n] }

// Names returns the names that a lab file can use.
func (NotECT) Names() []string { return notECTNames[:] }

// MarshalText returns the name that a lab file uses.
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
