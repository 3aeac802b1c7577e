package file

import (
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
	"github.com/weftlab/weft/experiment/output"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/sim/units"
)

// Defaults and bounds of real programs.
const (
	defaultTries  = 3
	maxTries      = 100
	defaultLimit  = 300 * units.Second
	defaultWithin = time.Minute // as in lab files
)

// clockFactor is the factor that an experiment with both clocks has.
const clockFactor = "clock"

// resolveClocks resolves the clocks; if there are two, they are the first factor.
func (v *resolver) resolveClocks() {
	e, list := v.e, v.file.Clock
	e.Clocks = []experiment.Clock{experiment.Virtual}
	if len(list) > 0 {
		e.Clocks = nil
	}
	for i := range list {
		c := experiment.Clock(list[i])
		if e.HasClock(c) {
			v.ReportFault(&list[i], "", "duplicate clock %s", c)
		}
		e.Clocks = append(e.Clocks, c)
	}
	if len(e.Clocks) == 1 {
		return
	}
	f, levels := v.quickLevels(experiment.Factor{Name: clockFactor, Levels: toStrings(e.Clocks)}, make([]level, len(e.Clocks)))
	e.Factors, v.levels = append(e.Factors, f), append(v.levels, levels)
	e.Clocks = nil
	for _, l := range f.Levels {
		e.Clocks = append(e.Clocks, experiment.Clock(l))
	}
}

// clockOf returns the clock of a combination of levels.
func (v *resolver) clockOf(levels []int) experiment.Clock {
	if i := v.e.FactorIndex(clockFactor); len(v.file.Clock) > 1 && i >= 0 {
		return experiment.Clock(v.e.Factors[i].Levels[levels[i]])
	}
	return v.e.Clocks[0]
}

// hasWall reports whether any form of the file has cells in wall-clock time.
func (v *resolver) hasWall() bool { return slices.Contains(v.file.Clock, clock(experiment.Wall)) }

// resolvePrograms resolves the real programs and their settings.
func (v *resolver) resolvePrograms() {
	f := &v.file
	if !v.hasWall() {
		if p := v.FirstSet(&f.Programs, f.Workload, f.Repeat, f.Late); p != nil {
			v.ReportFault(p, "write clock: wall, or clock: [wall, virtual] to compare them with the lab's modelled traffic", "real programs need the wall clock, and this experiment runs in virtual time")
		}
		return
	}
	r := &experiment.Real{Tries: defaultTries}
	override(&r.Workload, f.Workload)
	if f.Repeat != nil {
		if r.Tries = *f.Repeat; r.Tries < 1 || r.Tries > maxTries {
			v.ReportFault(f.Repeat, "write 1 for no repetition", "repeat must be 1 to %d, not %d", maxTries, r.Tries)
		}
	}
	r.KeepLate = f.Late != nil && *f.Late == "keep"
	ends := false // whether any program ends by itself
	for i := range f.Programs {
		p := v.resolveProgram(&f.Programs[i])
		if slices.ContainsFunc(r.Programs, func(o experiment.Program) bool { return o.Name == p.Name }) {
			v.ReportFault(&f.Programs[i].Name, "", "duplicate program %q", p.Name)
		}
		r.Programs = append(r.Programs, p)
		ends = ends || !p.Server
	}
	if !ends {
		v.ReportFault(v.FirstSet(&f.Programs, &f.Clock), "a run ends when all programs except servers have ended: write for example programs: [{name: ping, host: h1, command: ping -c 10 h2, read: ping}]", "nothing ends a run in wall-clock time")
	}
	if v.Err() != nil {
		return
	}
	v.e.Real = r
	var err error
	if v.tables, err = cell.ProgramTables(r); err != nil {
		v.ReportFault(&f.Programs, "give each its own table, with table:", "%v", err)
	}
}

