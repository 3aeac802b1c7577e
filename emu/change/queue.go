package change

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// QueuePatch is a change to the settings of one queue of a port, and of how the port pauses its
// peer for the class of the queue; nil leaves a setting unchanged. Events of lab files set it
// and the command line sends it.
type QueuePatch struct {
	Limit      *units.Bytes    `yaml:"limit,omitempty" json:"limit,omitempty" jsonschema_description:"maximum queue length at the port"`
	Alpha      *Alpha          `yaml:"alpha,omitempty" json:"alpha,omitempty" jsonschema_description:"its queue may take alpha times the free part of the buffer, or none"`
	Weight     *Weight         `yaml:"weight,omitempty" json:"weight,omitempty" jsonschema_description:"its share among classes with a weight (DWRR)"`
	KMin       *units.Bytes    `yaml:"kmin,omitempty" json:"kmin,omitempty" jsonschema_description:"red: queue length from which packets are marked"`
	KMax       *units.Bytes    `yaml:"kmax,omitempty" json:"kmax,omitempty" jsonschema_description:"red: queue length above which all packets are marked"`
	PMax       *units.Fraction `yaml:"pmax,omitempty" json:"pmax,omitempty" jsonschema_description:"red: probability of a mark at kmax"`
	K          *units.Bytes    `yaml:"k,omitempty" json:"k,omitempty" jsonschema_description:"step: queue length above which packets are marked"`
	Xoff       *units.Bytes    `yaml:"xoff,omitempty" json:"xoff,omitempty" jsonschema_description:"a pause begins when the queued bytes from the port reach this"`
	PauseAlpha *Alpha          `yaml:"pause-alpha,omitempty" json:"pause-alpha,omitempty" jsonschema_description:"instead of xoff: a pause begins at alpha times the free part of the buffer"`
	Xon        *units.Bytes    `yaml:"xon,omitempty" json:"xon,omitempty" jsonschema_description:"a pause ends when they have fallen to this"`
	Offset     *units.Bytes    `yaml:"offset,omitempty" json:"offset,omitempty" jsonschema_description:"a pause ends this far below the threshold at which it begins"`
}

// Alpha is the factor of a dynamic threshold; 0 means none.
type Alpha float64

const maxAlpha = 1000

// ParseAlpha reads "0.125", "1/8" or "none", which is 0.
func ParseAlpha(text string) (float64, error) {
	if text == "none" {
		return 0, nil
	}
	num, den, _ := strings.Cut(text, "/")
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if den != "" && err == nil {
		var d float64
		d, err = strconv.ParseFloat(strings.TrimSpace(den), 64)
		v /= d
	}
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a factor: write for example 0.125 or 1/8, or none", text)
	}
	if v <= 0 || v > maxAlpha {
		return 0, fmt.Errorf("%s must be above 0 and at most %d: write none for no dynamic threshold", text, maxAlpha)
	}
	return v, nil
}

// UnmarshalText reads "0.125", "1/8" or "none".
func (a *Alpha) UnmarshalText(b []byte) error {
	v, err := ParseAlpha(string(b))
	*a = Alpha(v)
	return err
}

// String prints the factor, or none.
func (a Alpha) String() string {
	if a == 0 {
		return "none"
	}
	return strconv.FormatFloat(float64(a), 'g', -1, 64)
}

// MarshalText prints the factor, or none.
func (a Alpha) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Weight is the share of one class relative to the others, 1 to MaxWeight.
type Weight int

// MaxWeight bounds the weights of classes.
const MaxWeight = 1000

// UnmarshalText reads a number from 1 to MaxWeight.
func (w *Weight) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 || n > MaxWeight {
		return fmt.Errorf("%q must be a number from 1 to %d", b, MaxWeight)
	}
	*w = Weight(n)
	return nil
}

// Queue is what a QueuePatch changes: the current settings of one queue of a port.
type Queue struct {
	Name    string      // "s1:3", or "class roce of s1:3"
	Frame   units.Bytes // longest frame of its link
	Class   bool        // of a port with classes, otherwise a plain port
	Buffer  units.Bytes // that the switch's ports share, 0 without one
	Limit   units.Bytes // 0 without one
	Alpha   float64     // 0 without one
	Weight  int         // 0 with strict priority
	Mark    congestion.Settings
	Adjusts bool // Mark can change during a run

	Pauses     bool // by pfc or pause
	Xoff       units.Bytes
	PauseAlpha float64
	Offset     units.Bytes
}

// Apply returns q changed by p. The error names a setting that is out of range or that has no
// effect on such a queue; q itself is assumed to be valid. It does not change q.Mark.
func (p QueuePatch) Apply(q Queue) (Queue, error) {
	for _, need := range []struct {
		set  any
		name string
		ok   bool
		why  string
	}{
		{p.Alpha, "alpha", q.Class && q.Buffer > 0, "needs a class of a switch with a buffer"},
		{p.Weight, "weight", q.Class, "needs a class"},
		{p.Xoff, "xoff", q.Pauses, "needs a class with pfc, or a switch with pause"},
		{p.Xon, "xon", q.Pauses, "needs a class with pfc, or a switch with pause"},
		{p.Offset, "offset", q.Pauses, "needs a class with pfc, or a switch with pause"},
		{p.PauseAlpha, "pause-alpha", q.Pauses && q.Buffer > 0, "needs a class with pfc, or a switch with pause, and a buffer"},
	} {
		if !reflect.ValueOf(need.set).IsNil() && !need.ok {
			return q, &SettingError{need.set, fmt.Sprintf("%s %s, which %s is not", need.name, need.why, q.Name)}
		}
	}
	if p.Limit != nil && *p.Limit < q.Frame {
		return q, &SettingError{p.Limit, fmt.Sprintf("limit %v is less than one packet of the MTU (%dB with its Ethernet header)", *p.Limit, q.Frame)}
	}
	set(&q.Limit, p.Limit)
	set((*Alpha)(&q.Alpha), p.Alpha)
	set((*Weight)(&q.Weight), p.Weight)
	if err := p.applyPause(&q); err != nil {
		return q, err
	}
	var err error
	q.Mark, err = p.applyMark(q)
	return q, err
}

