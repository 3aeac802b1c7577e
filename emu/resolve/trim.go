package resolve

import (
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/trim"
)

// What remains after the IP header of a trimmed packet.
const (
	// Ultra Ethernet keeps at least this (UEC 1.0 §4.1).
	keepUEC units.Bytes = 24
	// NDP's headers are 64 bytes, with those of Ethernet and IPv4 and the FCS:
	// the shortest frame (Handley et al., SIGCOMM 2017).
	keepNDP units.Bytes = 64 - 14 - 20 - 4
)

// resolveTrimming resolves how the packets of a class are trimmed, nil if they are not.
func (v *qos) resolveTrimming(d *qosFile, file *namedClass, port *plan.Port, mtu units.Bytes) *trim.Config {
	f := file.Trim.Settings()
	if f == nil {
		return nil
	}
	t := &trim.Config{Keep: keepUEC}
	uec := f.Preset != nil && *f.Preset == labfile.UECTrim
	if f.Preset != nil && *f.Preset == labfile.NDPTrim {
		t = &trim.Config{Keep: keepNDP, Tail: 0.5, Return: true}
	}
	setFrom(&t.Keep, f.Keep)
	setFrom((*labfile.DSCP)(&t.DSCP), f.DSCP)
	setFrom(&t.Tail, f.Tail)
	setFrom(&t.Return, f.Return)
	setFrom(&t.FixLength, f.FixLength)

	const header = 20 // of IPv4
	own := slices.Index(d.classes, file)
	switch {
	case d.isLossless(file):
		v.ReportFault(file.Trim, "leave one of them out", "trim has no effect: the lossless class %s never overflows", file.name)
	case port.Classes[own].Limit == 0 && port.Classes[own].Alpha == 0:
		v.ReportFault(file.Trim, "give the class a limit", "trim has no effect: the queue of the class %s has no limit", file.name)
	case uec && t.Keep < keepUEC:
		v.ReportFault(f.Keep, "", "Ultra Ethernet keeps at least %v behind the IP header, not %v", keepUEC, t.Keep)
	case t.Keep+header >= mtu:
		v.ReportFault(v.FirstSet(f.Keep, f), "", "trim has no effect: packets of at most %v have no more than %v behind their IP header", mtu, t.Keep)
	case f.DSCP == nil:
		v.ReportFault(v.FirstSet(f.Preset, f), "write for example trim: {dscp: 10}, with a class that has this DSCP", "trim lacks dscp, which selects the class of trimmed packets")
	default:
		v.trimmedClass(d, file, f, port)
	}
	return t
}

// trimmedClass checks the class that trimmed packets get.
func (v *qos) trimmedClass(d *qosFile, from *namedClass, f *labfile.Trim, port *plan.Port) {
	to := slices.IndexFunc(d.classes, func(c *namedClass) bool {
		return slices.ContainsFunc(c.DSCP, func(r labfile.DSCPRange) bool { return r.Low <= uint8(*f.DSCP) && uint8(*f.DSCP) <= r.High })
	})
	const hint = "they need a separate class with this dscp, a limit and usually a higher priority"
	switch {
	case to < 0:
		v.ReportFault(f.DSCP, hint, "no class has the dscp %d of trimmed packets", *f.DSCP)
	case d.classes[to] == from:
		v.ReportFault(f.DSCP, hint, "trimmed packets of the class %s would stay in that class, which is full", from.name)
	case port.Classes[to].Limit == 0 && port.Classes[to].Alpha == 0:
		v.ReportFault(f.DSCP, hint, "the class %s of trimmed packets has no limit", d.classes[to].name)
	}
}
