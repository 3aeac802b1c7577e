// Package change has the settings of links and changes to them: bounds, and the forms that
// a change has in lab files, in arguments and in JSON.
package change

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// LinkPatch is a change to the settings of one direction of a link; nil leaves
// a setting unchanged. Lab files use it to describe links, events set it and
// the command line sends it. See links.Settings for what the settings mean. The
// tags for YAML and its schema are for package labfile.
type LinkPatch struct {
	Rate               *units.Rate         `yaml:"rate,omitempty" json:"rate,omitempty" jsonschema_description:"rate of serialisation, Ethernet's overhead included; default unlimited"`
	Delay              *units.Time         `yaml:"delay,omitempty" json:"delay,omitempty" jsonschema_description:"propagation delay; default 0"`
	MTU                *MTU                `yaml:"mtu,omitempty" json:"mtu,omitempty" jsonschema_description:"maximum size of a layer-3 packet in bytes, 576 to 9216; default 1500"`
	Loss               *units.Fraction     `yaml:"loss,omitempty" json:"loss,omitempty" jsonschema_description:"share of packets lost, each independently"`
	Corrupt            *units.Fraction     `yaml:"corrupt,omitempty" json:"corrupt,omitempty" jsonschema_description:"share of packets damaged, which the receiver's FCS check drops"`
	Duplicate          *units.Fraction     `yaml:"duplicate,omitempty" json:"duplicate,omitempty" jsonschema_description:"share of packets delivered twice"`
	Reorder            *units.Fraction     `yaml:"reorder,omitempty" json:"reorder,omitempty" jsonschema_description:"share of packets held back by reorder-by"`
	ReorderBy          *units.Time         `yaml:"reorder-by,omitempty" json:"reorder-by,omitempty" jsonschema_description:"how long a reordered packet is held back"`
	Jitter             *units.Time         `yaml:"jitter,omitempty" json:"jitter,omitempty" jsonschema_description:"scale of the random extra delay; default 0"`
	JitterDistribution *links.Distribution `yaml:"jitter-distribution,omitempty" json:"jitter-distribution,omitempty" jsonschema_description:"distribution of the random extra delay; default uniform"`
	JitterReorder      *bool               `yaml:"jitter-reorder,omitempty" json:"jitter-reorder,omitempty" jsonschema_description:"whether jitter lets packets overtake each other; default false"`
	DropMatch          *links.Match        `yaml:"drop-match,omitempty" json:"drop-match,omitempty" jsonschema_description:"packets dropped by their IPv4 identification, such as ip-id=0x*fff; default none"`
	State              *links.State        `yaml:"state,omitempty" json:"state,omitempty" jsonschema_description:"up or down; a link that is down drops all packets; default up"`
}

// MTU is the largest layer-3 packet in bytes. As in ip(8), the unit may be left out.
type MTU units.Bytes

// String prints m in bytes, without the unit.
func (m MTU) String() string { return strconv.FormatInt(int64(m), 10) }

// MarshalText prints m in bytes, without the unit.
func (m MTU) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads "1500", "1500B" or "9KB".
func (m *MTU) UnmarshalText(b []byte) error {
	text := string(b)
	if _, err := strconv.ParseUint(text, 10, 63); err == nil {
		text += "B"
	}
	bytes, err := units.ParseBytes(text)
	*m = MTU(bytes)
	return err
}

// The limits of a link's settings.
const (
	MinMTU   units.Bytes = 576  // every IPv4 host must take this much (RFC 791 §3.1)
	MinMTU6  units.Bytes = 1280 // IPv6 needs this much (RFC 8200 §5)
	MaxMTU   units.Bytes = 9216 // the jumbo frame of common switches
	maxDelay             = units.Hour
)

// DefaultLink is the default settings of a link.
var DefaultLink = links.Settings{MTU: 1500, Up: true}

