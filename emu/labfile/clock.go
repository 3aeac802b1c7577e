package labfile

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// Clock says how exact the clock of a node is: the name of a preset, or settings.
type Clock struct {
	Preset string // one of clockPresets; "" if there are only settings
	ClockSettings
}

// ClockSettings are those of a clock.
type ClockSettings struct {
	PPM    *PPM    `yaml:"ppm,omitempty" jsonschema_description:"by how much the clock is fast, or slow if negative, in parts per million, -1000 to 1000; default that of the preset"`
	Jitter *Jitter `yaml:"jitter,omitempty" jsonschema_description:"bound of a random delay of each packet before it leaves, at most 1ms, or packet for the time of the longest packet on the link, at most 20us; default that of the preset"`
}

// The presets of clocks.
const (
	ExactClock = "exact"
	RealClock  = "real"
)

var clockPresets = []string{ExactClock, RealClock}

// PPM is the error of a clock.
type PPM nodeclock.PPB

// UnmarshalText reads a number of parts per million, rounded to a thousandth.
func (e *PPM) UnmarshalText(b []byte) error {
	const limit = float64(nodeclock.MaxError) / float64(nodeclock.PPM)
	x, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err != nil || math.IsNaN(x):
		return &yamlfile.HintError{Msg: fmt.Sprintf("%q is not a number of parts per million", b), Hint: "write for example ppm: 25, or ppm: -25 for a slow clock"}
	case math.Abs(x) > limit:
		return &yamlfile.HintError{Msg: fmt.Sprintf("%q is outside %g to %g", b, -limit, limit), Hint: "line clocks of Ethernet are within 100 ppm: write for example ppm: 25"}
	}
	*e = PPM(math.Round(x * float64(nodeclock.PPM)))
	return nil
}

func (PPM) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	limit := strconv.Itoa(int(nodeclock.MaxError / nodeclock.PPM))
	return &jsonschema.Schema{Type: "number", Minimum: json.Number("-" + limit), Maximum: json.Number(limit)}
}

// Jitter is the bound of the random delay of each packet.
type Jitter nodeclock.Jitter

// jitterHint is how to correct a jitter.
const jitterHint = "write for example jitter: 100ns, or jitter: packet for a packet's time on the link"

// UnmarshalText reads a time up to nodeclock.MaxJitter, or packet.
func (j *Jitter) UnmarshalText(b []byte) error {
	if string(b) == "packet" {
		*j = Jitter{Packet: true}
		return nil
	}
	t, err := units.ParseTime(string(b))
	switch {
	case err != nil:
		return err
	case t < 0 || t > nodeclock.MaxJitter:
		return &yamlfile.HintError{Msg: fmt.Sprintf("%q is outside 0s to %v", b, nodeclock.MaxJitter), Hint: jitterHint}
	}
	*j = Jitter{Time: t}
	return nil
}

func (Jitter) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema("packet"), m.SchemaOf(reflect.TypeFor[units.Time]())}}
}

func (f *Clock) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	text, ok := yamlfile.ScalarText(n)
	if !ok {
		r.Read(&f.ClockSettings, n, what)
		return
	}
	for _, p := range clockPresets {
		if text == p {
			f.Preset = p
			return
		}
	}
	r.FailAt(n, suggest.Hint(text, "write for example clock: {ppm: 25, jitter: 100ns}; presets are", clockPresets), "%s cannot be %q", what, text)
}

func (Clock) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema(clockPresets...), m.SchemaOf(reflect.TypeFor[ClockSettings]())}}
}

// MergeOver returns f with missing settings taken from base. Either may be nil. A preset replaces all
// of base.
func (f *Clock) MergeOver(r *yamlfile.Reader, base *Clock) *Clock {
	if f == nil || base == nil || f.Preset != "" {
		if f == nil {
			f = base
		}
		return f
	}
	return &Clock{Preset: base.Preset, ClockSettings: *joinUnder(r, &f.ClockSettings, &base.ClockSettings)}
}
