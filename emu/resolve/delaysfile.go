package resolve

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// delaysFile holds the delays between a NIC and its host.
type delaysFile struct {
	Preset     *delaysPreset `yaml:"preset,omitempty" jsonschema_description:"delays of a known NIC"`
	Doorbell   *delay        `yaml:"doorbell,omitempty" jsonschema_description:"time from a post to a send queue until the NIC begins to process it; default the preset's, or 0"`
	DMA        *delay        `yaml:"dma,omitempty" jsonschema_description:"time of a read or write of the host's memory by the NIC: before the first packet of a message or READ response with payload, and before the completion of one that brought payload; default the preset's, or 0"`
	Completion *delay        `yaml:"completion,omitempty" jsonschema_description:"time from when the NIC makes a completion until a program can see it; default the preset's, or 0"`
}

func (d *delaysFile) byName() any { d.Preset = new(delaysPreset); return d.Preset }

// join returns d with missing keys taken from base. A preset sets all of them.
func (d *delaysFile) join(r *yamlfile.Reader, base *delaysFile) *delaysFile {
	if d.Preset != nil {
		return d
	}
	return under(r, d, base)
}

// resolve returns the delays, which are all zero if d is nil.
func (d *delaysFile) resolve() (out nicemu.Delays) {
	if d == nil {
		return out
	}
	if d.Preset != nil {
		out = delaysPresets[*d.Preset]
	}
	set((*delay)(&out.Doorbell), d.Doorbell)
	set((*delay)(&out.DMA), d.DMA)
	set((*delay)(&out.Completion), d.Completion)
	return out
}

// delay is one of nicemu.Delays.
type delay units.Time

// UnmarshalText reads a time from 0 to nicemu.MaxDelay.
func (d *delay) UnmarshalText(b []byte) error {
	t, err := units.ParseTime(string(b))
	if err == nil && (t < 0 || t > nicemu.MaxDelay) {
		err = fmt.Errorf("%v is outside 0 to %v", t, nicemu.MaxDelay)
	}
	*d = delay(t)
	return err
}

func (delay) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Text(yamlfile.TimeForm)
}

// delaysPreset is a NIC with known delays.
type delaysPreset uint8

var (
	delaysPresetNames = []string{"connectx-3"}
	delaysPresets     = []nicemu.Delays{nicemu.ConnectX3}
)

// UnmarshalText reads a name.
func (p *delaysPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, delaysPresetNames) }

func (delaysPreset) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(delaysPresetNames...)
}
