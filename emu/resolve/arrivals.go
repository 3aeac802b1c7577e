package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

func (e *patternEntry) resolveArrivals(f *labfile.Arrivals) maker {
	a := pattern.Arrivals{Stream: e.stream, Sizes: sizesOf(e.Reader, &f.Sizes), Gaps: e.resolveLaw(f.Gaps)}
	a.Hosts = e.findHosts(f.Hosts, &f.Hosts, 1)
	a.To = e.resolveDestinations(f.To, a.Hosts)
	a.Start, a.Stop = e.resolveSpan(&f.Span)
	setFrom((*labfile.Amount)(&a.Flows), f.Count)
	e.checkEnd(f.Stop != nil || f.Count != nil, "stop: or count:")
	a.Rate = e.offeredRate(f, a.Hosts)
	return a
}

// offeredRate returns the payload rate that each sender offers.
func (e *patternEntry) offeredRate(f *labfile.Arrivals, hosts []int) units.Rate {
	switch {
	case (f.Load == nil) == (f.Rate == nil):
		e.ReportFault(e.FirstSet(f.Rate, e.place), "write for example load: 50%, or rate: 10Gbps for each sender", "exactly one of load and rate is required")
		return 0
	case f.Rate != nil && f.Of != nil:
		e.ReportFault(f.Of, "leave it out", "of is the capacity that load refers to, and has no effect on rate")
		return 0
	case f.Rate != nil:
		if *f.Rate == 0 {
			e.ReportFault(f.Rate, "write for example rate: 10Gbps", "rate must not be unlimited")
		}
		return *f.Rate
	case *f.Load == 0:
		e.ReportFault(f.Load, "write for example load: 50%", "load must be above 0")
		return 0
	case f.Of != nil && *f.Of == 0:
		e.ReportFault(f.Of, "write for example of: 100Gbps", "the capacity (of) must not be unlimited")
		return 0
	}
	var capacity units.Rate
	if f.Of != nil {
		capacity = *f.Of
	} else {
		capacity = e.linkCapacity(f.Load, hosts)
	}
	return units.Rate(float64(*f.Load)*float64(capacity) + 0.5)
}

// linkCapacity returns the rate of a link of the hosts, which must all have the same; load is where
// the file asks for it. It returns 0 after a fault.
func (e *patternEntry) linkCapacity(load *units.Fraction, hosts []int) (rate units.Rate) {
	const hint = "write of: with the capacity of each sender, or an entry for each group of hosts"
	first := ""
	for _, h := range hosts {
		for i := range e.plan.Nodes[h].Ports {
			p := &e.plan.Nodes[h].Ports[i]
			if p.Link < 0 || len(p.Addresses) == 0 {
				continue // if there is no other, that is reported with the carrier
			}
			name := e.plan.PortName(h, i)
			switch r := e.rateOf(p); {
			case r == 0:
				e.ReportFault(load, hint, "the link of %s has no rate", name)
				return 0
			case rate != 0 && r != rate:
				e.ReportFault(load, hint, "the senders' links differ in rate: %s has %v, %s has %v", first, rate, name, r)
				return 0
			case rate == 0:
				rate, first = r, name
			}
		}
	}
	return rate
}
