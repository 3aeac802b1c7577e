package lab

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/sim/units"
)

// Sample returns the current state of the lab. The engines stand still while it is read:
// about a microsecond for each port, NIC, queue pair and flow of an edge service, of which
// it has a few of each. After the run it returns wall.ErrStopped.
func (l *Lab) Sample() (*report.Sample, error) {
	s := &report.Sample{Lab: l.plan.Name, Clock: report.Wall, Dilation: l.plan.Dilation, Trouble: l.monitor.currentWarning()}
	err := l.doStopped(func() {
		f := l.fabric
		s.Emulated, s.Events, s.Accounts, s.Ports, s.Switches, s.NICs, s.Timing = f.Now(), f.Events(), f.Accounts(), f.Status(), f.SwitchStatus(), f.NICs(), l.timingReport()
		s.CPUTime = units.FromDuration(processCPU() - l.startCPU)
		for _, e := range l.engines {
			s.EngineCPUTime += units.FromDuration(e.cpu)
		}
	})
	return s, err
}

// timingReport returns how well the run has kept to the wall clock so far. It must be
// called while the engines are held, or after the run.
func (l *Lab) timingReport() report.Timing {
	t := report.Timing{
		Dilation: l.plan.Dilation, Lateness: l.latenessSummary(), Realtime: l.engines[0].driver.IsRealtime(), IO: plan.IOReadWrite.String(), Spin: l.plan.Engine.Spin,
		Strict: l.plan.Fidelity.Strict, Allowed: l.plan.Fidelity.Share, Overload: l.monitor.loadSummary(), Stood: l.clock.StoodStill(), Workers: len(l.engines),
	}
	if slices.ContainsFunc(l.engines, func(e *engine) bool { return e.driver.UsesUring() }) {
		t.IO = plan.IOUring.String()
	}
	for _, e := range l.engines {
		t.Absent = max(t.Absent, e.driver.AbsentTime())
	}
	if run := l.clock.ToReal(l.fabric.Now() + l.clock.StoodStill()).Seconds(); run > 0 {
		t.CPU = (processCPU() - l.startCPU).Seconds() / run
		for _, e := range l.engines {
			t.Engine += e.cpu.Seconds() / run
		}
	}
	return t
}
