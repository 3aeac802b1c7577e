package resolve

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/weftlab/weft/emu/yamlfile"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/pfc"
)

// The types here describe the QoS and the buffers of a switch as a lab file does. All keys are
// pointers or lists: keys that a node leaves out are taken from its kind.

// switchFile holds the keys of QoS and buffers of a node.
type switchFile struct {
	Buffer     *orNone[bufferFile] `yaml:"buffer,omitempty" jsonschema_description:"switch: memory shared by all its ports; default unlimited"`
	Pause      *orNone[pfcFile]    `yaml:"pause,omitempty" jsonschema_description:"switch: global PAUSE (IEEE 802.3 annex 31B) of its ports, in place of PFC by class; default none"`
	CutThrough *bool               `yaml:"cut-through,omitempty" jsonschema_description:"switch: whether it forwards a packet as soon as the header has arrived; default false"`
}

type bufferFile struct {
	Preset *bufferPreset `yaml:"preset,omitempty" jsonschema_description:"sizes and thresholds of a known buffer"`
	Size   *units.Bytes  `yaml:"size,omitempty" jsonschema_description:"total size; with per-port, the size for each class at each port; default the preset's"`
	Alpha  *alpha        `yaml:"alpha,omitempty" jsonschema_description:"alpha of classes that do not set one; default the preset's, or 1"`
}

func (b *bufferFile) byName() any { b.Preset = new(bufferPreset); return b.Preset }

type classFile struct {
	DSCP     yamlfile.OneOrMore[dscpRange] `yaml:"dscp,omitempty" jsonschema_description:"DSCPs of its IP packets: numbers and ranges, such as [26, 32-39]"`
	PCP      yamlfile.OneOrMore[pcpRange]  `yaml:"pcp,omitempty" jsonschema_description:"802.1Q priority code points of its tagged packets that are not IP"`
	Priority *priority                     `yaml:"priority,omitempty" jsonschema_description:"its queue, and the class that PFC pauses; required except for the class default, which has 0"`
	Weight   *weight                       `yaml:"weight,omitempty" jsonschema_description:"its share among classes with a weight (DWRR); default strict priority"`
	Order    *order                        `yaml:"order,omitempty" jsonschema_description:"packets leave in the order of arrival, or flows take turns; default fifo"`
	Limit    *units.Bytes                  `yaml:"limit,omitempty" jsonschema_description:"maximum queue length at a port in bytes"`
	Reserve  *units.Bytes                  `yaml:"reserve,omitempty" jsonschema_description:"switch: part of the buffer reserved for its queue at each port; default 0"`
	Alpha    *alpha                        `yaml:"alpha,omitempty" jsonschema_description:"switch: its queue may take alpha times the free part of the buffer, or none; default the buffer's, none with pfc or credits"`
	Mark     *markFile                     `yaml:"mark,omitempty" jsonschema_description:"switch: marking of packets (ECN); default the mark of queue"`
	Ingress  *ingressFile                  `yaml:"ingress,omitempty" jsonschema_description:"switch: part of the buffer that packets from one ingress port may take"`
	PFC      *orNone[pfcFile]              `yaml:"pfc,omitempty" jsonschema_description:"switch: priority flow control, which makes the class lossless; default none"`
	Credits  *orNone[creditsFile]          `yaml:"credits,omitempty" jsonschema_description:"switch: credits as in InfiniBand in place of pfc, which make the class lossless without headroom; default none"`
	Trim     *orNone[trimFile]             `yaml:"trim,omitempty" jsonschema_description:"switch: trimming of packets to their headers instead of drops; default none"`
}

type ingressFile struct {
	Reserve *units.Bytes `yaml:"reserve,omitempty" jsonschema_description:"part of the buffer reserved for each port; default 0"`
	Limit   *units.Bytes `yaml:"limit,omitempty" jsonschema_description:"maximum beyond the reserve; default none"`
	Alpha   *alpha       `yaml:"alpha,omitempty" jsonschema_description:"factor of the free part of the buffer, or none; default none"`
}

