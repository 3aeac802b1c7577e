package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) bursts(f *labfile.Bursts) maker {
	o := pattern.OnOff{Stream: e.stream, Sizes: sizesOf(e.Reader, &f.Sizes), Phases: e.law(f.Phases), Off: f.Off}
	o.Hosts = e.hosts(f.Hosts, &f.Hosts, 1)
	o.To = e.destinations(f.To, o.Hosts)
	set((*labfile.Amount)(&o.Burst), f.Burst)
	set(&o.On, f.On)
	o.Start, o.Stop = e.span(&f.Span)
	e.ends(f.Stop != nil, "stop:")
	e.checkTime(&f.Off, "off", maxTime)
	e.checkTime(f.On, "on", maxTime)
	switch {
	case (f.Burst == nil) == (f.On == nil):
		e.Fail(e.Some(f.On, e.place), "write burst: with a number of flows, or on: with a time", "exactly one of burst and on is required")
	case f.On != nil && *f.On == 0:
		e.Fail(f.On, "write for example on: 1ms", "on must be above 0")
	}
	return o
}
