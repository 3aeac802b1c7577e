package spec

import "github.com/weftlab/weft/sim/units"

// windowFile says which flows of patterns count.
type windowFile struct {
	WarmUp *units.Time `yaml:"warm-up,omitempty" jsonschema_description:"flows that are born earlier do not count; default 0"`
	End    *units.Time `yaml:"end,omitempty" jsonschema_description:"no flow is born later; those under way run on; default never"`
	Grace  *units.Time `yaml:"grace,omitempty" jsonschema_description:"how long after end a run in virtual time goes on at most for flows that are under way; default until all are over"`
}

// window resolves the measurement window.
func (v *resolver) window() {
	f := v.lab.Window
	if f == nil {
		return
	}
	m := &v.plan.Measure
	set(&m.WarmUp, f.WarmUp)
	set(&m.End, f.End)
	set(&m.Grace, f.Grace)
	v.checkTime(f.WarmUp, "warm-up", maxTime)
	v.checkTime(f.End, "end", maxTime)
	v.checkTime(f.Grace, "grace", maxTime)
	d := v.lab.Duration
	switch {
	case len(v.plan.Traffic) == 0 && v.Faults() == 0:
		v.Fail(f, "the window is for arrivals, requests and other patterns of flows; others have at: and for:", "the workload has no flows that the window counts")
	case f.End != nil && *f.End <= m.WarmUp:
		v.Fail(f.End, "", "the window ends at %v, and begins at %v", *f.End, m.WarmUp)
	case f.End != nil && d != nil && *f.End > *d:
		v.Fail(f.End, "lengthen the run or shorten the window", "the window ends at %v, after the run, whose duration is %v", *f.End, *d)
	case f.WarmUp != nil && d != nil && m.WarmUp >= *d:
		v.Fail(f.WarmUp, "lengthen the run or shorten the warm-up", "the window begins at %v, and the run ends at %v", m.WarmUp, *d)
	case f.Grace != nil && f.End == nil:
		v.Fail(f.Grace, "write end: too", "grace begins when the window ends, and nothing says when that is")
	case f.Grace != nil && d != nil:
		v.Fail(f.Grace, "leave out grace, or duration", "the file's duration says when the run ends: grace has no effect")
	case f.Grace != nil && *f.Grace == 0:
		v.Fail(f.Grace, "leave it out to wait for all flows, or write duration: to end with the window", "a grace of no duration")
	}
}
