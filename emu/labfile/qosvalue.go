package labfile

import (
	"fmt"
	"math"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/switches/class"
)

// Alpha is the factor of a dynamic threshold; 0 means none.
type Alpha float64

// UnmarshalText reads "0.125", "1/8" or "none".
func (a *Alpha) UnmarshalText(b []byte) error {
	v, err := change.ParseAlpha(string(b))
	*a = Alpha(v)
	return err
}

func (Alpha) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema { return alphaSchema() }

func alphaSchema() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "number", ExclusiveMinimum: "0", Maximum: "1000"},
		yamlfile.TextSchema(`^(none|(` + yamlfile.NumberForm + `) */ *(` + yamlfile.NumberForm + `))$`),
	}}
}

// Range is the numbers from low to high.
type Range struct{ Low, High uint8 }

// parseRange reads "26" or "24-31", with numbers up to most.
func (s *Range) parseRange(b []byte, maxValue int) error {
	first, last, ranged := strings.Cut(string(b), "-")
	if !ranged {
		last = first
	}
	low, err := yamlfile.ParseInt([]byte(strings.TrimSpace(first)), 0, maxValue)
	if err != nil {
		return fmt.Errorf("%q is neither a number from 0 to %d nor a range of them, such as 2-%d", b, maxValue, min(maxValue, 31))
	}
	high, err := yamlfile.ParseInt([]byte(strings.TrimSpace(last)), low, maxValue)
	if err != nil {
		return fmt.Errorf("%q is not a range: write the smaller number first, and at most %d", b, maxValue)
	}
	*s = Range{uint8(low), uint8(high)}
	return nil
}

// DSCPRange is a range of differentiated services code points.
type DSCPRange struct{ Range }

// UnmarshalText reads "26" or "24-31".
func (d *DSCPRange) UnmarshalText(b []byte) error { return d.parseRange(b, 63) }

func (DSCPRange) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema { return spanSchema(63) }

// PCPRange is a range of priority code points of 802.1Q tags.
type PCPRange struct{ Range }

// UnmarshalText reads "3" or "4-7".
func (p *PCPRange) UnmarshalText(b []byte) error { return p.parseRange(b, 7) }

func (PCPRange) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema { return spanSchema(7) }

func spanSchema(maxValue int) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.IntegerSchema(0, maxValue), yamlfile.TextSchema(`^[0-9]+ *- *[0-9]+$`)}}
}

// Priority is the priority of a class.
type Priority uint8

// UnmarshalText reads a number from 0 to 7.
func (p *Priority) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, class.Count-1)
	*p = Priority(n)
	return err
}

func (Priority) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(0, class.Count-1)
}

// MaxWeight bounds the weights of classes and of ports in routes.
const MaxWeight = change.MaxWeight

// Weight is the share of one class, or one next hop, relative to the others.
type Weight int

// UnmarshalText reads a number from 1 to maxWeight.
func (w *Weight) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, MaxWeight)
	*w = Weight(n)
	return err
}

func (Weight) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, MaxWeight)
}

// Order is the order in which the packets of a class leave.
type Order uint8

// The orders.
const (
	FIFO Order = iota
	Fair
)

var orderNames = []string{"fifo", "fair"}

// UnmarshalText reads fifo or fair.
func (o *Order) UnmarshalText(b []byte) error { return unmarshalName(o, b, orderNames) }

func (Order) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(orderNames...)
}

// Quanta is a pause time in quanta.
type Quanta uint16

// UnmarshalText reads a number from 1 to 65535.
func (q *Quanta) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, math.MaxUint16)
	*q = Quanta(n)
	return err
}

func (Quanta) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, math.MaxUint16)
}

// BufferPreset is a known buffer configuration.
type BufferPreset uint8

// The known buffer configurations.
const (
	HPCCBuffer BufferPreset = iota
	BroadcomBuffer
	PerPortBuffer
)

var bufferPresetNames = []string{"hpcc", "broadcom", "per-port"}

// UnmarshalText reads the name that a lab file uses.
func (p *BufferPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, bufferPresetNames) }

func (BufferPreset) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(bufferPresetNames...)
}

// TrimPreset is a known method of trimming.
type TrimPreset uint8

// The known methods of trimming.
const (
	UECTrim TrimPreset = iota
	NDPTrim
)

var trimPresetNames = []string{"uec", "ndp"}

// UnmarshalText reads the name that a lab file uses.
func (p *TrimPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, trimPresetNames) }

func (TrimPreset) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(trimPresetNames...)
}