// applyPause changes when pauses begin and end.
func (p QueuePatch) applyPause(q *Queue) error {
	switch {
	case p.Xoff != nil && p.PauseAlpha != nil && *p.PauseAlpha > 0:
		return &SettingError{p.PauseAlpha, "xoff is a static threshold, pause-alpha a dynamic one: set one of them"}
	case p.Xoff != nil && *p.Xoff == 0:
		return &SettingError{p.Xoff, "xoff 0B would pause forever"}
	case p.Xoff != nil && q.Buffer > 0 && *p.Xoff > q.Buffer:
		return &SettingError{p.Xoff, fmt.Sprintf("xoff %v is never reached: the buffer holds %v", *p.Xoff, q.Buffer)}
	case p.Xon != nil && p.Offset != nil:
		return &SettingError{p.Offset, "xon is xoff less offset: set one of them"}
	case p.Xoff != nil:
		if p.Xon == nil && p.Offset == nil {
			q.Offset = min(q.Offset, *p.Xoff)
		}
		q.Xoff, q.PauseAlpha = *p.Xoff, 0
	case p.PauseAlpha != nil && *p.PauseAlpha > 0:
		q.Xoff, q.PauseAlpha = 0, float64(*p.PauseAlpha)
	case p.PauseAlpha != nil:
		return &SettingError{p.PauseAlpha, "without pause-alpha there is no threshold: set xoff instead"}
	}
	switch {
	case p.Xon != nil && q.Xoff == 0:
		return &SettingError{p.Xon, "xon needs xoff: a dynamic threshold has no fixed xon, set offset instead"}
	case p.Xon != nil && *p.Xon > q.Xoff:
		return &SettingError{p.Xon, fmt.Sprintf("xon %v is above xoff %v", *p.Xon, q.Xoff)}
	case p.Xon != nil:
		q.Offset = q.Xoff - *p.Xon
	case p.Offset != nil && q.Xoff > 0 && *p.Offset > q.Xoff:
		return &SettingError{p.Offset, fmt.Sprintf("offset %v is above xoff %v", *p.Offset, q.Xoff)}
	}
	set(&q.Offset, p.Offset)
	return nil
}

// applyMark returns the settings of the congestion point, changed.
func (p QueuePatch) applyMark(q Queue) (congestion.Settings, error) {
	red, step := p.KMin != nil || p.KMax != nil || p.PMax != nil, p.K != nil
	first := func() (any, string) {
		switch {
		case p.K != nil:
			return p.K, "k"
		case p.KMin != nil:
			return p.KMin, "kmin"
		case p.KMax != nil:
			return p.KMax, "kmax"
		}
		return p.PMax, "pmax"
	}
	var next congestion.Settings
	switch was := q.Mark.(type) {
	case *congestion.RED:
		if red && !step {
			c := *was
			set(&c.KMin, p.KMin)
			set(&c.KMax, p.KMax)
			set(&c.PMax, p.PMax)
			next = &c
		}
	case *congestion.Step:
		if step && !red {
			c := *was
			set(&c.K, p.K)
			next = &c
		}
	}
	switch {
	case !red && !step:
		next = q.Mark
	case next == nil || !q.Adjusts:
		at, name := first()
		return q.Mark, &SettingError{at, fmt.Sprintf("%s has no mark with %s: kmin, kmax and pmax are of red, k is of step", q.Name, name)}
	}
	if next != nil && (red || step || p.Limit != nil) {
		limit := q.Limit
		if limit == 0 {
			limit = q.Buffer
		}
		if err := next.Validate(limit); err != nil {
			var at any = p.Limit
			if red || step {
				at, _ = first()
			}
			return q.Mark, &SettingError{at, err.Error()}
		}
	}
	return next, nil
}

// QueueKeys returns the names of a queue's settings, in the order of QueuePatch.
func QueueKeys() []string { return slices.Clone(queueSettings.names) }

// SetsQueue reports whether assignments of the command line are to be read as settings of a
// queue: the first key is one.
func SetsQueue(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name, _, _ := strings.Cut(args[0], "=")
	return slices.Contains(queueSettings.names, name)
}

// ParseQueueAssignments is ParseAssignments for a queue, such as "xoff=200KB".
func ParseQueueAssignments(args []string) (p QueuePatch, err error) {
	if err := queueSettings.parse(reflect.ValueOf(&p).Elem(), args); err != nil {
		return QueuePatch{}, err
	}
	return p, nil
}

// String returns p in the form that ParseQueueAssignments reads.
func (p QueuePatch) String() string { return queueSettings.format(reflect.ValueOf(p)) }

// ReadQueuePatch is ReadPatch for a queue.
func ReadQueuePatch(r io.Reader) (QueuePatch, error) {
	var p QueuePatch
	if err := queueSettings.readObject(reflect.ValueOf(&p).Elem(), r); err != nil {
		return QueuePatch{}, err
	}
	return p, nil
}
