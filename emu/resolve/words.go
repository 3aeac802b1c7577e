package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/yamlfile"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/plan"
)

// The types here are enumerations: one of several words in a file.

// unmarshalName sets v to the index of the name that is read.
func unmarshalName[T ~uint8](v *T, b []byte, names []string) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}

// mode is how to treat a run that is late.
type mode uint8

const (
	report mode = iota
	strict
)

// UnmarshalText reads report or strict.
func (m *mode) UnmarshalText(b []byte) error { return unmarshalName(m, b, modeNames) }

// phases is the law of an on-off flow's phases.
type phases uint8

const (
	fixed phases = iota
	exponential
)

// UnmarshalText reads fixed or exponential.
func (p *phases) UnmarshalText(b []byte) error { return unmarshalName(p, b, phasesNames) }

var (
	modeNames   = []string{"report", "strict"}
	phasesNames = []string{"fixed", "exponential"}
)

// attach is how programs reach a host's interface.
type attach plan.Attach

// attachNames are the words for attach. Guest is left out, as it is a kind of node.
var attachNames = plan.AttachNames[:plan.Guest]

// UnmarshalText reads tap, tun or none.
func (a *attach) UnmarshalText(b []byte) error { return unmarshalName(a, b, attachNames) }

func (attach) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return yamlfile.Enum(attachNames...) }

// offload says whether a host's devices carry super-packets.
type offload plan.Offload

// UnmarshalText reads on or off.
func (o *offload) UnmarshalText(b []byte) error { return unmarshalName(o, b, plan.OffloadNames) }

func (offload) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(plan.OffloadNames...)
}

// realtime says whether the engine thread asks for SCHED_FIFO.
type realtime plan.Realtime

// UnmarshalText reads auto, off or require.
func (r *realtime) UnmarshalText(b []byte) error { return unmarshalName(r, b, plan.RealtimeNames) }

func (realtime) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(plan.RealtimeNames...)
}

// ioWay says how devices are read and written.
type ioWay plan.IO

// UnmarshalText reads auto, uring or read-write.
func (i *ioWay) UnmarshalText(b []byte) error { return unmarshalName(i, b, plan.IONames) }

func (ioWay) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(plan.IONames...)
}
