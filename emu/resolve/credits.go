package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/wire"
)

// resolveCredits resolves the credits that a class of a port grants.
func (v *qos) resolveCredits(at plan.End, file *namedClass, m *memory, reach [][2]plan.Extreme, c *class.Class) {
	f := file.Credits.Settings()
	if f == nil {
		return
	}
	before := v.Faults()
	name := v.plan.PortName(at.Node, at.Port)
	port := &v.plan.Nodes[at.Node].Ports[at.Port]
	peer := v.plan.Links[port.Link].Ends[1-port.End]
	switch theirs := v.qosFiles[peer.Node]; {
	case v.qosFiles[at.Node].Pause.Settings() != nil:
		v.FailOnce(file.Credits, "leave one of them out; none removes the kind's setting", "pause applies to all classes of a port, and the class %s also has credits", file.name)
		return
	case file.PFC.Settings() != nil:
		v.FailOnce(file.Credits, "leave one of them out; none removes the kind's setting", "the class %s has both pfc and credits", file.name)
		return
	case theirs == nil:
		v.FailOnce(file.Credits, "give it classes too", "credits of %s have no effect: %s has a plain queue, which ignores them", name, v.plan.Nodes[peer.Node].Name)
		return
	case !hasPriority(theirs, file.priority):
		v.FailOnce(file.Credits, "give it a class with this priority", "%s gives %s credits of priority %d, which has no class there",
			name, v.plan.Nodes[peer.Node].Name, file.priority)
		return
	}
	v.inOrder(port.Link, file)

	config := credit.Config{Buffer: m.part}
	setFrom(&config.Buffer, f.Buffer)
	in := reach[port.Link][1-port.End]
	frame := in.MTU + wire.EthernetHeader
	room, longest := int(config.Buffer/credit.Block), int((frame+credit.Block-1)/credit.Block)
	switch {
	case config.Buffer == 0 && f.Buffer == nil:
		v.FailOnce(file.Credits, "write for example credits: {buffer: 16KB}", "credits of the class %s lack buffer, the space of each port for queued packets", file.name)
		return
	case config.Buffer > credit.MaxBuffer:
		v.FailOnce(v.FirstSet(f.Buffer, file.Credits), "", "a buffer of %v exceeds the %v that credits can count", config.Buffer, credit.MaxBuffer)
		return
	case m.part > 0 && config.Buffer > m.part:
		v.FailOnce(f.Buffer, "enlarge size of the buffer, or leave this out for the whole share", "a buffer of %v for credits exceeds the share of a class at a port, %v", config.Buffer, m.part)
		return
	case room < longest:
		v.FailOnce(v.FirstSet(f.Buffer, file.Credits), "enlarge it, or write a smaller mtu in the link",
			"a buffer of %v has %d blocks of %v, and a packet of the MTU (%dB with its Ethernet header) takes %d at %s: it could never be sent",
			config.Buffer, room, credit.Block, frame, longest, name)
		return
	}
	// If no more than this is held back, the longest packet always gets credit
	// eventually.
	maxCredit := units.Bytes(room-longest+1) * credit.Block
	config.Update = min(config.Buffer/4, maxCredit)
	setFrom(&config.Update, f.Update)
	switch {
	case config.Update == 0:
		v.ReportFault(f.Update, "a quarter of the buffer is the default", "update must be above 0")
	case config.Update > maxCredit:
		v.FailOnce(f.Update, "so that a sender never waits for less", "an update of %v is too large: of the buffer's %v a packet of the MTU takes %v at %s, which leaves at most %v",
			config.Update, config.Buffer, units.Bytes(longest)*credit.Block, name, maxCredit)
	}
	switch {
	case f.Period != nil && *f.Period == 0:
		v.ReportFault(f.Period, "leave it out for the time of 65536 bytes on the link", "period must be above 0")
	case f.Period != nil:
		v.checkTime(f.Period, "period", maxTime)
		config.Period = *f.Period
	case in.Slowest == 0:
		v.FailOnce(file.Credits, "write rate: in the link, or period: in credits", "the period of credits depends on the rate of the link, and the link of %s is unlimited", name)
	default:
		config.Period = in.Slowest.TimeOf(credit.SymbolTimes)
	}
	if v.Faults() == before {
		if c.Credits = &config; m.size > 0 {
			c.Ingress.Reserve = config.Buffer
		}
	}
}

// inOrder reports links that reorder packets: a receiver takes a packet for lost when the
// sender's account of it arrives first.
func (v *qos) inOrder(link int, file *namedClass) {
	l := &v.plan.Links[link]
	bad := false
	for d := range l.Dir {
		bad = bad || l.Dir[d].Reorder > 0 || l.Dir[d].JitterReorder
	}
	for _, e := range v.plan.Events {
		if e.Link == link {
			bad = bad || e.Set.Reorder != nil && *e.Set.Reorder > 0 || e.Set.JitterReorder != nil && *e.Set.JitterReorder
		}
	}
	if bad {
		v.FailOnce(file.Credits, "leave out reorder and jitter-reorder, or the credits", "credits need a link that keeps packets in order, and the link of %s and %s does not",
			v.plan.PortName(l.Ends[0].Node, l.Ends[0].Port), v.plan.PortName(l.Ends[1].Node, l.Ends[1].Port))
	}
}
