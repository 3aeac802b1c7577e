package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) resolvePermutation(f *labfile.FlowPermutation) maker {
	p := pattern.Permutation{Stream: e.stream, Sizes: sizesOf(e.Reader, &f.Sizes)}
	p.Hosts = e.findHosts(f.Hosts, &f.Hosts, 2)
	p.Partners.Stride = e.resolveStride(f.Stride, len(p.Hosts))
	setFrom((*labfile.Amount)(&p.Flows), f.Count)
	p.Start, p.Stop = e.resolveSpan(&f.Span)
	e.checkEnd(f.Stop != nil || f.Count != nil, "stop: or count:")
	return p
}

func (e *patternEntry) allToAll(f *labfile.FlowAllToAll) maker {
	a := pattern.AllToAll{Stream: e.stream, Sizes: sizesOf(e.Reader, &f.Sizes), Start: f.Start}
	a.Hosts = e.findHosts(f.Hosts, &f.Hosts, 2)
	setFrom((*labfile.Amount)(&a.Window), f.Window)
	e.checkTime(&f.Start, "start", maxTime)
	return a
}

func (e *patternEntry) resolveCollective(f *labfile.Collective) maker {
	c := pattern.Collective{Stream: e.stream, Operation: pattern.Operation(f.Operation), Size: f.Size, Computing: e.resolveLaw(f.Computing)}
	c.Hosts = e.findHosts(f.Hosts, &f.Hosts, 2)
	setFrom((*labfile.Amount)(&c.Iterations), f.Iterations)
	setFrom(&c.Compute, f.Compute)
	c.Start, c.Stop = e.resolveSpan(&f.Span)
	e.checkEnd(f.Stop != nil || f.Iterations != nil, "iterations: or stop:")
	e.checkTime(f.Compute, "compute", maxTime)
	switch n := units.Bytes(len(c.Hosts)); {
	case f.Size < n:
		e.ReportFault(&f.Size, fmt.Sprintf("write at least %v", n), "size %v is too small for %d ranks: each chunk needs at least 1B", f.Size, n)
	case f.Computing != nil && f.Compute == nil:
		e.ReportFault(f.Computing, "write compute: too", "computing is the distribution of compute, and has no effect without it")
	}
	return c
}