// pfcFile is how a class, or with PAUSE a port, pauses its senders.
type pfcFile struct {
	Xoff     *units.Bytes  `yaml:"xoff,omitempty" jsonschema_description:"a pause begins when the queued bytes from one ingress port reach this"`
	Xon      *units.Bytes  `yaml:"xon,omitempty" jsonschema_description:"a pause ends when they have fallen to this; default xoff less offset"`
	Alpha    *alpha        `yaml:"alpha,omitempty" jsonschema_description:"instead of xoff: a pause begins at alpha times the free part of the buffer; default the buffer's"`
	Offset   *units.Bytes  `yaml:"offset,omitempty" jsonschema_description:"a pause ends this far below the threshold at which it begins; default two packets of the MTU"`
	Headroom *units.Bytes  `yaml:"headroom,omitempty" jsonschema_description:"part of the buffer reserved at each port for packets that arrive before a pause takes effect; default from the link's rate, delay and MTU"`
	Quanta   *quanta       `yaml:"quanta,omitempty" jsonschema_description:"pause time of a pause frame, in units of 512 bit times; default 65535"`
	Refresh  *units.Time   `yaml:"refresh,omitempty" jsonschema_description:"interval between pause frames; default half the pause time"`
	Watchdog *watchdogFile `yaml:"watchdog,omitempty" jsonschema_description:"ends pauses that last too long; default none"`
}

type watchdogFile struct {
	Detect  *units.Time `yaml:"detect,omitempty" jsonschema_description:"how long a queue may stay paused; default 200ms"`
	Restore *units.Time `yaml:"restore,omitempty" jsonschema_description:"time without a pause request from the peer before the queue recovers; default 200ms"`
	Action  *pfc.Action `yaml:"action,omitempty" jsonschema_description:"what happens to its packets in between; default drop"`
}

type trimFile struct {
	Preset    *trimPreset     `yaml:"preset,omitempty" jsonschema_description:"trimming as in NDP or Ultra Ethernet; default uec"`
	Keep      *units.Bytes    `yaml:"keep,omitempty" jsonschema_description:"bytes kept behind the IP header; default 24B, ndp 26B"`
	DSCP      *dscp           `yaml:"dscp,omitempty" jsonschema_description:"DSCP of trimmed packets, which selects their class; required"`
	Tail      *units.Fraction `yaml:"tail,omitempty" jsonschema_description:"how often the last packet of the queue is trimmed instead of the arriving one; default 0%, ndp 50%"`
	Return    *bool           `yaml:"return,omitempty" jsonschema_description:"whether trimmed packets that find no room are returned to their sender; default false, ndp true"`
	FixLength *bool           `yaml:"fix-length,omitempty" jsonschema_description:"whether the length in the IP header is set to the trimmed length; default false"`
}

func (t *trimFile) byName() any { t.Preset = new(trimPreset); return t.Preset }

// orNone is settings that may be replaced by none, which discards those of the
// kind, or by the bare name of a preset if they have presets.
type orNone[T any] struct {
	none  bool
	Value T
}

// preset is implemented by settings that have presets: byName allocates the
// name of the preset and returns a pointer to it.
type preset interface{ byName() any }

func (o *orNone[T]) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	if scalar && text == "none" {
		o.none = true
		return
	}
	if p, ok := any(&o.Value).(preset); ok && scalar {
		r.Read(p.byName(), n, what)
		return
	}
	r.Read(&o.Value, n, what)
}

func (o orNone[T]) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	forms := []*jsonschema.Schema{{Const: "none"}, m.Of(reflect.TypeFor[T]())}
	if p, ok := any(&o.Value).(preset); ok {
		forms = append(forms, m.Of(reflect.TypeOf(p.byName()).Elem()))
	}
	return &jsonschema.Schema{OneOf: forms}
}

