package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// Overhead of IP and UDP headers per packet, below the MTU.
const (
	overIPv4 units.Bytes = 20 + 8
	overIPv6 units.Bytes = 40 + 8
)

// addFlows resolves one entry of the workload that sends packets, and returns its
// name.
func (v *traffic) addFlows(f *labfile.Workload) *string {
	flow, file := v.resolveFlow(f)
	if flow.For == 0 && v.duration == nil {
		v.ReportFault(f, "write for: in the flow, or duration: in the file", "the flow sends until the run ends, and the run has no end")
	}
	from, ok1 := v.ends(file.From, &file.From, false)
	to, ok2 := v.ends(file.To, &file.To, false)
	if !ok1 || !ok2 {
		return nil
	}
	for _, p := range v.pairHosts(from, to, &file.From, &file.To) {
		flow.From, flow.FromPort, flow.To, flow.ToPort = p.from.host, p.from.port, p.to.host, p.to.port
		if v.checkPath(&flow, file) {
			v.plan.Flows = append(v.plan.Flows, flow)
		}
	}
	return file.Name
}

// resolveFlow resolves the settings of an entry's flows, except for the hosts.
func (v *traffic) resolveFlow(f *labfile.Workload) (workload.Flow, *labfile.Constant) {
	var flow workload.Flow
	var file *labfile.Constant
	switch {
	case f.CBR != nil:
		flow.Pattern, file = workload.CBR, f.CBR
	case f.Poisson != nil:
		flow.Pattern, file = workload.Poisson, f.Poisson
	default:
		flow.Pattern, file = workload.OnOff, &f.OnOff.Constant
		flow.On, flow.Off = f.OnOff.On, f.OnOff.Off
		flow.Exponential = f.OnOff.Phases == labfile.ExponentialPhases
		v.checkPhase(&f.OnOff.On, "on")
		v.checkPhase(&f.OnOff.Off, "off")
	}
	flow.Rate, flow.Size, flow.At = file.Rate, file.Size, file.At
	flow.ECT, flow.DSCP = file.ECT, uint8(file.DSCP)
	setFrom(&flow.For, file.For)
	if file.Rate == 0 {
		v.ReportFault(&file.Rate, "write for example rate: 10Mbps", "rate must not be unlimited")
	}
	if file.Size == 0 {
		v.ReportFault(&file.Size, "write for example size: 1200B", "size must be above 0")
	}
	if file.For != nil && *file.For == 0 {
		v.ReportFault(file.For, "leave for out to send until the run ends", "for must be above 0")
	}
	if file.Name != nil {
		v.checkName(file.Name, "a flow's name", *file.Name, maxNodeName)
	}
	v.checkTime(&file.At, "at", maxTime)
	v.checkTime(file.For, "for", maxTime)
	return flow, file
}

func (v *traffic) checkPhase(t *units.Time, what string) {
	if *t == 0 {
		v.ReportFault(t, "for a flow without phases, use cbr", "a phase must be longer than 0")
	}
	v.checkTime(t, what, maxTime)
}

// checkPath resolves the version of IP of a flow and checks that its packets get
// from one host to the other.
func (v *traffic) checkPath(flow *workload.Flow, file *labfile.Constant) (ok bool) {
	if flow.IPv6, ok = v.chooseIPVersion(flowPair(flow), file.IP, &file.To); !ok {
		return false
	}
	path, ok := v.findPath(flowPair(flow), flow.IPv6, false, &file.To)
	if !ok {
		return false
	}
	from, to := &v.plan.Nodes[flow.From], &v.plan.Nodes[flow.To]
	sender, receiver := &from.Ports[path.From.Port], &to.Ports[path.To.Port]
	version, over := 4, overIPv4
	if flow.IPv6 {
		version, over = 6, overIPv6
	}
	over += max(from.EdgeOverhead(flow.IPv6), to.EdgeOverhead(flow.IPv6))
	for _, s := range []links.Settings{v.settingsOf(sender, 0), v.settingsOf(receiver, 1)} {
		if packet := flow.Size + over; packet > s.MTU {
			v.ReportFault(&file.Size, fmt.Sprintf("the largest payload is %dB", s.MTU-over),
				"a payload of %dB makes packets of %dB with the IPv%d and UDP headers, more than the mtu %d between %s and %s",
				flow.Size, packet, version, s.MTU, from.Name, to.Name)
			return false
		}
	}
	return true
}
