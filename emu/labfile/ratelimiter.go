package labfile

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// RateLimiter describes the rate limiters of a NIC.
type RateLimiter struct {
	Preset   *RateLimiterPreset `yaml:"preset,omitempty" jsonschema_description:"limiters of a known NIC"`
	Limiters *Limiters          `yaml:"limiters,omitempty" jsonschema_description:"number of queue pairs that can have a limit at a time, 0 for all; default the preset's, or 0"`
	Min      *units.Rate        `yaml:"min,omitempty" jsonschema_description:"minimum rate of a limit; default unlimited, which means any"`
	Max      *units.Rate        `yaml:"max,omitempty" jsonschema_description:"maximum rate of a limit; default unlimited, which means any"`
	Lag      *LimiterLag        `yaml:"lag,omitempty" jsonschema_description:"bytes on the wire that a queue pair still sends before a new limit takes effect; default the preset's, or 0"`
}

func (f *RateLimiter) byName() any { f.Preset = new(RateLimiterPreset); return f.Preset }

// Join returns f with missing keys taken from base. A preset sets all of them.
func (f *RateLimiter) joinBase(r *yamlfile.Reader, base *RateLimiter) *RateLimiter {
	if f.Preset != nil {
		return f
	}
	return joinUnder(r, f, base)
}

// Limiter returns the rate limiters. If f is nil, each queue pair has one without lag.
func (f *RateLimiter) Limiter() (out nicemu.RateLimiter) {
	if f == nil {
		return out
	}
	if f.Preset != nil {
		out = rateLimiterPresets[*f.Preset]
	}
	setFrom((*Limiters)(&out.Limiters), f.Limiters)
	setFrom((*LimiterLag)(&out.Lag), f.Lag)
	setFrom(&out.Min, f.Min)
	setFrom(&out.Max, f.Max)
	return out
}

// Limiters is a number of rate limiters.
type Limiters int

func (n *Limiters) UnmarshalText(b []byte) error {
	var v uint32
	_, err := fmt.Sscanf(string(b), "%d", &v)
	if err != nil || fmt.Sprint(v) != string(b) || v > 1<<24 {
		return fmt.Errorf("%q is not a number from 0 to %d", b, 1<<24)
	}
	*n = Limiters(v)
	return nil
}

func (Limiters) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "16777216"}
}

// LimiterLag is an amount from 0 to 1 GB.
type LimiterLag units.Bytes

func (n *LimiterLag) UnmarshalText(b []byte) error {
	v, err := units.ParseBytes(string(b))
	if err == nil && (v < 0 || v > 1e9) {
		err = fmt.Errorf("%v is outside 0 to 1GB", v)
	}
	*n = LimiterLag(v)
	return err
}

func (LimiterLag) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.TextSchema(yamlfile.BytesForm)
}

// RateLimiterPreset is a NIC with known rate limiters.
type RateLimiterPreset uint8

var (
	rateLimiterPresetNames = []string{"connectx-3", "connectx-4"}
	rateLimiterPresets     = []nicemu.RateLimiter{nicemu.ConnectX3Limiter, nicemu.ConnectX4Limiter}
)

// UnmarshalText reads a name.
func (p *RateLimiterPreset) UnmarshalText(b []byte) error {
	return unmarshalName(p, b, rateLimiterPresetNames)
}

func (RateLimiterPreset) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(rateLimiterPresetNames...)
}
