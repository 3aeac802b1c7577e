package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/sim/units"
)

// resolveWindow resolves the measurement window.
func resolveWindow(v *base, f *labfile.Window, d *units.Time) {
	if f == nil {
		return
	}
	m := &v.plan.Measure
	setFrom(&m.WarmUp, f.WarmUp)
	setFrom(&m.End, f.End)
	setFrom(&m.Grace, f.Grace)
	v.checkTime(f.WarmUp, "warm-up", maxTime)
	v.checkTime(f.End, "end", maxTime)
	v.checkTime(f.Grace, "grace", maxTime)
	switch {
	case len(v.plan.Traffic) == 0 && v.Faults() == 0:
		v.ReportFault(f, "the window is for arrivals, requests and other patterns of flows; for other traffic use at: and for:", "the workload has no flows for the window")
	case f.End != nil && *f.End <= m.WarmUp:
		v.ReportFault(f.End, "", "the window ends at %v, but begins at %v", *f.End, m.WarmUp)
	case f.End != nil && d != nil && *f.End > *d:
		v.ReportFault(f.End, "lengthen the run or shorten the window", "the window ends at %v, after the run, whose duration is %v", *f.End, *d)
	case f.WarmUp != nil && d != nil && m.WarmUp >= *d:
		v.ReportFault(f.WarmUp, "lengthen the run or shorten the warm-up", "the window begins at %v, but the run ends at %v", m.WarmUp, *d)
	case f.Grace != nil && f.End == nil:
		v.ReportFault(f.Grace, "write end: too", "grace begins when the window ends, and the window has no end")
	case f.Grace != nil && d != nil:
		v.ReportFault(f.Grace, "leave out grace, or duration", "grace has no effect: the file's duration sets the end of the run")
	case f.Grace != nil && *f.Grace == 0:
		v.ReportFault(f.Grace, "leave it out to wait for all flows, or write duration: to end with the window", "grace must be above 0")
	}
}
