package labfile

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// Delays holds the delays between a NIC and its host.
type Delays struct {
	Preset     *DelaysPreset `yaml:"preset,omitempty" jsonschema_description:"delays of a known NIC"`
	Doorbell   *Delay        `yaml:"doorbell,omitempty" jsonschema_description:"time from a post to a send queue until the NIC begins to process it; default the preset's, or 0"`
	DMA        *Delay        `yaml:"dma,omitempty" jsonschema_description:"time of a read or write of the host's memory by the NIC: before the first packet of a message or READ response with payload, and before the completion of one that brought payload; default the preset's, or 0"`
	Completion *Delay        `yaml:"completion,omitempty" jsonschema_description:"time from when the NIC makes a completion until a program can see it; default the preset's, or 0"`
}

func (d *Delays) byName() any { d.Preset = new(DelaysPreset); return d.Preset }

// Join returns d with missing keys taken from base. A preset sets all of them.
func (d *Delays) joinBase(r *yamlfile.Reader, base *Delays) *Delays {
	if d.Preset != nil {
		return d
	}
	return joinUnder(r, d, base)
}

// Times returns the delays, which are all zero if d is nil.
func (d *Delays) Times() (out nicemu.Delays) {
	if d == nil {
		return out
	}
	if d.Preset != nil {
		out = delaysPresets[*d.Preset]
	}
	setFrom((*Delay)(&out.Doorbell), d.Doorbell)
	setFrom((*Delay)(&out.DMA), d.DMA)
	setFrom((*Delay)(&out.Completion), d.Completion)
	return out
}

// Delay is one of nicemu.Delays.
type Delay units.Time

// UnmarshalText reads a time from 0 to nicemu.MaxDelay.
func (d *Delay) UnmarshalText(b []byte) error {
	t, err := units.ParseTime(string(b))
	if err == nil && (t < 0 || t > nicemu.MaxDelay) {
		err = fmt.Errorf("%v is outside 0 to %v", t, nicemu.MaxDelay)
	}
	*d = Delay(t)
	return err
}

func (Delay) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.TextSchema(yamlfile.TimeForm)
}

// DelaysPreset is a NIC with known delays.
type DelaysPreset uint8

var (
	delaysPresetNames = []string{"connectx-3"}
	delaysPresets     = []nicemu.Delays{nicemu.ConnectX3}
)

// UnmarshalText reads a name.
func (p *DelaysPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, delaysPresetNames) }

func (DelaysPreset) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(delaysPresetNames...)
}
