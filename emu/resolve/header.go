package resolve

import (
	"path/filepath"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

const (
	maxLabName = 32 // together with a node's name, part of namespace names
	maxSpin    = units.Second
)

// header has the settings of the lab as a whole.
type header struct {
	*base
	file *labfile.Lab
}

// resolveHeader adds the settings to the plan.
func (v *header) resolveHeader() {
	p, lab := v.plan, v.file
	if lab.Name != nil {
		p.Name = *lab.Name
		v.checkName(lab.Name, "the lab's name", p.Name, maxLabName)
	} else {
		file := filepath.Base(v.File())
		p.Name = strings.TrimSuffix(file, filepath.Ext(file))
		if !namePattern.MatchString(p.Name) || len(p.Name) > maxLabName {
			v.ReportFault(lab, "write name: in the file; "+nameHint(maxLabName), "the file's name %q cannot be the lab's name", file)
		}
	}
	p.Seed = 1
	setFrom(&p.Seed, lab.Seed)
	setFrom(&p.Duration, lab.Duration)
	if lab.Duration != nil && *lab.Duration == 0 {
		v.ReportFault(lab.Duration, "leave it out to run until the last flow ends", "duration must be above 0")
	}
	v.checkTime(lab.Duration, "duration", maxTime)

	p.Dilation = 1
	if d := lab.Dilation; d != nil {
		p.Dilation = int(*d)
	}
	p.Fidelity = plan.Fidelity{Strict: lab.Fidelity.Mode == labfile.Strict, Limit: units.Millisecond}
	setFrom(&p.Fidelity.Limit, lab.Fidelity.Limit)
	setFrom(&p.Fidelity.Share, lab.Fidelity.Share)
	if p.Fidelity.Limit == 0 {
		v.ReportFault(lab.Fidelity.Limit, "no packet is exactly on time; 1ms is the default", "limit must be above 0")
	}
	v.checkTime(lab.Fidelity.Limit, "limit", maxTime)
	p.Engine.Realtime = plan.Realtime(lab.Engine.Realtime)
	p.Engine.IO = plan.IO(lab.Engine.IO)
	setFrom(&p.Engine.Spin, lab.Engine.Spin)
	v.checkTime(lab.Engine.Spin, "spin", maxSpin)
}