// SettingError is an invalid setting or an invalid combination of settings.
type SettingError struct {
	Field any // pointer in the patch to the setting at fault
	Msg   string
}

func (e *SettingError) Error() string { return e.Msg }

// Apply returns s changed by p. The error names a setting that is out of range
// or that cannot take effect with the others; s itself is assumed to be valid.
func (p LinkPatch) Apply(s links.Settings) (links.Settings, error) {
	set(&s.Rate, p.Rate)
	set(&s.Delay, p.Delay)
	set((*MTU)(&s.MTU), p.MTU)
	set(&s.Loss, p.Loss)
	set(&s.Corrupt, p.Corrupt)
	set(&s.Duplicate, p.Duplicate)
	set(&s.Reorder, p.Reorder)
	set(&s.ReorderBy, p.ReorderBy)
	set(&s.Jitter, p.Jitter)
	set(&s.JitterDistribution, p.JitterDistribution)
	set(&s.JitterReorder, p.JitterReorder)
	set(&s.DropMatch, p.DropMatch)
	if p.State != nil {
		s.Up = bool(*p.State)
	}
	for _, span := range []struct {
		name string
		set  *units.Time
	}{{"delay", p.Delay}, {"jitter", p.Jitter}, {"reorder-by", p.ReorderBy}} {
		if span.set != nil && (*span.set < 0 || *span.set > maxDelay) {
			return s, &SettingError{span.set, fmt.Sprintf("%s %v is outside 0s to %v", span.name, *span.set, maxDelay)}
		}
	}
	switch {
	case p.MTU != nil && (s.MTU < MinMTU || s.MTU > MaxMTU):
		return s, &SettingError{p.MTU, fmt.Sprintf("mtu %d is outside %d to %d", s.MTU, MinMTU, MaxMTU)}
	case s.Reorder > 0 && s.ReorderBy == 0:
		if p.ReorderBy != nil {
			return s, &SettingError{p.ReorderBy, "reorder-by 0s would not reorder anything: write reorder: 0 to turn reordering off"}
		}
		return s, &SettingError{p.Reorder, "reorder needs reorder-by: how long a packet is held back, such as reorder-by: 1ms"}
	case s.Reorder == 0 && p.ReorderBy != nil && p.Reorder == nil:
		return s, &SettingError{p.ReorderBy, "reorder-by needs reorder: the share of packets held back, such as reorder: 1%"}
	case s.Jitter == 0 && p.JitterDistribution != nil && p.Jitter == nil:
		return s, &SettingError{p.JitterDistribution, "jitter-distribution needs jitter: its scale, such as jitter: 10us"}
	case s.Jitter == 0 && p.JitterReorder != nil && p.Jitter == nil:
		return s, &SettingError{p.JitterReorder, "jitter-reorder needs jitter: its scale, such as jitter: 10us"}
	}
	return s, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Over returns p with the settings that it leaves unset taken from base.
func (p LinkPatch) Over(base LinkPatch) LinkPatch {
	top, below := reflect.ValueOf(&p).Elem(), reflect.ValueOf(base)
	for i := range top.NumField() {
		if top.Field(i).IsNil() {
			top.Field(i).Set(below.Field(i))
		}
	}
	return p
}

// LinkKeys returns the names of a link's settings, in the order of LinkPatch.
func LinkKeys() []string { return slices.Clone(linkSettings.names) }

// ParseAssignments reads settings in the form of the command line, such as
// "loss=1%" and "rate=1Gbps". The error says what is wrong with an argument and
// how to write it; Apply checks combinations.
func ParseAssignments(args []string) (p LinkPatch, err error) {
	if err := linkSettings.parse(reflect.ValueOf(&p).Elem(), args); err != nil {
		return LinkPatch{}, err
	}
	return p, nil
}

// String returns p in the form that ParseAssignments reads, with the arguments
// joined by spaces. It is empty if p sets nothing.
func (p LinkPatch) String() string { return linkSettings.format(reflect.ValueOf(p)) }