// resolveProgram resolves a real program.
func (v *resolver) resolveProgram(f *programFile) experiment.Program {
	p := experiment.Program{Name: f.Name, Host: f.Host, Command: f.Command, Server: f.Server, Dilated: f.Dilated, Limit: defaultLimit, Ready: plan.Ready{Within: defaultWithin}}
	if !namePattern.MatchString(p.Name) {
		v.ReportFault(&f.Name, "at most 64 letters, digits, _ . -", "%q cannot be a program's name", p.Name)
	}
	if strings.TrimSpace(p.Command) == "" || strings.ContainsRune(p.Command, 0) {
		v.ReportFault(&f.Command, "write for example command: iperf3 -c h2 -J", "the program %s has no command", p.Name)
	}
	override(&p.At, f.At)
	if p.At < 0 {
		v.ReportFault(f.At, "write a time from when the lab is up, such as 1s", "%s starts before the lab", p.Name)
	}
	if f.Ready != nil {
		p.Ready = resolve.ResolveReady(v.Reader, f.Ready)
	}
	override(&p.Limit, f.Limit)
	switch {
	case f.Limit != nil && p.Server:
		v.ReportFault(f.Limit, "leave it out", "a limit has no effect on a server, which ends when the others have ended")
	case p.Limit <= 0:
		v.ReportFault(f.Limit, "write a time such as 60s", "%s has no time to run", p.Name)
	}
	if p.Server {
		p.Limit = 0
	}
	if f.Read != nil {
		v.resolveReading(&p, f.Read)
	}
	return p
}

// resolveReading resolves how a program's output is read.
func (v *resolver) resolveReading(p *experiment.Program, f *readForm) {
	p.Read.Format = f.format
	if f.format != experiment.Regexp {
		return
	}
	p.Read.Expr, p.Read.Table = f.Regexp, p.Name
	override(&p.Read.Table, f.Table)
	if !namePattern.MatchString(p.Read.Table) {
		v.ReportFault(f.Table, "at most 64 letters, digits, _ . -", "%q cannot be a table's name", p.Read.Table)
	}
	taken := append(cell.TableNames(), experiment.LatenessTable, output.Iperf3, output.Iperf3Intervals, output.Ping, output.Perftest, output.Wrk, output.Memaslap)
	if slices.Contains(taken, p.Read.Table) {
		place := any(&f.Regexp)
		if f.Table != nil {
			place = f.Table
		}
		v.ReportFault(place, "write table: with another name", "there is already a table %q with other columns", p.Read.Table)
	}
	if _, err := output.EmptyTables([]experiment.Program{*p}); err != nil {
		v.ReportFault(&f.Regexp, "", "%v", err)
	}
}

// checkHosts checks that the programs' hosts exist and can run programs.
func (v *resolver) checkHosts(p *plan.Plan) {
	var hosts []string
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Kind == plan.Host && n.Attach != plan.NoDevice {
			hosts = append(hosts, n.Name)
		}
	}
	for i := range v.file.Programs {
		f := &v.file.Programs[i]
		n := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.Name == f.Host })
		switch {
		case slices.Contains(hosts, f.Host):
			if f.Dilated && p.Nodes[n].VM != nil {
				v.ReportFault(&f.Host, "leave dilated out", "%s is a virtual machine, which has its own clock", f.Host)
			}
		case n >= 0 && p.Nodes[n].Kind == plan.Host:
			v.ReportFault(&f.Host, "give it attach: tap", "the host %s has no device, so no program can run there", f.Host)
		default:
			v.ReportFault(&f.Host, suggest.Hint(f.Host, "the hosts are", hosts), "there is no host %q", f.Host)
		}
	}
}

// emptyTable returns a table of the experiment's runs without rows; nil for series and for an
// unknown name.
func (v *resolver) emptyTable(name string) *table.Table {
	if t := v.tables.Table(name); t != nil || name == experiment.LatenessTable {
		return t
	}
	return cell.EmptyTable(name)
}

// tableNames returns the names of all tables of the experiment's runs.
func (v *resolver) tableNames() []string {
	return append(cell.TableNames(), v.tables.Names()...)
}
