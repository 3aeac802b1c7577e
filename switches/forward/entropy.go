package forward

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Entropy lets the source choose: the number of the path is the field divided by
// Divide, modulo the number of paths. With several tiers of m paths each, Divide 1,
// m, m*m, ... at the first, the second, the third makes each tier use a different
// digit. Packets without the field use ECMP.
type Entropy struct {
	Field  Field `yaml:"field" json:"field" jsonschema_description:"header field: the path is field / divide modulo the number of paths"`
	Divide int   `yaml:"divide,omitempty" json:"divide" jsonschema:"minimum=1,maximum=1048576" jsonschema_description:"divisor of the field, 1 to 1048576, so that tiers look at different digits; default 1"`
}

// MaxDivide is larger than any value of a field.
const MaxDivide = 1 << 20

func init() {
	Kinds.Register("entropy", Kind{
		Summary:  "the source chooses the path by a header field",
		Settings: func() Settings { return &Entropy{Divide: 1} },
		Example:  "{entropy: {field: udp-source-port}}",
	})
}

// Validate implements Settings.
func (e *Entropy) Validate() error {
	var c registry.Check
	c.CheckNumber("divide", e.Divide, 1, MaxDivide)
	return c.Err()
}

// New implements Settings.
func (e *Entropy) New(env Env) Chooser {
	return &entropy{env: env, field: e.Field, divide: uint32(e.Divide)}
}

// Field is a field of a packet's header that a source can choose freely.
type Field uint8

// The fields.
const (
	// SourcePort is the UDP source port, as of RoCEv2 and of tunnels. Packets that
	// are not UDP, that are fragments, or whose port is 0 (RFC 768: none) do not
	// have it.
	SourcePort Field = iota
	// FlowLabel is the flow label of IPv6 (RFC 6437); 0 means none.
	FlowLabel
)

var fieldNames = []string{"udp-source-port", "flow-label"}

// Names returns the names that a lab file uses.
func (Field) Names() []string { return fieldNames }

// String returns the name that a lab file uses.
func (f Field) String() string { return fieldNames[f] }

// UnmarshalText reads the name that a lab file uses.
func (f *Field) UnmarshalText(b []byte) error {
	i := slices.Index(fieldNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(fieldNames, ", "))
	}
	*f = Field(i)
	return nil
}

type entropy struct {
	stateless
	env    Env
	field  Field
	divide uint32
}

func (c *entropy) ChoosePath(_ units.Time, p *packet.Packet, _ uint16) Choice {
	if v := c.entropyOf(p); v != 0 {
		return NumberedChoice(uint64(v / c.divide))
	}
	return RandomChoice(c.env.HashFlow(p))
}

// entropyOf returns the field by which the source chooses, or 0 if there is none.
func (c *entropy) entropyOf(p *packet.Packet) uint32 {
	switch {
	case c.field == FlowLabel && p.Version == 6:
		return p.Label
	case c.field == SourcePort && p.Proto == wire.ProtoUDP:
		return uint32(p.SrcPort)
	}
	return 0
}