// settings returns the settings, or nil if there are none.
func (o *orNone[T]) settings() *T {
	if o == nil || o.none {
		return nil
	}
	return &o.Value
}

// under returns top with missing keys taken from base. Either may be nil.
func under[T any](r *yamlfile.Reader, top, base *T) *T {
	if top == nil || base == nil {
		if top == nil {
			top = base
		}
		return top
	}
	joined := *top
	v, below := reflect.ValueOf(&joined).Elem(), reflect.ValueOf(base).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			v.Field(i).Set(below.Field(i))
		}
	}
	r.SetPlace(&joined, r.Place(top))
	return &joined
}

// underNone is under for settings that may be none. Join merges the two if both
// are present.
func underNone[T any](r *yamlfile.Reader, top, base *orNone[T], join func(top, base *T) *T) *orNone[T] {
	if top == nil || base == nil || top.none || base.none {
		if top == nil {
			top = base
		}
		return top
	}
	joined := &orNone[T]{Value: *join(&top.Value, &base.Value)}
	r.SetPlace(joined, r.Place(top))
	r.SetPlace(&joined.Value, r.Place(top))
	return joined
}

// join returns a switch's settings with missing keys taken from base.
func (f switchFile) join(r *yamlfile.Reader, base switchFile) switchFile {
	joined := under(r, &f, &base)
	joined.Buffer = underNone(r, f.Buffer, base.Buffer, func(a, b *bufferFile) *bufferFile { return under(r, a, b) })
	joined.Pause = underNone(r, f.Pause, base.Pause, func(a, b *pfcFile) *pfcFile { return a.join(r, b) })
	return *joined
}

func (f classFile) join(r *yamlfile.Reader, base classFile) classFile {
	joined := under(r, &f, &base)
	joined.Ingress = under(r, f.Ingress, base.Ingress)
	joined.PFC = underNone(r, f.PFC, base.PFC, func(a, b *pfcFile) *pfcFile { return a.join(r, b) })
	joined.Credits = underNone(r, f.Credits, base.Credits, func(a, b *creditsFile) *creditsFile { return under(r, a, b) })
	joined.Trim = underNone(r, f.Trim, base.Trim, func(a, b *trimFile) *trimFile { return under(r, a, b) })
	return *joined
}

func (f *pfcFile) join(r *yamlfile.Reader, base *pfcFile) *pfcFile {
	joined := under(r, f, base)
	joined.Watchdog = under(r, f.Watchdog, base.Watchdog)
	// The two forms of a threshold exclude each other: if the node sets one,
	// the kind's setting of the other is discarded.
	switch {
	case f.Xoff != nil && f.Alpha == nil:
		joined.Alpha = nil
	case f.Alpha != nil && f.Xoff == nil:
		joined.Xoff, joined.Xon = nil, f.Xon
	}
	switch {
	case f.Xon != nil && f.Offset == nil:
		joined.Offset = nil
	case f.Offset != nil && f.Xon == nil:
		joined.Xon = nil
	}
	return joined
}

// alpha is the factor of a dynamic threshold; 0 means none.
type alpha float64

const maxAlpha = 1000

// UnmarshalText reads "0.125", "1/8" or "none".
func (a *alpha) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "none" {
		*a = 0
		return nil
	}
	num, den, _ := strings.Cut(text, "/")
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if den != "" && err == nil {
		var d float64
		d, err = strconv.ParseFloat(strings.TrimSpace(den), 64)
		v /= d
	}
	if err != nil || math.IsNaN(v) {
		return fmt.Errorf("%q is not a factor: write for example 0.125 or 1/8, or none", text)
	}
	if v <= 0 || v > maxAlpha {
		return fmt.Errorf("%s must be above 0 and at most %d: write none for no dynamic threshold", text, maxAlpha)
	}
	*a = alpha(v)
	return nil
}

