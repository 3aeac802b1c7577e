package labfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
)

// The types here are enumerations: one of several words in a file. The value is the index of
// the word; the plan counts in the same order.

var (
	attachNames   = []string{"tap", "tun", "none"}
	offloadNames  = []string{"on", "off"}
	realtimeNames = []string{"auto", "off", "require"}
	ioNames       = []string{"auto", "uring", "read-write"}
)

// unmarshalName sets v to the index of the name that is read.
func unmarshalName[T ~uint8](v *T, b []byte, names []string) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}

// Mode is how to treat a run that is late.
type Mode uint8

// The modes.
const (
	Report Mode = iota
	Strict
)

// UnmarshalText reads report or strict.
func (m *Mode) UnmarshalText(b []byte) error { return unmarshalName(m, b, modeNames) }

// Phases is the law of an on-off flow's phases.
type Phases uint8

// The laws of phases.
const (
	FixedPhases Phases = iota
	ExponentialPhases
)

// UnmarshalText reads fixed or exponential.
func (p *Phases) UnmarshalText(b []byte) error { return unmarshalName(p, b, phasesNames) }

var (
	modeNames   = []string{"report", "strict"}
	phasesNames = []string{"fixed", "exponential"}
)

// Attach is how programs reach a host's interface.
type Attach uint8

// UnmarshalText reads tap, tun or none.
func (a *Attach) UnmarshalText(b []byte) error { return unmarshalName(a, b, attachNames) }

func (Attach) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(attachNames...)
}

// Offload says whether a host's devices carry super-packets.
type Offload uint8

// UnmarshalText reads on or off.
func (o *Offload) UnmarshalText(b []byte) error { return unmarshalName(o, b, offloadNames) }

func (Offload) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(offloadNames...)
}

// Realtime says whether the engine thread asks for SCHED_FIFO.
type Realtime uint8

// UnmarshalText reads auto, off or require.
func (r *Realtime) UnmarshalText(b []byte) error { return unmarshalName(r, b, realtimeNames) }

func (Realtime) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(realtimeNames...)
}

// IO says how devices are read and written.
type IO uint8

// UnmarshalText reads auto, uring or read-write.
func (i *IO) UnmarshalText(b []byte) error { return unmarshalName(i, b, ioNames) }

func (IO) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(ioNames...)
}
