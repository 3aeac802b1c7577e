package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) resolveBursts(f *labfile.Bursts) maker {
	o := pattern.OnOff{Stream: e.stream, Sizes: sizesOf(e.Reader, &f.Sizes), Phases: e.resolveLaw(f.Phases), Off: f.Off}
	o.Hosts = e.findHosts(f.Hosts, &f.Hosts, 1)
	o.To = e.resolveDestinations(f.To, o.Hosts)
	setFrom((*labfile.Amount)(&o.Burst), f.Burst)
	setFrom(&o.On, f.On)
	o.Start, o.Stop = e.resolveSpan(&f.Span)
	e.checkEnd(f.Stop != nil, "stop:")
	e.checkTime(&f.Off, "off", maxTime)
	e.checkTime(f.On, "on", maxTime)
	switch {
	case (f.Burst == nil) == (f.On == nil):
		e.ReportFault(e.FirstSet(f.On, e.place), "write burst: with a number of flows, or on: with a time", "exactly one of burst and on is required")
	case f.On != nil && *f.On == 0:
		e.ReportFault(f.On, "write for example on: 1ms", "on must be above 0")
	}
	return o
}