func (alpha) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
		{Type: "number", ExclusiveMinimum: "0", Maximum: "1000"},
		yamlfile.Text(`^(none|(` + yamlfile.NumberForm + `) */ *(` + yamlfile.NumberForm + `))$`),
	}}
}

// span is the numbers from low to high.
type span struct{ low, high uint8 }

// read reads "26" or "24-31", with numbers up to most.
func (s *span) read(b []byte, most int) error {
	first, last, ranged := strings.Cut(string(b), "-")
	if !ranged {
		last = first
	}
	low, err := yamlfile.ParseInt([]byte(strings.TrimSpace(first)), 0, most)
	if err != nil {
		return fmt.Errorf("%q is neither a number from 0 to %d nor a range of them, such as 2-%d", b, most, min(most, 31))
	}
	high, err := yamlfile.ParseInt([]byte(strings.TrimSpace(last)), low, most)
	if err != nil {
		return fmt.Errorf("%q is not a range: write the smaller number first, and at most %d", b, most)
	}
	*s = span{uint8(low), uint8(high)}
	return nil
}

// dscpRange is a range of differentiated services code points.
type dscpRange struct{ span }

// UnmarshalText reads "26" or "24-31".
func (d *dscpRange) UnmarshalText(b []byte) error { return d.read(b, 63) }

func (dscpRange) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return spanSchema(63) }

// pcpRange is a range of priority code points of 802.1Q tags.
type pcpRange struct{ span }

// UnmarshalText reads "3" or "4-7".
func (p *pcpRange) UnmarshalText(b []byte) error { return p.read(b, 7) }

func (pcpRange) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return spanSchema(7) }

func spanSchema(most int) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Integer(0, most), yamlfile.Text(`^[0-9]+ *- *[0-9]+$`)}}
}

// priority is the priority of a class.
type priority uint8

// UnmarshalText reads a number from 0 to 7.
func (p *priority) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, class.Count-1)
	*p = priority(n)
	return err
}

func (priority) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Integer(0, class.Count-1)
}

const maxWeight = 1000

// weight is the share of one class, or one next hop, relative to the others.
type weight int

// UnmarshalText reads a number from 1 to maxWeight.
func (w *weight) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxWeight)
	*w = weight(n)
	return err
}

func (weight) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return yamlfile.Integer(1, maxWeight) }

// order is the order in which the packets of a class leave.
type order uint8

const (
	fifo order = iota
	fair
)

var orderNames = []string{"fifo", "fair"}

// UnmarshalText reads fifo or fair.
func (o *order) UnmarshalText(b []byte) error { return unmarshalName(o, b, orderNames) }

func (order) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return yamlfile.Enum(orderNames...) }

// quanta is a pause time in quanta.
type quanta uint16

// UnmarshalText reads a number from 1 to 65535.
func (q *quanta) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, math.MaxUint16)
	*q = quanta(n)
	return err
}

func (quanta) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Integer(1, math.MaxUint16)
}

// bufferPreset is a known buffer configuration.
type bufferPreset uint8

// The known buffer configurations.
const (
	hpccBuffer bufferPreset = iota
	broadcomBuffer
	perPortBuffer
)

var bufferPresetNames = []string{"hpcc", "broadcom", "per-port"}

// UnmarshalText reads the name that a lab file uses.
func (p *bufferPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, bufferPresetNames) }

func (bufferPreset) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(bufferPresetNames...)
}

// trimPreset is a known method of trimming.
type trimPreset uint8

// The known methods of trimming.
const (
	uecTrim trimPreset = iota
	ndpTrim
)

var trimPresetNames = []string{"uec", "ndp"}

// UnmarshalText reads the name that a lab file uses.
func (p *trimPreset) UnmarshalText(b []byte) error { return unmarshalName(p, b, trimPresetNames) }

func (trimPreset) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(trimPresetNames...)
}
